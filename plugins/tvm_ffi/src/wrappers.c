/* Functions of one side that call a function of the other side.
 *
 * A table has the live wrappers of both directions, by their address. Its lock is held for a few
 * pointer operations and for `retain`, which only counts. A wrapper is removed from the table before
 * its wrapped function is released. */
#include "wrappers.h"

#include <stdlib.h>

#include "errors.h"
#include "sdk/base.h"
#include "sdk/system.h"

/* For a few thousand live functions; with more, the lists only get longer. */
enum { NUM_BUCKETS = 1024 };

typedef struct Wrapper {
  void* outer; /* the wrapper, as its caller sees it */
  void* inner; /* the wrapped function; one reference */
  struct Wrapper* next;
} Wrapper;

static Wrapper* buckets[NUM_BUCKETS];
static tvmrt_mutex lock = TVMRT_MUTEX_INIT;

/* The calls convert values, which may be functions: so they are above this file. */
static struct {
  TVMRuntimeCPackedFunc from_classic;
  FfiSafeCall from_ffi;
} calls;

void bridge_set_calls(TVMRuntimeCPackedFunc from_classic, FfiSafeCall from_ffi) {
  calls.from_classic = from_classic;
  calls.from_ffi = from_ffi;
}

void* bridge_wrapped(const void* wrapper) { return ((const Wrapper*)wrapper)->inner; }

/* ---- the table ---- */

/* The low bits of malloc() addresses are all equal. */
static Wrapper** bucket_of(const void* outer) {
  uintptr_t address = (uintptr_t)outer;
  return &buckets[(address >> 4 ^ address >> 14) % NUM_BUCKETS];
}

/* From here on the other direction finds the wrapper; `outer` must not be shared yet. */
static void add(Wrapper* wrapper, void* outer) {
  Wrapper** bucket = bucket_of(outer);
  wrapper->outer = outer;
  tvmrt__lock(&lock);
  wrapper->next = *bucket;
  *bucket = wrapper;
  tvmrt__unlock(&lock);
}

/* Returns the wrapped function, whose reference the caller now owns. It is released outside the
 * lock: that may destroy further functions. */
static void* remove_wrapper(Wrapper* wrapper) {
  Wrapper** slot = bucket_of(wrapper->outer);
  void* inner = wrapper->inner;
  tvmrt__lock(&lock);
  while (*slot != NULL && *slot != wrapper) slot = &(*slot)->next;
  if (*slot != NULL) *slot = wrapper->next;
  tvmrt__unlock(&lock);
  free(wrapper);
  return inner;
}

/* The function wrapped by `outer`, which the caller keeps alive; NULL if it is not a wrapper. The
 * reference is taken under the lock, since the last one could be released between look-up and
 * retain. */
static void* find(const void* outer, void (*retain)(void* inner)) {
  void* inner = NULL;
  const Wrapper* wrapper;
  tvmrt__lock(&lock);
  for (wrapper = *bucket_of(outer); wrapper != NULL && wrapper->outer != outer;)
    wrapper = wrapper->next;
  if (wrapper != NULL) {
    inner = wrapper->inner;
    retain(inner);
  }
  tvmrt__unlock(&lock);
  return inner;
}

/* In two steps with add(): making the function needs the wrapper, and the table its address. */
static Wrapper* new_wrapper(void* inner) {
  Wrapper* wrapper = tvmrt__alloc(sizeof(*wrapper));
  if (wrapper != NULL) *wrapper = (Wrapper){NULL, inner, NULL};
  return wrapper;
}

/* ---- both directions ---- */

/* Called when the last reference to the classic function is released; on any thread. */
static void release_classic(void* wrapper) { ffi_release(remove_wrapper(wrapper)); }

/* Called under the table's lock. */
static void retain_classic(void* function) { (void)TVMObjectRetain(function); }

/* Marked as strided: tvm-ffi functions check strides themselves, so views are passed unchanged. */
int bridge_function_to_classic(FfiObject* function, TVMFunctionHandle* out) {
  Wrapper* wrapper;
  *out = find(function, retain_classic);
  if (*out != NULL) return 0; /* it is a wrapper of a classic function */
  wrapper = new_wrapper(function);
  if (wrapper == NULL) return -1;
  if (TVMFuncCreateFromCFunc(calls.from_classic, wrapper, release_classic, out) != 0) {
    free(wrapper);
    return -1;
  }
  ffi_retain(function);
  add(wrapper, *out);
  return tvmrt_func_set_strided(*out);
}

/* Called when the last reference to the tvm-ffi function is released; on any thread. */
static void release_ffi(void* wrapper) { (void)TVMFuncFree(remove_wrapper(wrapper)); }

/* Called under the table's lock. */
static void retain_ffi(void* object) { ffi_retain(object); }

/* Retained before the wrapper is made, since it may be called and released at once. */
int bridge_function_to_ffi(TVMFunctionHandle function, FfiObject** out) {
  Wrapper* wrapper;
  void* made = NULL;
  *out = find(function, retain_ffi);
  if (*out != NULL) return 0; /* it is a wrapper of a tvm-ffi function */
  wrapper = new_wrapper(function);
  if (wrapper == NULL) return -1;
  if (TVMObjectRetain(function) != 0) {
    free(wrapper);
    return -1;
  }
  if (ffi.function_create(wrapper, calls.from_ffi, release_ffi, &made) != 0) {
    (void)TVMFuncFree(function);
    free(wrapper);
    return bridge_catch();
  }
  add(wrapper, made);
  *out = made;
  return 0;
}

/* ---- functions of libraries ---- */

/* A library's function, given by its address. */
typedef struct {
  FfiSafeCall address;
  TVMObjectHandle owner; /* keeps the library loaded */
} Symbol;

/* FfiSafeCall whose `self` is the symbol; exported functions expect NULL there. */
static int call_symbol(void* self, const FfiAny* args, int32_t num_args, FfiAny* result) {
  return ((const Symbol*)self)->address(NULL, args, num_args, result);
}

static void release_symbol(void* self) {
  Symbol* symbol = self;
  (void)TVMObjectFree(symbol->owner);
  free(symbol);
}

/* Made as a Function first, which a tvm-ffi caller gets back. The owner is retained before the
 * function can be called, and released with it. */
int bridge_symbol_to_classic(FfiSafeCall address, TVMObjectHandle owner, TVMFunctionHandle* out) {
  Symbol* symbol = tvmrt__alloc(sizeof(*symbol));
  void* function = NULL;
  int rc;
  *out = NULL;
  if (symbol == NULL) return -1;
  *symbol = (Symbol){address, owner};
  if (TVMObjectRetain(owner) != 0) {
    free(symbol);
    return -1;
  }
  if (ffi.function_create(symbol, call_symbol, release_symbol, &function) != 0) {
    release_symbol(symbol);
    return bridge_catch();
  }
  rc = bridge_function_to_classic(function, out);
  ffi_release(function);
  return rc;
}
