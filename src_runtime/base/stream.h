/* Little-endian byte streams: a bounds-checked reader, and writers into a buffer. */
#ifndef TVMRT_SRC_RUNTIME_BASE_STREAM_H_
#define TVMRT_SRC_RUNTIME_BASE_STREAM_H_

#include <stddef.h>
#include <stdint.h>

#include "../firmware/graph/params_reader.h"
#include "error.h"

/* Every read returns 0, or -1 with "<what>: ... at byte <n>". */
typedef struct tvmrt_reader {
  tvmrt_byte_reader bytes;
  const char* what; /* name of the bytes, for messages */
  const uint8_t* begin;
} tvmrt_reader;

TVMRT_SDK void tvmrt__reader_init(tvmrt_reader* in, const char* what, const void* data,
                                  size_t size);
static inline size_t tvmrt__reader_left(const tvmrt_reader* in) {
  return (size_t)(in->bytes.end - in->bytes.at);
}
TVMRT_SDK int tvmrt__reader_fail(const tvmrt_reader* in, const char* why);
/* 0, or -1 with the error text for damage that the byte reader found. */
int tvmrt__reader_check(const tvmrt_reader* in);

TVMRT_SDK int tvmrt__read_bytes(tvmrt_reader* in, uint64_t size,
                                const uint8_t** out);                       /* borrowed */
TVMRT_SDK int tvmrt__read_uint(tvmrt_reader* in, int bytes, uint64_t* out); /* 1, 2, 4 or 8 bytes */
/* A count of items of at least `min_item_bytes` each: more than fit in the remaining bytes is an
 * error, so the count is safe for allocations. */
TVMRT_SDK int tvmrt__read_count(tvmrt_reader* in, uint64_t min_item_bytes, size_t* out);
/* u64 length and bytes. *out is owned (free()) and NUL-terminated; a NUL inside is an error. */
int tvmrt__read_string(tvmrt_reader* in, char** out);
/* A string as a borrowed view, without a copy. */
TVMRT_SDK int tvmrt__read_view(tvmrt_reader* in, const char** out, size_t* out_size);
/* u64 count and strings. *out is owned; free by tvmrt__free_strings(). */
TVMRT_SDK int tvmrt__read_strings(tvmrt_reader* in, char*** out, size_t* out_count);
TVMRT_SDK void tvmrt__free_strings(char** strings, size_t count);

TVMRT_SDK int tvmrt__write_uint(tvmrt_buf* out, int bytes, uint64_t value);
int tvmrt__write_string(tvmrt_buf* out, const char* text);
TVMRT_SDK int tvmrt__write_data(tvmrt_buf* out, const void* data,
                                size_t size); /* u64 length and bytes */
int tvmrt__write_strings(tvmrt_buf* out, char* const* strings, size_t count);

/* Read a whole file into *out. */
TVMRT_SDK int tvmrt__read_file(const char* path, tvmrt_buf* out);
/* Write a whole file, by a temporary file and a rename: an older file stays intact on failure, and
 * concurrent readers and writers of the path see one whole file or the other. */
TVMRT_SDK int tvmrt__write_file(const char* path, const void* data, size_t size);

#endif
