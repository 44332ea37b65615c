/* The error slot, per-thread state, and the interpreter hooks for errors.
 *
 * Each thread has one struct, created on first use and freed when the thread ends, with the error
 * text, the last returned texts and lists, and its workspaces. So nothing here takes a lock, and
 * returned texts stay valid until the thread's own next call. Reporting an error must not fail if
 * memory is exhausted: a flag outside of the struct records a lost text. */
#include "error.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

#include "../platform/threads.h"

static TVMRT_THREAD_POINTER tvmrt_thread* current_thread;
static TVMRT_THREAD_POINTER bool is_error_lost; /* memory for the text was exhausted */

/* Interpreter functions; set once by the front end before other threads exist. */
static void (*py_inc_ref)(void*);
static void (*py_dec_ref)(void*);
static int (*py_gil_ensure)(void);
static void (*py_gil_release)(int);

/* Without an interpreter the functions are NULL, and there is no object either. */
static void with_gil(void (*f)(void*), void* obj) {
  int state = 0;
  if (f == NULL || obj == NULL) return;
  if (py_gil_ensure != NULL) state = py_gil_ensure();
  f(obj);
  if (py_gil_release != NULL) py_gil_release(state);
}

/* The object is released under the interpreter's lock, which other threads may hold for long. */
static void drop_py_error(tvmrt_thread* thread) {
  void* old = thread->py_error;
  thread->py_error = NULL; /* first: the object's destructor may call the runtime, and fail */
  with_gil(py_dec_ref, old);
}

/* Runs at the end of a thread. Functions called from here may report errors, which creates a new
 * struct. */
static void free_thread(void* ptr) {
  tvmrt_thread* thread = ptr;
  /* A device that fails to free its memory reports that in a new state, which the next iteration of
   * key destructors frees. */
  current_thread = NULL;
  if (thread->free_workspace != NULL) thread->free_workspace(thread);
  free(thread->error.data); /* memory.c, which has the functions of buffers, reports errors here */
  free(thread->ret_text.data);
  free(thread->names.data);
  free(thread); /* a remaining exception object may belong to a finalised interpreter */
}

/* The thread that ends the process gets no end-of-thread call. */
TVMRT_AT_UNLOAD static void free_last_thread(void) {
  if (current_thread == NULL) return;
  (void)tvmrt__at_thread_end(free_thread, NULL);
  free_thread(current_thread);
}

/* NULL if memory is exhausted, or if free_thread() cannot be registered: no struct is better than
 * one that leaks with every thread. A caller that gets NULL fails without a text of its own, so the
 * text is recorded as lost; the next call tries again. */
static tvmrt_thread* make_thread(void) {
  tvmrt_thread* thread = calloc(1, sizeof(*thread));
  if (thread != NULL && tvmrt__at_thread_end(free_thread, thread) != 0) {
    free(thread);
    thread = NULL;
  }
  if (thread == NULL) is_error_lost = true;
  current_thread = thread;
  return thread;
}

tvmrt_thread* tvmrt__thread(void) {
  return current_thread != NULL ? current_thread : make_thread();
}

/* Does not use tvmrt__buf_reserve(), which reports its own failure through here. If the thread has
 * no struct, the text is dropped and recorded as lost. */
static void set_error_text(const char* text, size_t size) {
  tvmrt_thread* thread = tvmrt__thread();
  size_t needed = size + 1;
  if (thread == NULL) return;
  is_error_lost = false;
  if (thread->error.data == NULL || thread->error.capacity < needed) {
    char* grown = realloc(thread->error.data, needed < 256 ? 256 : needed);
    if (grown == NULL) {
      is_error_lost = true;
      return;
    }
    thread->error.data = grown;
    thread->error.capacity = needed < 256 ? 256 : needed;
  }
  memmove(thread->error.data, text, size); /* callers may pass the stored text itself */
  thread->error.data[size] = '\0';
  thread->error.size = size;
}

/* The only way to store an error text, also for generated code and plug-ins; NULL clears it. */
void TVMPackedFuncSetLastError(const char* msg) {
  set_error_text(msg == NULL ? "" : msg, msg == NULL ? 0 : strlen(msg));
  /* lint: the text is the thread's, which free_thread() frees */
}

void TVMAPISetLastError(const char* msg) { TVMPackedFuncSetLastError(msg); }

/* Never NULL. The text stays until the thread's next error, also over successful calls, as the ABI
 * requires. This call creates no struct. */
const char* TVMGetLastError(void) {
  const tvmrt_thread* thread = current_thread;
  if (is_error_lost) return "Out of memory while an error was reported.";
  return thread == NULL || thread->error.data == NULL ? "" : thread->error.data;
}

/* `type` is the prefix from which front ends choose an exception; "" is their general one. */
static void set_error(const char* type, const char* fmt, va_list args) {
  char text[512]; /* on the stack: the error may be that memory is exhausted */
  size_t begin = strlen(type);
  int size;
  /* lint: the text goes on, and vsnprintf() ends it */
  memcpy(text, type, begin);
  size = vsnprintf(text + begin, sizeof(text) - begin, fmt, args);
  /* truncated: names may have any length */
  if (size >= (int)(sizeof(text) - begin)) size = (int)(sizeof(text) - begin) - 1;
  set_error_text(text, begin + (size < 0 ? 0 : (size_t)size));
  /* lint: as above, the thread frees it */
}

/* A macro, because one variadic function cannot pass its arguments on to another. */
#define SET_ERROR(type)       \
  va_list args;               \
  va_start(args, fmt);        \
  set_error(type, fmt, args); \
  va_end(args)

void tvmrt__set_error(const char* fmt, ...) { SET_ERROR(""); }
void tvmrt__set_value_error(const char* fmt, ...) { SET_ERROR("ValueError: "); }
void tvmrt__set_type_error(const char* fmt, ...) { SET_ERROR("TypeError: "); }

/* Always -1. Front ends raise MemoryError by the prefix. */
int tvmrt__fail_memory(size_t bytes) {
  return tvmrt__fail("MemoryError: no memory for %zu bytes.", bytes);
}

/* The thread holds its own reference, until the next object is set or it is dropped. */
void TVMAPISetLastPythonError(void* py_object) {
  tvmrt_thread* thread = tvmrt__thread();
  if (thread == NULL) return;
  with_gil(py_inc_ref, py_object); /* first: it may be the stored object itself */
  drop_py_error(thread);
  thread->py_error = py_object;
}

/* Borrowed: the thread keeps its reference. */
void* TVMGetLastPythonError(void) {
  return current_thread == NULL ? NULL : current_thread->py_error;
}

/* The runtime records no stack traces: front ends print the error text instead. */
const char* TVMGetLastBacktrace(void) { return TVMGetLastError(); }

void TVMDropLastPythonError(void) {
  if (current_thread != NULL) drop_py_error(current_thread);
}

/* ISO C has no conversion from a data pointer to a function pointer; all supported hosts have. */
#define STORE_FUNCTION(slot, ptr) memcpy(&(slot), &(ptr), sizeof(slot))

/* Called by the front end while it is loaded, before other threads could use the functions. */
int TVMBackendRegisterEnvCAPI(const char* name, void* ptr) {
  if (name == NULL) return tvmrt__fail("TVMBackendRegisterEnvCAPI: the name is NULL.");
  if (strcmp(name, "Py_IncRef") == 0) {
    STORE_FUNCTION(py_inc_ref, ptr);
  } else if (strcmp(name, "Py_DecRef") == 0) {
    STORE_FUNCTION(py_dec_ref, ptr);
  } else if (strcmp(name, "PyGILState_Ensure") == 0) {
    STORE_FUNCTION(py_gil_ensure, ptr);
  } else if (strcmp(name, "PyGILState_Release") == 0) {
    STORE_FUNCTION(py_gil_release, ptr);
  } else if (strcmp(name, "PyErr_CheckSignals") != 0) { /* nothing here runs long enough to poll */
    return tvmrt__fail("TVMBackendRegisterEnvCAPI: unknown function '%s'.", name);
  }
  return 0;
}
