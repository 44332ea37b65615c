/* Firmware runtime: a reader of JSON text that does not recurse. */
#include "json.h"

static void fail(tvmrt_json* in) {
  in->damaged = 1;
  in->at = in->end;
}

char tvmrt__json_peek(tvmrt_json* in) {
  const char* p = in->at;
  while (p < in->end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')) ++p;
  in->at = p;
  return p < in->end ? *p : '\0';
}

void tvmrt__json_expect(tvmrt_json* in, char c) {
  if (tvmrt__json_peek(in) == c && c != '\0') {
    ++in->at;
  } else {
    fail(in);
  }
}

int tvmrt__json_more(tvmrt_json* in, char close, uint32_t* count) {
  char c = tvmrt__json_peek(in);
  if (c == close) {
    ++in->at;
    return 0;
  }
  if (*count != 0) tvmrt__json_expect(in, ',');
  if (c == '\0' || in->damaged) {
    fail(in);
    return 0;
  }
  ++*count;
  return 1;
}

const char* tvmrt__json_text(tvmrt_json* in) {
  const char* first;
  const char* p;
  tvmrt__json_expect(in, '"');
  first = in->at;
  for (p = first; p < in->end && *p != '"'; ++p) {
    if (*p == '\\') ++p;
  }
  if (p >= in->end) {
    fail(in);
    return "\"";
  }
  in->at = p + 1;
  return first;
}

uint32_t tvmrt__json_number(tvmrt_json* in) {
  uint32_t value = 0;
  const char* first;
  (void)tvmrt__json_peek(in);
  for (first = in->at; in->at < in->end && *in->at >= '0' && *in->at <= '9'; ++in->at) {
    if (value > (INT32_MAX - 9) / 10) fail(in);
    if (in->damaged) return 0;
    value = value * 10 + (uint32_t)(*in->at - '0');
  }
  if (in->at == first) fail(in);
  return value;
}

static int is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' || c == '.' ||
         c == 'E';
}

/* Counts brackets without telling their kinds apart: what is read afterwards is read strictly. */
void tvmrt__json_skip(tvmrt_json* in, tvmrt_json_tally* out) {
  uint32_t depth = 0;
  (void)tvmrt__json_peek(in);
  out->at = in->at;
  out->lists = 0;
  out->commas = 0;
  do {
    char c = tvmrt__json_peek(in);
    if (c == '"') {
      (void)tvmrt__json_text(in);
    } else if (is_word(c)) {
      while (in->at < in->end && is_word(*in->at)) ++in->at;
    } else if (c == '[' || c == '{') {
      out->lists += c == '[';
      ++depth;
      ++in->at;
    } else if (depth != 0 && (c == ']' || c == '}')) {
      --depth;
      ++in->at;
    } else if (depth != 0 && (c == ',' || c == ':')) {
      out->commas += c == ',';
      ++in->at;
    } else {
      fail(in);
    }
  } while (depth != 0 && !in->damaged);
}

/* Four hexadecimal digits; 0, which no text has, if there are others. */
static uint32_t read_hex(const char** text) {
  uint32_t value = 0;
  int i;
  for (i = 0; i < 4; ++i) {
    unsigned char c = (unsigned char)**text;
    if (c >= '0' && c <= '9') {
      value = value * 16 + (c - '0');
    } else if ((c | 32) >= 'a' && (c | 32) <= 'f') {
      value = value * 16 + ((c | 32) - 'a') + 10;
    } else {
      return 0;
    }
    ++*text;
  }
  return value;
}

/* The character behind a backslash; 0 if it is none. */
static uint32_t read_escape(const char** text) {
  static const char from[] = "\"\\/bfnrt";
  static const char to[] = "\"\\/\b\f\n\r\t";
  char c = *(*text)++;
  uint32_t value;
  size_t i;
  if (c != 'u') {
    for (i = 0; from[i] != '\0' && from[i] != c; ++i) {
    }
    return (uint32_t)to[i];
  }
  value = read_hex(text);
  if (value >= 0xd800 && value < 0xdc00 && (*text)[0] == '\\' && (*text)[1] == 'u') {
    *text += 2;
    value = 0x10000 + ((value - 0xd800) << 10) + ((read_hex(text) - 0xdc00) & 0x3ff);
  }
  return value;
}

/* UTF-8 of a character. Returns the number of bytes. */
static size_t encode(uint32_t c, char* out) {
  size_t more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  size_t i;
  for (i = more; i > 0; --i, c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
  out[0] = (char)(more == 0 ? c : ((0xf0u << (3 - more)) & 0xf0) | c);
  return more + 1;
}

int tvmrt__json_same(const char* text, const char* bytes, size_t num_bytes) {
  const char* end = bytes + num_bytes;
  while (*text != '"') {
    char utf8[4];
    size_t size = 1;
    size_t i;
    utf8[0] = *text++;
    if (utf8[0] == '\\') {
      uint32_t c = read_escape(&text);
      if (c == 0) return 0;
      size = encode(c, utf8);
    }
    if ((size_t)(end - bytes) < size) return 0;
    for (i = 0; i < size; ++i) {
      if (utf8[i] != *bytes++) return 0;
    }
  }
  return bytes == end;
}
