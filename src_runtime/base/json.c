/* JSON text with sentences for what is wrong in it: on the reader that firmware has too.
 *
 * firmware/json.c walks the text and knows only that it is damaged; what was expected, and where,
 * is added here. Texts are unescaped into buffers of the caller's. A parser holds no memory: where
 * reading fails it is left as it is. */
#include "json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void tvmrt__parse_init(tvmrt_parser* in, const char* what, const char* text, size_t size) {
  in->what = what;
  in->begin = text;
  tvmrt__json_open(&in->json, text, size);
}

/* Always -1. The place is that of the reader, which stands at what it could not read, or behind
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
  /* only now: texts that are right are read without counting lines */
  for (p = in->begin; p < in->json.at; ++p) {
    column = *p == '\n' ? 1 : column + 1;
    line += *p == '\n';
  }
  return tvmrt__fail_value("%s is damaged: %s at line %d, column %d.", in->what, why, line, column);
}

int tvmrt__parse_expect(tvmrt_parser* in, char c) {
  tvmrt__json_expect(&in->json, c);
  return in->json.damaged ? tvmrt__parse_fail(in, "expected '%c'", c) : 0;
}

/* Whether a list or object that was entered goes on, in *more. */
static int next(tvmrt_parser* in, char close, uint32_t* count, bool* more) {
  *more = tvmrt__json_more(&in->json, close, count) != 0;
  if (!in->json.damaged) return 0;
  return tvmrt__parse_fail(in, "expected '%c'", *count == 0 ? close : ',');
}

/* Where a text begins; NULL, with the error text set, if none does here or it does not end. */
static const char* text_of(tvmrt_parser* in) {
  const char expected = tvmrt__json_peek(&in->json);
  const char* text = tvmrt__json_text(&in->json);
  if (!in->json.damaged) return text;
  (void)tvmrt__parse_fail(in, expected == '"' ? "a text does not end" : "expected '\"'");
  return NULL;
}

/* An escape is as long as its digits say, if they are all there: of one character or of two halves. */
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
    return tvmrt__parse_fail(in, *first == 'u' ? "a text contains a NUL" : "unknown escape");
  return tvmrt__buf_append(out, utf8, bytes);
}

/* A NUL is refused in either form: names are C texts from here on, and would be cut. */
int tvmrt__parse_string(tvmrt_parser* in, tvmrt_buf* out) {
  const char* text = text_of(in);
  out->size = 0;
  if (text == NULL) return -1;
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, ""));
  for (;;) {
    const char* run = text;
    while (*text != '"' && *text != '\\' && *text != '\0') ++text;
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(out, run, (size_t)(text - run)));
    in->json.at = text + 1;
    if (*text == '"') return 0;
    if (*text++ == '\0') return tvmrt__parse_fail(in, "a text contains a NUL");
    TVMRT_RETURN_IF_ERROR(read_escape(in, &text, out));
  }
}

/* The least int64_t is refused like what is larger: no file has it, and negating it is
 * undefined. */
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
  if (in->json.at == first) return tvmrt__parse_fail(in, "expected a whole number");
  *out = negative ? -value : value;
  return 0;
}

/* A number or a word, also those that Python writes: NaN, Infinity. */
static int skip_word(tvmrt_parser* in) {
  const char* first = in->json.at;
  while (in->json.at < in->json.end &&
         strchr("+-.eE0123456789truefalsnINiy", *in->json.at) != NULL && *in->json.at != '\0') {
    ++in->json.at;
  }
  return in->json.at == first ? tvmrt__parse_fail(in, "expected a value") : 0;
}

/* Counts brackets without telling their kinds apart: what is skipped is not used. */
int tvmrt__parse_skip(tvmrt_parser* in) {
  size_t depth = 0;
  do {
    char c = tvmrt__json_peek(&in->json);
    if (c == '{' || c == '[') {
      ++depth;
      ++in->json.at;
    } else if (depth > 0 && (c == '}' || c == ']')) {
      --depth;
      ++in->json.at;
    } else if (depth > 0 && (c == ',' || c == ':')) {
      ++in->json.at;
    } else if (c == '"') {
      if (text_of(in) == NULL) return -1;
    } else {
      TVMRT_RETURN_IF_ERROR(skip_word(in));
    }
  } while (depth > 0);
  return 0;
}

/* `read` reads one value and may fail, which ends the list; the commas are read here. */
int tvmrt__parse_items(tvmrt_parser* in, int (*read)(tvmrt_parser* in, void* into), void* into) {
  uint32_t count = 0;
  bool more;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_expect(in, '['));
  for (;;) {
    TVMRT_RETURN_IF_ERROR(next(in, ']', &count, &more));
    if (!more) return 0;
    TVMRT_RETURN_IF_ERROR(read(in, into));
  }
}

/* The key is lent for the call: the buffer is used for the next one. */
int tvmrt__parse_members(tvmrt_parser* in,
                         int (*read)(tvmrt_parser* in, void* into, const char* key), void* into) {
  tvmrt_buf key = {NULL, 0, 0};
  uint32_t count = 0;
  bool more = true;
  int rc = tvmrt__parse_expect(in, '{');
  while (rc == 0) {
    rc = next(in, '}', &count, &more);
    if (rc != 0 || !more) break;
    rc = tvmrt__parse_string(in, &key);
    if (rc == 0) rc = tvmrt__parse_expect(in, ':');
    if (rc == 0) rc = read(in, into, key.data);
  }
  tvmrt__buf_free(&key);
  return rc;
}

/* Bytes from 0x80 on go out as they are: texts are UTF-8 and JSON may be. */
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
