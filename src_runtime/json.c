/* A reader of JSON text that builds nothing and does not recurse. */
#include "json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void tvmrt__json_init(tvmrt_json* in, const char* what, const char* text, size_t size) {
  in->what = what;
  in->begin = text;
  in->at = text;
  in->end = text + size;
}

int tvmrt__json_fail(const tvmrt_json* in, const char* fmt, ...) {
  char why[256];
  const char* p;
  int line = 1;
  int column = 1;
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(why, sizeof(why), fmt, args);
  va_end(args);
  for (p = in->begin; p < in->at; ++p) {
    column = *p == '\n' ? 1 : column + 1;
    line += *p == '\n';
  }
  return tvmrt__fail_value("%s is damaged: %s at line %d, column %d.", in->what, why, line, column);
}

static void skip_space(tvmrt_json* in) {
  while (in->at < in->end &&
         (*in->at == ' ' || *in->at == '\n' || *in->at == '\t' || *in->at == '\r')) {
    ++in->at;
  }
}

char tvmrt__json_peek(tvmrt_json* in) {
  skip_space(in);
  return in->at < in->end ? *in->at : '\0';
}

int tvmrt__json_expect(tvmrt_json* in, char c) {
  if (tvmrt__json_peek(in) != c) return tvmrt__json_fail(in, "expected '%c'", c);
  ++in->at;
  return 0;
}

int tvmrt__json_array(tvmrt_json* in, tvmrt_json_list* list) {
  list->close = ']';
  list->started = false;
  return tvmrt__json_expect(in, '[');
}

int tvmrt__json_object(tvmrt_json* in, tvmrt_json_list* list) {
  list->close = '}';
  list->started = false;
  return tvmrt__json_expect(in, '{');
}

int tvmrt__json_next(tvmrt_json* in, tvmrt_json_list* list, bool* more) {
  *more = tvmrt__json_peek(in) != list->close;
  if (!*more) {
    ++in->at;
    return 0;
  }
  if (list->started) TVMRT_RETURN_IF_ERROR(tvmrt__json_expect(in, ','));
  list->started = true;
  return 0;
}

int tvmrt__json_next_key(tvmrt_json* in, tvmrt_json_list* list, tvmrt_buf* key, bool* more) {
  TVMRT_RETURN_IF_ERROR(tvmrt__json_next(in, list, more));
  if (!*more) return 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__json_string(in, key));
  return tvmrt__json_expect(in, ':');
}

static int read_hex(tvmrt_json* in, unsigned* out) {
  int i;
  *out = 0;
  for (i = 0; i < 4; ++i, ++in->at) {
    unsigned digit;
    char c = in->at < in->end ? *in->at : '\0';
    if (c >= '0' && c <= '9') {
      digit = (unsigned)(c - '0');
    } else if ((c | 32) >= 'a' && (c | 32) <= 'f') {
      digit = (unsigned)((c | 32) - 'a') + 10;
    } else {
      return tvmrt__json_fail(in, "\\u needs four hexadecimal digits");
    }
    *out = *out * 16 + digit;
  }
  return 0;
}

static int append_utf8(tvmrt_buf* out, unsigned c) {
  char bytes[4];
  size_t size = 0;
  if (c < 0x80) {
    bytes[size++] = (char)c;
  } else if (c < 0x800) {
    bytes[size++] = (char)(0xc0 | c >> 6);
    bytes[size++] = (char)(0x80 | (c & 63));
  } else if (c < 0x10000) {
    bytes[size++] = (char)(0xe0 | c >> 12);
    bytes[size++] = (char)(0x80 | (c >> 6 & 63));
    bytes[size++] = (char)(0x80 | (c & 63));
  } else {
    bytes[size++] = (char)(0xf0 | c >> 18);
    bytes[size++] = (char)(0x80 | (c >> 12 & 63));
    bytes[size++] = (char)(0x80 | (c >> 6 & 63));
    bytes[size++] = (char)(0x80 | (c & 63));
  }
  return tvmrt__buf_append(out, bytes, size);
}

static int read_unicode(tvmrt_json* in, tvmrt_buf* out) {
  unsigned c;
  unsigned low;
  TVMRT_RETURN_IF_ERROR(read_hex(in, &c));
  if (c >= 0xd800 && c < 0xdc00 && in->end - in->at >= 6 && in->at[0] == '\\' && in->at[1] == 'u') {
    in->at += 2;
    TVMRT_RETURN_IF_ERROR(read_hex(in, &low));
    c = 0x10000 + ((c - 0xd800) << 10) + ((low - 0xdc00) & 0x3ff);
  }
  if (c == 0) return tvmrt__json_fail(in, "a text contains a NUL");
  return append_utf8(out, c);
}

static int read_escape(tvmrt_json* in, tvmrt_buf* out) {
  static const char from[] = "\"\\/bfnrt";
  static const char to[] = "\"\\/\b\f\n\r\t";
  const char* found;
  char c = in->at < in->end ? *in->at++ : '\0';
  if (c == 'u') return read_unicode(in, out);
  found = c == '\0' ? NULL : strchr(from, c);
  if (found == NULL) return tvmrt__json_fail(in, "unknown escape");
  return tvmrt__buf_append(out, &to[found - from], 1);
}

int tvmrt__json_string(tvmrt_json* in, tvmrt_buf* out) {
  out->size = 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__json_expect(in, '"'));
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, ""));
  while (in->at < in->end && *in->at != '"') {
    const char* run = in->at;
    while (in->at < in->end && *in->at != '"' && *in->at != '\\' && *in->at != '\0') ++in->at;
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(out, run, (size_t)(in->at - run)));
    if (in->at == in->end || *in->at == '"') break;
    if (*in->at == '\0') return tvmrt__json_fail(in, "a text contains a NUL");
    ++in->at;
    TVMRT_RETURN_IF_ERROR(read_escape(in, out));
  }
  if (in->at == in->end) return tvmrt__json_fail(in, "a text does not end");
  ++in->at;
  return 0;
}

int tvmrt__json_int(tvmrt_json* in, int64_t* out) {
  bool negative = tvmrt__json_peek(in) == '-';
  int64_t value = 0;
  const char* first;
  if (negative) ++in->at;
  first = in->at;
  for (; in->at < in->end && *in->at >= '0' && *in->at <= '9'; ++in->at) {
    int digit = *in->at - '0';
    if (value > (INT64_MAX - digit) / 10) return tvmrt__json_fail(in, "a number is too large");
    value = value * 10 + digit;
  }
  if (in->at == first) return tvmrt__json_fail(in, "expected a whole number");
  *out = negative ? -value : value;
  return 0;
}

static int skip_word(tvmrt_json* in) {
  const char* first = in->at;
  while (in->at < in->end && strchr("+-.eE0123456789truefalsn", *in->at) != NULL &&
         *in->at != '\0') {
    ++in->at;
  }
  return in->at == first ? tvmrt__json_fail(in, "expected a value") : 0;
}

static int skip_text(tvmrt_json* in) {
  for (++in->at; in->at < in->end && *in->at != '"'; ++in->at) {
    if (*in->at == '\\') ++in->at;
  }
  if (in->at >= in->end) {
    in->at = in->end;
    return tvmrt__json_fail(in, "a text does not end");
  }
  ++in->at;
  return 0;
}

/* Counts brackets without telling their kinds apart: what is skipped is not used. */
int tvmrt__json_skip(tvmrt_json* in) {
  size_t depth = 0;
  do {
    char c = tvmrt__json_peek(in);
    if (c == '{' || c == '[') {
      ++depth;
      ++in->at;
    } else if (depth > 0 && (c == '}' || c == ']')) {
      --depth;
      ++in->at;
    } else if (depth > 0 && (c == ',' || c == ':')) {
      ++in->at;
    } else if (c == '"') {
      TVMRT_RETURN_IF_ERROR(skip_text(in));
    } else {
      TVMRT_RETURN_IF_ERROR(skip_word(in));
    }
  } while (depth > 0);
  return 0;
}

int tvmrt__json_write_string(tvmrt_buf* out, const char* text) {
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "\""));
  for (; *text != '\0'; ++text) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') {
      TVMRT_RETURN_IF_ERROR(tvmrt__buf_printf(out, "\\%c", c));
    } else if (c < 0x20) {
      TVMRT_RETURN_IF_ERROR(tvmrt__buf_printf(out, "\\u%04x", c));
    } else {
      TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(out, text, 1));
    }
  }
  return tvmrt__buf_puts(out, "\"");
}
