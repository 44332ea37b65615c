/* A reader of JSON text that stores nothing, allocates nothing and does not recurse; the host's too.
 *
 * Damage is sticky: the reader's end is then where it was found, every question is answered with
 * nothing, and loops end, so that callers look at `damaged` once. */
#ifndef TVMRT_SRC_RUNTIME_FIRMWARE_JSON_H_
#define TVMRT_SRC_RUNTIME_FIRMWARE_JSON_H_

#include <stddef.h>
#include <stdint.h>

#include "../../src_backend/compiler.h"

/* No characters of texts. */
enum { TVMRT_JSON_VALUE = 1, TVMRT_JSON_NUMBER = 2 };

typedef struct tvmrt_json {
  const char* at;
  const char* end;
  const char* last_quote; /* the last quotation mark; the beginning if there is none */
  int damaged;            /* NUL; else what should have come: a character, a number, any value */
} tvmrt_json;

/* What a skipped value contains, at any depth. */
typedef struct tvmrt_json_tally {
  const char* at; /* where it begins */
  uint32_t lists;
  uint32_t commas;
} tvmrt_json_tally;

/* Begin to read. */
void tvmrt__json_open(tvmrt_json* in, const char* text, size_t num_bytes);

/* The next character that is no space; NUL at the end. */
char tvmrt__json_peek(tvmrt_json* in);

/* Step over a character that must come next. */
void tvmrt__json_expect(tvmrt_json* in, char c);

/* Whether a list or object that was entered has one more item; steps over comma or `close`.
 * `count` starts at 0 and counts the items. */
int tvmrt__json_more(tvmrt_json* in, char close, uint32_t* count);

/* Step over a text. Returns where it begins, behind its quotation mark, which it surely has. */
const char* tvmrt__json_text(tvmrt_json* in);

/* A whole number from 0 to 2^31 - 1. */
uint32_t tvmrt__json_number(tvmrt_json* in);

/* Step over any value, up to the comma or bracket behind it. */
void tvmrt__json_skip(tvmrt_json* in, tvmrt_json_tally* out);

/* Whether a text of tvmrt__json_text() is a key, written without escapes. */
int tvmrt__json_is(const char* text, const char* key);

/* The character whose escape begins behind a backslash at *text, which moves past it, as UTF-8: 1 to
 * 4 bytes, whose number is returned; a NUL, which no text has, if it is none. Before the first of four
 * hexadecimal digits that is another character, *text stops. */
size_t tvmrt__json_escape(const char** text, char* utf8);

/* Whether a text of tvmrt__json_text() reads as these bytes, its escapes resolved to UTF-8. */
int tvmrt__json_same(const char* text, const char* bytes, size_t num_bytes);

#endif /* TVMRT_SRC_RUNTIME_FIRMWARE_JSON_H_ */
