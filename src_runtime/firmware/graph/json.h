/* A JSON reader that stores nothing, allocates nothing and does not recurse; also used by the host.
 *
 * Damage is sticky: the reader's end is then its position, all functions return empty results, and
 * loops end, so that callers check `damaged` once. */
#ifndef TVMRT_SRC_RUNTIME_FIRMWARE_JSON_H_
#define TVMRT_SRC_RUNTIME_FIRMWARE_JSON_H_

#include <stddef.h>
#include <stdint.h>

#include "../../../src_backend/compiler.h"

/* Values that are no characters of texts. */
enum { TVMRT_JSON_VALUE = 1, TVMRT_JSON_NUMBER = 2 };

typedef struct tvmrt_json {
  const char* at;
  const char* end;
  const char* last_quote; /* the last quotation mark; the beginning if there is none */
  int damaged;            /* NUL, or what was expected: a character, a number, any value */
} tvmrt_json;

/* Contents of a skipped value, at any depth. */
typedef struct tvmrt_json_tally {
  const char* at; /* its beginning */
  uint32_t lists;
  uint32_t commas;
} tvmrt_json_tally;

/* Start reading. */
void tvmrt__json_open(tvmrt_json* in, const char* text, size_t num_bytes);

/* The next character that is not white space; NUL at the end. */
char tvmrt__json_peek(tvmrt_json* in);

/* Skip a character that must come next. */
void tvmrt__json_expect(tvmrt_json* in, char c);

/* Whether a list or object that was entered has one more item; skips the comma or `close`. `count`
 * starts at 0 and counts the items. */
int tvmrt__json_more(tvmrt_json* in, char close, uint32_t* count);

/* Skip a text. Returns its beginning, after its quotation mark; its end exists. */
const char* tvmrt__json_text(tvmrt_json* in);

/* A whole number from 0 to 2^31 - 1. */
uint32_t tvmrt__json_number(tvmrt_json* in);

/* Skip any value, up to the comma or bracket after it. */
void tvmrt__json_skip(tvmrt_json* in, tvmrt_json_tally* out);

/* Whether a text of tvmrt__json_text() is a key, written without escapes. */
int tvmrt__json_is(const char* text, const char* key);

/* Decode the escape after a backslash, at *text, and move past it. Returns the number of UTF-8
 * bytes, 1 to 4; the first is NUL, which no text has, if it is invalid. *text stops at the first
 * character that should be one of four hexadecimal digits and is not. */
size_t tvmrt__json_escape(const char** text, char* utf8);

/* Whether a text of tvmrt__json_text() equals these bytes, its escapes decoded to UTF-8. */
int tvmrt__json_same(const char* text, const char* bytes, size_t num_bytes);

#endif /* TVMRT_SRC_RUNTIME_FIRMWARE_JSON_H_ */
