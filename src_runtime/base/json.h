/* Streaming JSON parser, which builds no tree: the caller reads the expected values in order. */
#ifndef TVMRT_SRC_RUNTIME_BASE_JSON_H_
#define TVMRT_SRC_RUNTIME_BASE_JSON_H_

#include <stdbool.h>
#include <stdint.h>

#include "../firmware/graph/json.h"
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

/* Report the damage that the reader found; 0 if there is none. */
int tvmrt__parse_check(const tvmrt_parser* in);

/* Read a list: `read` reads each item. */
TVMRT_SDK int tvmrt__parse_items(tvmrt_parser* in, int (*read)(tvmrt_parser* in, void* into),
                                 void* into);
/* Read an object: `read` reads the value of each key, which is borrowed for the call. */
TVMRT_SDK int tvmrt__parse_members(tvmrt_parser* in,
                                   int (*read)(tvmrt_parser* in, void* into, const char* key),
                                   void* into);

TVMRT_SDK int tvmrt__parse_string(tvmrt_parser* in,
                                  tvmrt_buf* out); /* replaces the contents of out */
/* The next non-space character; NUL at the end. */
TVMRT_SDK char tvmrt__parse_peek(tvmrt_parser* in);
TVMRT_SDK int tvmrt__parse_int(tvmrt_parser* in, int64_t* out);
TVMRT_SDK int tvmrt__parse_real(tvmrt_parser* in,
                                double* out);      /* independent of the program's locale */
TVMRT_SDK int tvmrt__parse_skip(tvmrt_parser* in); /* any value, of any depth */

/* Contents of a skipped value. */
typedef struct tvmrt_parse_counts {
  const char* at;   /* its beginning */
  size_t lists;     /* at any depth, including itself */
  size_t values[4]; /* at each depth: values[0] is 1, values[1] the items of a list */
} tvmrt_parse_counts;
int tvmrt__parse_count(tvmrt_parser* in, tvmrt_parse_counts* out);

/* Append a string with quotes and escapes. */
TVMRT_SDK int tvmrt__json_write_string(tvmrt_buf* out, const char* text);

/* Append a number with a decimal point, independent of the program's locale. `style` is 'f', with
 * `digits` digits after the point, or 'g', with `digits` digits in all. */
TVMRT_SDK int tvmrt__write_real(tvmrt_buf* out, char style, int digits, double value);

#endif
