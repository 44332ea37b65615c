/* A reader of JSON text that builds nothing and does not recurse. */
#include "json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../firmware/json_text.h"

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

/* The quotation mark that ends the text at in->at; NULL, with the error text set, if there is none. */
static const char* text_end(tvmrt_json* in) {
  const char* p;
  for (p = in->at; p < in->end && *p != '"'; ++p) {
    if (*p == '\\' && ++p == in->end) break;
  }
  if (p < in->end) return p;
  in->at = in->end;
  (void)tvmrt__json_fail(in, "a text does not end");
  return NULL;
}

/* An escape is as long as its digits say, if they are all there: of one character or of two halves. */
static int read_escape(tvmrt_json* in, tvmrt_buf* out) {
  const char* first = in->at;
  const uint32_t c = tvmrt__json_escape(&in->at);
  const size_t size = (size_t)(in->at - first);
  char utf8[4];
  if (*first == 'u' && size != strlen("u0000") && size != strlen("u0000\\u0000")) {
    return tvmrt__json_fail(in, "\\u needs four hexadecimal digits");
  }
  if (c == 0)
    return tvmrt__json_fail(in, *first == 'u' ? "a text contains a NUL" : "unknown escape");
  return tvmrt__buf_append(out, utf8, tvmrt__json_utf8(c, utf8));
}

int tvmrt__json_string(tvmrt_json* in, tvmrt_buf* out) {
  const char* end;
  out->size = 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__json_expect(in, '"'));
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, ""));
  end = text_end(in);
  if (end == NULL) return -1;
  while (in->at < end) {
    const char* run = in->at;
    while (in->at < end && *in->at != '\\' && *in->at != '\0') ++in->at;
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(out, run, (size_t)(in->at - run)));
    if (in->at == end) break;
    if (*in->at++ == '\0') return tvmrt__json_fail(in, "a text contains a NUL");
    TVMRT_RETURN_IF_ERROR(read_escape(in, out));
  }
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
  const char* end;
  ++in->at;
  end = text_end(in);
  if (end == NULL) return -1;
  in->at = end + 1;
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
