/* The error slot and other per-thread state. */
#ifndef TVMRT_SRC_RUNTIME_BASE_ERROR_H_
#define TVMRT_SRC_RUNTIME_BASE_ERROR_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_packed_func.h>

#include "../platform/compiler.h"

/* Return the error of `expr` if it fails; for code that holds no resource. */
#define TVMRT_RETURN_IF_ERROR(expr)       \
  do {                                    \
    int tvmrt_rc_ = (expr);               \
    if (tvmrt_rc_ != 0) return tvmrt_rc_; \
  } while (0)

/* A growing byte buffer. Zero-initialised is empty. An uncounted NUL always follows the bytes. */
typedef struct tvmrt_buf {
  char* data;
  size_t size;
  size_t capacity;
} tvmrt_buf;

/* 0, or -1 with the error text set. On failure the contents are unchanged. */
TVMRT_SDK int tvmrt__buf_reserve(tvmrt_buf* buf, size_t more);
TVMRT_SDK int tvmrt__buf_append(tvmrt_buf* buf, const void* data, size_t size);
TVMRT_SDK int tvmrt__buf_puts(tvmrt_buf* buf, const char* text);
TVMRT_SDK int tvmrt__buf_printf(tvmrt_buf* buf, const char* fmt, ...) TVMRT_PRINTF(2, 3);
TVMRT_SDK void tvmrt__buf_free(tvmrt_buf* buf);

/* State of one thread; freed when the thread ends. */
typedef struct tvmrt_thread {
  tvmrt_buf error;                            /* text of the last error */
  void* py_error;                             /* the front end's exception object */
  tvmrt_buf ret_text;                         /* text or bytes returned by the last call */
  TVMByteArray ret_bytes;                     /* view of ret_text for kTVMBytes */
  tvmrt_buf names;                            /* TVMFuncListGlobalNames: pointers, then texts */
  const struct tvmrt_region_request* request; /* of the step that this thread runs; NULL: none */
  struct tvmrt_run_events* events;            /* of the run that this thread profiles; or NULL */
  tvmrt_buf* registered; /* a line per device that a plug-in registers now; NULL: none */
  struct tvmrt_workspace_block* workspace; /* blocks of this thread */
  /* Releases the blocks when the thread ends; set when the first block is made. */
  void (*free_workspace)(struct tvmrt_thread* self);
} tvmrt_thread;

/* State of the calling thread; NULL if memory is exhausted. */
TVMRT_SDK tvmrt_thread* tvmrt__thread(void);

/* Set the error text. `tvmrt__fail` is also -1: a macro, so that compilers see it. */
TVMRT_SDK void tvmrt__set_error(const char* fmt, ...) TVMRT_PRINTF(1, 2);
#define tvmrt__fail(...) (tvmrt__set_error(__VA_ARGS__), -1)
/* Set an error text with the prefix "ValueError: " or "TypeError: ", from which front ends choose
 * an exception. */
TVMRT_SDK void tvmrt__set_value_error(const char* fmt, ...) TVMRT_PRINTF(1, 2);
TVMRT_SDK void tvmrt__set_type_error(const char* fmt, ...) TVMRT_PRINTF(1, 2);
#define tvmrt__fail_value(...) (tvmrt__set_value_error(__VA_ARGS__), -1)
#define tvmrt__fail_type(...) (tvmrt__set_type_error(__VA_ARGS__), -1)
/* Set the error text for a failed allocation of `bytes`; returns -1. */
TVMRT_SDK int tvmrt__fail_memory(size_t bytes);

/* Clear the thread's error text, so that a failure without a text does not show an older one. */
static inline void tvmrt__forget_error(void) {
  if (TVMGetLastError()[0] != '\0') TVMPackedFuncSetLastError("");
}

/* malloc, calloc and strdup that set the error text. Released by free(). */
TVMRT_SDK void* tvmrt__alloc(size_t bytes);
TVMRT_SDK void* tvmrt__calloc(size_t count, size_t bytes);
TVMRT_SDK char* tvmrt__strdup(const char* text);

/* Grow an array that holds `count` items of `item_bytes`; *items moves. Doubles the size. */
TVMRT_SDK int tvmrt__grow(void** items, size_t count, size_t item_bytes);

#endif
