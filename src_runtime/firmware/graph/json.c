/* A JSON reader that does not recurse.
 *
 * Used by firmware for graphs and by the host's reader of all JSON (base/json.c). On damage it
 * stores what was expected and moves to the end of the text, so that loops over it end and callers
 * test once. Texts are not copied: a text is the address after its first quotation mark, and ends
 * with the unescaped mark; `last_quote` ensures that there is one, so that scanning needs no other
 * bound. */
#include "json.h"

#include "../../../src_backend/mem_functions.h"

/* The end moves to the reader's position, so that nothing more is read. */
static void fail(tvmrt_json* in, char expected) {
  if (!in->damaged) in->damaged = (unsigned char)expected;
  in->end = in->at;
}

/* NUL at the end, and for a NUL in the text, which no caller expects either. */
char tvmrt__json_peek(tvmrt_json* in) {
  const char* p = in->at;
  while (p < in->end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')) ++p;
  in->at = p;
  return p < in->end ? *p : '\0';
}

/* A NUL looks like the end, and is never skipped. */
void tvmrt__json_expect(tvmrt_json* in, char c) {
  if (tvmrt__json_peek(in) == c && c != '\0') {
    ++in->at;
  } else {
    fail(in, c);
  }
}

/* 0 also if the text is damaged: it has ended then, so required items are missing. `count` starts
 * at 0 and decides whether a comma must come, or any item. */
int tvmrt__json_more(tvmrt_json* in, char close, uint32_t* count) {
  char c = tvmrt__json_peek(in);
  char expected = close;
  if (c == close) {
    ++in->at;
    return 0;
  }
  if (*count != 0) {
    expected = ',';
    if (c == expected) ++in->at;
  } else if (c != '\0') {
    expected = c;
  }
  if (c != expected) {
    fail(in, expected);
    return 0;
  }
  ++*count;
  return 1;
}

/* The quotation mark that ends a text; `last` is one after its beginning, where scanning stops at
 * the latest. NULL if an escape contains it. Most characters of names are greater than the two
 * special ones. */
static const char* text_end(const char* p, const char* last) {
  for (;; ++p) {
    if (*p > '\\') continue;
    if (*p == '"') return p;
    if (*p == '\\' && ++p >= last) return NULL;
  }
}

/* Never NULL: a damaged text gives an empty one, which matches no key. */
const char* tvmrt__json_text(tvmrt_json* in) {
  const char* end = NULL;
  const char* first;
  if (tvmrt__json_peek(in) == '"' && in->at < in->last_quote) {
    end = text_end(in->at + 1, in->last_quote);
  }
  if (end == NULL) {
    fail(in, '"');
    return "\"";
  }
  first = in->at + 1;
  in->at = end + 1;
  return first;
}

/* Whole numbers of 31 bits: graphs have no others. A larger number is damage, and so is a sign or a
 * fraction, at which the next expectation fails. */
uint32_t tvmrt__json_number(tvmrt_json* in) {
  uint32_t value = 0;
  const char* first;
  (void)tvmrt__json_peek(in);
  for (first = in->at; in->at < in->end && *in->at >= '0' && *in->at <= '9'; ++in->at) {
    if (value > (INT32_MAX - 9) / 10) {
      first = in->at;
      break;
    }
    value = value * 10 + (uint32_t)(*in->at - '0');
  }
  if (in->at != first) return value;
  fail(in, TVMRT_JSON_NUMBER);
  return 0;
}

/* Counts brackets without distinguishing their types, and checks nothing else: values that are used
 * are read strictly afterwards. Texts are skipped whole, as they may contain brackets. */
void tvmrt__json_skip(tvmrt_json* in, tvmrt_json_tally* out) {
  const char* p;
  uint32_t depth = 0;
  out->lists = 0;
  out->commas = 0;
  (void)tvmrt__json_peek(in);
  p = out->at = in->at;
  for (; p < in->end; ++p) {
    char c = *p;
    if (c == '"') {
      p = p < in->last_quote ? text_end(p + 1, in->last_quote) : NULL;
      if (p == NULL) break;
    } else if (c == ',') {
      if (depth == 0) break;
      ++out->commas;
    } else if ((c | 32) == '{') { /* or '[' */
      out->lists += c == '[';
      ++depth;
    } else if ((c | 32) == '}') { /* or ']' */
      if (depth == 0) break;
      --depth;
    }
  }
  if (p == NULL || depth != 0) {
    fail(in, TVMRT_JSON_VALUE);
  } else {
    in->at = p;
  }
}

/* The key must end at the text's mark; a longer text is different. */
int tvmrt__json_is(const char* text, const char* key) {
  for (; *key != '\0'; ++key, ++text) {
    if (*key != *text) return 0;
  }
  return *text == '"';
}

/* Four hexadecimal digits; 0, which no text has, if a character is not a digit; *text then points to
 * that character. */
static uint32_t read_hex(const char** text) {
  uint32_t value = 0;
  int i;
  for (i = 0; i < 4; ++i) {
    uint32_t digit = (uint32_t)(unsigned char)**text - '0';
    if (digit > 9) {
      digit = ((unsigned char)**text | 32u) - 'a';
      if (digit > 5) return 0;
      digit += 10;
    }
    value = value * 16 + digit;
    ++*text;
  }
  return value;
}

/* *text points after the backslash and is moved after the escape. Returns the number of bytes in
 * utf8; the first is NUL for an invalid escape or one that gives a NUL. */
size_t tvmrt__json_escape(const char** text, char* utf8) {
  const char* pair = "\"\"\\\\//b\bf\fn\nr\rt\t\0";
  char c = *(*text)++;
  uint32_t value;
  size_t more;
  size_t i;
  if (c != 'u') {
    while (*pair != '\0' && *pair != c) pair += 2;
    *utf8 = pair[1];
    return 1;
  }
  value = read_hex(text);
  if (value >= 0xd800 && value < 0xdc00 && (*text)[0] == '\\' && (*text)[1] == 'u') {
    *text += 2;
    value = 0x10000 + ((value - 0xd800) << 10) + ((read_hex(text) - 0xdc00) & 0x3ff);
  }
  more = value < 0x80 ? 0 : value < 0x800 ? 1 : value < 0x10000 ? 2 : 3;
  for (i = more; i > 0; --i, value >>= 6) utf8[i] = (char)(0x80 | (value & 0x3f));
  *utf8 = (char)(more == 0 ? value : ((0xf0u << (3 - more)) & 0xf0) | value);
  return more + 1;
}

/* Compares without copying. An escape that is invalid or gives a NUL equals nothing. */
int tvmrt__json_same(const char* text, const char* bytes, size_t num_bytes) {
  const char* end = bytes + num_bytes;
  for (; *text != '"'; ++bytes) {
    char utf8[4];
    size_t size;
    if (*text != '\\') {
      if (bytes == end || *text++ != *bytes) return 0;
      continue;
    }
    ++text;
    size = tvmrt__json_escape(&text, utf8);
    if (utf8[0] == '\0' || (size_t)(end - bytes) < size) return 0;
    if (memcmp(utf8, bytes, size) != 0) return 0;
    bytes += size - 1;
  }
  return bytes == end;
}

/* The text is borrowed, needs no NUL, and may be NULL, which is damage from the beginning. */
void tvmrt__json_open(tvmrt_json* in, const char* text, size_t num_bytes) {
  in->at = text;
  in->end = text == NULL ? NULL : text + num_bytes;
  in->damaged = text == NULL;
  in->last_quote = in->end;
  /* Searches backwards, once: no text in it can end later. */
  while (in->last_quote > text && *--in->last_quote != '"') {
  }
}
