/* A reader of JSON text that builds nothing: the caller asks for what it expects, in order. */
#ifndef TVMRT_SRC_RUNTIME_BASE_JSON_H_
#define TVMRT_SRC_RUNTIME_BASE_JSON_H_

#include <stdbool.h>
#include <stdint.h>

#include "error.h"

/* Each function returns 0, or -1 with "<what>: <why> at line <l>, column <c>". */
typedef struct tvmrt_json {
  const char* what; /* name of the text, for messages */
  const char* begin;
  const char* at;
  const char* end;
} tvmrt_json;

void tvmrt__json_init(tvmrt_json* in, const char* what, const char* text, size_t size);
int tvmrt__json_fail(const tvmrt_json* in, const char* fmt, ...) TVMRT_PRINTF(2, 3);

/* The next value's first character, 0 at the end; skips white space. */
char tvmrt__json_peek(tvmrt_json* in);
int tvmrt__json_expect(tvmrt_json* in, char c);

/* Containers: expect the opening bracket, then call `next` until *more is false. */
typedef struct tvmrt_json_list {
  char close;
  bool started;
} tvmrt_json_list;
int tvmrt__json_array(tvmrt_json* in, tvmrt_json_list* list);
int tvmrt__json_object(tvmrt_json* in, tvmrt_json_list* list);
int tvmrt__json_next(tvmrt_json* in, tvmrt_json_list* list, bool* more);
/* Objects: the key, after which the value is read. */
int tvmrt__json_next_key(tvmrt_json* in, tvmrt_json_list* list, tvmrt_buf* key, bool* more);

int tvmrt__json_string(tvmrt_json* in, tvmrt_buf* out); /* replaces the contents of out */
int tvmrt__json_int(tvmrt_json* in, int64_t* out);
int tvmrt__json_skip(tvmrt_json* in); /* any value, however deep */

/* Append a string with quotes and escapes. */
int tvmrt__json_write_string(tvmrt_buf* out, const char* text);

#endif
