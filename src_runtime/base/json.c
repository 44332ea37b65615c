/* JSON parser with precise errors, based on the reader that firmware also uses.
 *
 * firmware/graph/json.c reads the text and only detects damage; the expected syntax and the position are
 * added here. Strings are unescaped into caller-provided buffers. A parser owns no memory: after a
 * failure there is nothing to release. */
#include "json.h"

#include <ctype.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Both are borrowed until the last read. The text needs no NUL at its end. */
void tvmrt__parse_init(tvmrt_parser* in, const char* what, const char* text, size_t size) {
  in->what = what;
  in->begin = text;
  in->end = text + size;
  tvmrt__json_open(&in->json, text, size);
}

/* Always -1. The reported position is the reader's: at the token that it could not read, or after
 * it. */
int tvmrt__parse_fail(const tvmrt_parser* in, const char* fmt, ...) {
  char why[256];
  const char* p;
  int line = 1;
  int column = 1;
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(why, sizeof(why), fmt, args);
  va_end(args);
  /* only now: valid texts are read without counting lines */
  for (p = in->begin; p < in->json.at; ++p) {
    column = *p == '\n' ? 1 : column + 1;
    line += *p == '\n';
  }
  return tvmrt__fail_value("%s is damaged: %s at line %d, column %d.", in->what, why, line, column);
}

/* A quotation mark at the position where a string should begin means an unterminated string:
 * otherwise it would have been read. */
int tvmrt__parse_check(const tvmrt_parser* in) {
  const char c = in->json.damaged;
  if (c == '\0') return 0;
  if (c == TVMRT_JSON_NUMBER) return tvmrt__parse_fail(in, "expected an integer");
  if (c == TVMRT_JSON_VALUE) return tvmrt__parse_fail(in, "expected a value");
  if (c == '"' && in->json.at != in->end && *in->json.at == c) {
    return tvmrt__parse_fail(in, "unterminated string");
  }
  return tvmrt__parse_fail(in, "expected '%c'", c);
}

/* Skips spaces before the character. */
static int parse_expect(tvmrt_parser* in, char c) {
  tvmrt__json_expect(&in->json, c);
  return tvmrt__parse_check(in);
}

/* An escape has the length that its digits imply, if all are present: one code unit or a surrogate
 * pair. */
static int read_escape(tvmrt_parser* in, const char** text, tvmrt_buf* out) {
  const char* first = *text;
  char utf8[4];
  const size_t bytes = tvmrt__json_escape(text, utf8);
  const size_t size = (size_t)(*text - first);
  in->json.at = *text;
  if (*first == 'u' && size != strlen("u0000") && size != strlen("u0000\\u0000")) {
    return tvmrt__parse_fail(in, "\\u needs four hexadecimal digits");
  }
  if (utf8[0] == '\0')
    return tvmrt__parse_fail(in, *first == 'u' ? "a string contains NUL" : "unknown escape");
  return tvmrt__buf_append(out, utf8, bytes);
}

/* A NUL is refused in either form: names become C strings, and would be truncated. */
int tvmrt__parse_string(tvmrt_parser* in, tvmrt_buf* out) {
  const char* text = tvmrt__json_text(&in->json);
  out->size = 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_check(in));
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, ""));
  for (;;) {
    /* the text between two escapes is copied at once */
    const char* run = text;
    while (*text != '"' && *text != '\\' && *text != '\0') ++text;
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(out, run, (size_t)(text - run)));
    in->json.at = text + 1;
    if (*text == '"') return 0;
    if (*text++ == '\0') return tvmrt__parse_fail(in, "a string contains NUL");
    TVMRT_RETURN_IF_ERROR(read_escape(in, &text, out));
  }
}

/* The minimum int64_t is refused like larger magnitudes: no file contains it, and negating it is
 * undefined. */
char tvmrt__parse_peek(tvmrt_parser* in) { return tvmrt__json_peek(&in->json); }

int tvmrt__parse_int(tvmrt_parser* in, int64_t* out) {
  bool negative = tvmrt__json_peek(&in->json) == '-';
  int64_t value = 0;
  const char* first;
  if (negative) ++in->json.at;
  first = in->json.at;
  for (; in->json.at < in->json.end && *in->json.at >= '0' && *in->json.at <= '9'; ++in->json.at) {
    int digit = *in->json.at - '0';
    if (value > (INT64_MAX - digit) / 10) return tvmrt__parse_fail(in, "a number is too large");
    value = value * 10 + digit;
  }
  if (in->json.at == first) return tvmrt__parse_fail(in, "expected an integer");
  *out = negative ? -value : value;
  return 0;
}

/* Collect all characters of a number; strtod validates them, and knows "inf" and "nan" too. It
 * depends on the program's locale, which may use another decimal point than JSON. */
int tvmrt__parse_real(tvmrt_parser* in, double* out) {
  const char* point = localeconv()->decimal_point;
  char text[400]; /* the largest float has 309 digits before the point */
  size_t size = 0;
  const char* first;
  char* end;
  (void)tvmrt__json_peek(&in->json);
  first = in->json.at;
  for (; in->json.at < in->json.end; ++in->json.at) {
    const char c = *in->json.at;
    if (c == '\0' || (!isalnum((unsigned char)c) && strchr("+-.", c) == NULL)) break;
    if (size + strlen(point) >= sizeof(text)) break;
    if (c != '.') {
      text[size++] = c;
    } else {
      memcpy(text + size, point, strlen(point));
      size += strlen(point);
    }
  }
  text[size] = '\0';
  *out = strtod(text, &end);
  if (size != 0 && end == text + size) return 0;
  in->json.at = first; /* position for the error text */
  return tvmrt__parse_fail(in, "'%.20s' is not a number", text);
}

/* Skip a number or a word, also Python's NaN and Infinity. The order of the letters is not checked:
 * skipped values are not used. */
static int skip_word(tvmrt_parser* in) {
  const char* first = in->json.at;
  while (in->json.at < in->json.end &&
         strchr("+-.eE0123456789truefalsnINiy", *in->json.at) != NULL && *in->json.at != '\0') {
    ++in->json.at;
  }
  return in->json.at == first ? tvmrt__parse_fail(in, "expected a value") : 0;
}

/* Counts brackets without distinguishing their kinds: skipped text is not used, or read strictly
 * afterwards. */
int tvmrt__parse_count(tvmrt_parser* in, tvmrt_parse_counts* out) {
  size_t depth = 0;
  memset(out, 0, sizeof(*out));
  (void)tvmrt__json_peek(&in->json);
  out->at = in->json.at;
  do {
    const char c = tvmrt__json_peek(&in->json);
    const bool is_value = strchr("]},:", c) == NULL;
    /* deeper levels are not counted */
    if (is_value && depth < sizeof(out->values) / sizeof(out->values[0])) ++out->values[depth];
    if (c == '{' || c == '[') {
      out->lists += c == '[';
      ++depth;
      ++in->json.at;
    } else if (depth > 0 && (c == '}' || c == ']')) {
      --depth;
      ++in->json.at;
    } else if (depth > 0 && (c == ',' || c == ':')) {
      ++in->json.at;
    } else if (c == '"') {
      (void)tvmrt__json_text(&in->json);
      TVMRT_RETURN_IF_ERROR(tvmrt__parse_check(in));
    } else {
      TVMRT_RETURN_IF_ERROR(skip_word(in));
    }
  } while (depth > 0);
  return 0;
}

/* Without recursion, so a malicious text cannot exhaust the stack. */
int tvmrt__parse_skip(tvmrt_parser* in) {
  tvmrt_parse_counts ignored;
  return tvmrt__parse_count(in, &ignored);
}

/* `read` reads one value; if it fails, the list ends. The commas are read here. */
int tvmrt__parse_items(tvmrt_parser* in, int (*read)(tvmrt_parser* in, void* into), void* into) {
  uint32_t count = 0;
  TVMRT_RETURN_IF_ERROR(parse_expect(in, '['));
  while (tvmrt__json_more(&in->json, ']', &count)) TVMRT_RETURN_IF_ERROR(read(in, into));
  return tvmrt__parse_check(in);
}

/* The key is borrowed for the call: the buffer is reused for the next one. */
int tvmrt__parse_members(tvmrt_parser* in,
                         int (*read)(tvmrt_parser* in, void* into, const char* key), void* into) {
  tvmrt_buf key = {NULL, 0, 0};
  uint32_t count = 0;
  int rc = parse_expect(in, '{');
  while (rc == 0 && tvmrt__json_more(&in->json, '}', &count)) {
    rc = tvmrt__parse_string(in, &key);
    if (rc == 0) rc = parse_expect(in, ':');
    if (rc == 0) rc = read(in, into, key.data);
  }
  tvmrt__buf_free(&key);
  return rc == 0 ? tvmrt__parse_check(in) : rc;
}

/* printf depends on the program's locale: its decimal point is replaced in place. */
int tvmrt__write_real(tvmrt_buf* out, char style, int digits, double value) {
  const char* point = localeconv()->decimal_point;
  const size_t from = out->size;
  char* at;
  TVMRT_RETURN_IF_ERROR(style == 'g' ? tvmrt__buf_printf(out, "%.*g", digits, value)
                                     : tvmrt__buf_printf(out, "%.*f", digits, value));
  at = strstr(out->data + from, point);
  if (at == NULL) return 0;
  *at = '.';
  memmove(at + 1, at + strlen(point), strlen(at + strlen(point)) + 1);
  out->size -= strlen(point) - 1;
  return 0;
}

/* Bytes from 0x80 on are copied unchanged: texts are UTF-8, which JSON allows. */
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
