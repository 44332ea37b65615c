/* JSON text, read without building anything: the caller asks for what it expects, in order. */
#ifndef TVMRT_SRC_RUNTIME_BASE_JSON_H_
#define TVMRT_SRC_RUNTIME_BASE_JSON_H_

#include <stdbool.h>
#include <stdint.h>

#include "../firmware/json.h"
#include "error.h"

/* Each function returns 0, or -1 with "<what>: <why> at line <l>, column <c>". */
typedef struct tvmrt_parser {
  tvmrt_json json;
  const char* what; /* name of the text, for messages */
  const char* begin;
  const char* end;
} tvmrt_parser;

TVMRT_SDK void tvmrt__parse_init(tvmrt_parser* in, const char* what, const char* text, size_t size);
TVMRT_SDK int tvmrt__parse_fail(const tvmrt_parser* in, const char* fmt, ...) TVMRT_PRINTF(2, 3);

/* The sentence for what the reader has stumbled over; 0 where it has not. */
int tvmrt__parse_told(const tvmrt_parser* in);

/* The whole of a list: `read` reads each item. */
TVMRT_SDK int tvmrt__parse_items(tvmrt_parser* in, int (*read)(tvmrt_parser* in, void* into),
                                 void* into);
/* The whole of an object: `read` reads the value of each key, which is borrowed for the call. */
TVMRT_SDK int tvmrt__parse_members(tvmrt_parser* in,
                                   int (*read)(tvmrt_parser* in, void* into, const char* key),
                                   void* into);

TVMRT_SDK int tvmrt__parse_string(tvmrt_parser* in,
                                  tvmrt_buf* out); /* replaces the contents of out */
/* The next character that is no space; NUL at the end. */
TVMRT_SDK char tvmrt__parse_peek(tvmrt_parser* in);
TVMRT_SDK int tvmrt__parse_int(tvmrt_parser* in, int64_t* out);
TVMRT_SDK int tvmrt__parse_real(tvmrt_parser* in,
                                double* out);      /* whatever the program's locale is */
TVMRT_SDK int tvmrt__parse_skip(tvmrt_parser* in); /* any value, however deep */

/* What a value that was stepped over contains. */
typedef struct tvmrt_parse_counts {
  const char* at;   /* where it begins */
  size_t lists;     /* at any depth, itself too */
  size_t values[4]; /* at each depth: values[0] is 1, values[1] the items of a list */
} tvmrt_parse_counts;
int tvmrt__parse_count(tvmrt_parser* in, tvmrt_parse_counts* out);

/* Append a string with quotes and escapes. */
TVMRT_SDK int tvmrt__json_write_string(tvmrt_buf* out, const char* text);

/* Append a number with a point, whatever the program's locale is. `style` is 'f', with so many digits
 * behind the point, or 'g', with so many digits in all. */
TVMRT_SDK int tvmrt__write_real(tvmrt_buf* out, char style, int digits, double value);

#endif
