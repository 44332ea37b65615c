/* Host memory: allocation that reports failures, and growing buffers.
 *
 * Failures of these functions set the error text, so callers need not. Buffers always have a NUL
 * after their contents, so that text in one is a C string. An empty buffer is all zeros, and
 * freeing one makes it empty again. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

/* malloc() of 0 bytes may return NULL, which here means that memory is exhausted. */
void* tvmrt__alloc(size_t bytes) {
  void* ptr = malloc(bytes == 0 ? 1 : bytes);
  if (ptr == NULL) (void)tvmrt__fail_memory(bytes);
  return ptr;
}

/* calloc() checks the product for overflow; the product in the error text may be wrapped. */
void* tvmrt__calloc(size_t count, size_t bytes) {
  void* ptr = calloc(count == 0 ? 1 : count, bytes == 0 ? 1 : bytes);
  if (ptr == NULL) (void)tvmrt__fail_memory(count * bytes);
  return ptr;
}

/* The caller owns the copy; released by free(). */
char* tvmrt__strdup(const char* text) {
  size_t size = strlen(text) + 1;
  char* copy = tvmrt__alloc(size);
  if (copy != NULL) memcpy(copy, text, size);
  return copy;
}

/* The capacity is not stored, it follows from the count. So an array must be grown in this way from
 * the beginning; one allocated for a fixed count cannot be. New memory is not cleared. On failure
 * the array is unchanged. */
int tvmrt__grow(void** items, size_t count, size_t item_bytes) {
  size_t capacity = count < 4 ? 4 : count * 2;
  void* grown;
  if (*items != NULL && (count < 4 || (count & (count - 1)) != 0)) return 0;
  if (capacity > SIZE_MAX / 2 / item_bytes) return tvmrt__fail_memory(SIZE_MAX);
  grown = realloc(*items, capacity * item_bytes);
  if (grown == NULL) return tvmrt__fail_memory(capacity * item_bytes);
  *items = grown;
  return 0;
}

/* On failure the buffer is unchanged, and must still be freed. */
int tvmrt__buf_reserve(tvmrt_buf* buf, size_t more) {
  size_t needed;
  size_t capacity = buf->capacity < 32 ? 32 : buf->capacity;
  char* grown;
  /* so that neither the sum nor the doubling below overflows */
  if (more > SIZE_MAX / 4 || buf->size > SIZE_MAX / 4) return tvmrt__fail_memory(more);
  needed = buf->size + more + 1;
  if (buf->data != NULL && needed <= buf->capacity) return 0;
  while (capacity < needed) capacity *= 2;
  grown = realloc(buf->data, capacity);
  if (grown == NULL) return tvmrt__fail_memory(capacity);
  buf->data = grown;
  buf->capacity = capacity;
  buf->data[buf->size] = '\0';
  return 0;
}

/* The data must not lie in this buffer, which may move. */
int tvmrt__buf_append(tvmrt_buf* buf, const void* data, size_t size) {
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_reserve(buf, size));
  if (size != 0) memcpy(buf->data + buf->size, data, size);
  buf->size += size;
  buf->data[buf->size] = '\0';
  return 0;
}

int tvmrt__buf_puts(tvmrt_buf* buf, const char* text) {
  return tvmrt__buf_append(buf, text, strlen(text));
}

/* Appends. The length is computed first, so that nothing is truncated; the arguments must not lie
 * in this buffer. */
int tvmrt__buf_printf(tvmrt_buf* buf, const char* fmt, ...) {
  va_list args;
  int size;
  va_start(args, fmt);
  size = vsnprintf(NULL, 0, fmt, args); /* consumes the list, so there is a second one below */
  va_end(args);
  if (size < 0) return tvmrt__fail("Text could not be formatted.");
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_reserve(buf, (size_t)size));
  va_start(args, fmt);
  (void)vsnprintf(buf->data + buf->size, (size_t)size + 1, fmt, args);
  va_end(args);
  buf->size += (size_t)size;
  return 0;
}

/* The caller owns the struct itself and may reuse it. */
void tvmrt__buf_free(tvmrt_buf* buf) {
  free(buf->data);
  buf->data = NULL;
  buf->size = 0;
  buf->capacity = 0;
}
