/* tvm-ffi objects made here, each with its own deleter, so all holders treat them alike.
 *
 * The header layout is tvm-ffi's (abi.h). Strong and weak references are atomic counters in one
 * word: the content is destroyed with the last strong reference, the memory block with the last
 * weak one. Flags show the deleter which of the two to destroy. */
#include "objects.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"

enum {
  PREFIX_BYTES = 16, /* zeros before every object, where other makers store a pointer */
  MAX_SMALL_BYTES = 7,
};

/* Zero-initialised, since a deleter may run before the body is filled. */
FfiObject* ffi_new_object(int32_t type_index, size_t body_bytes, void (*deleter)(void*, int)) {
  char* block = calloc(1, PREFIX_BYTES + sizeof(FfiObject) + body_bytes);
  FfiObject* object;
  if (block == NULL) {
    (void)bridge_fail_memory(body_bytes);
    return NULL;
  }
  object = (FfiObject*)(void*)(block + PREFIX_BYTES);
  atomic_init(&object->ref_counts, FFI_ONE_WEAK_REF | 1);
  object->type_index = type_index;
  object->u.deleter = deleter;
  /* lint: the block goes with the object, by ffi_free_object() */
  return object;
}

/* Deleter for objects whose content needs no destruction. */
void ffi_free_object(void* object, int flags) {
  if ((flags & END_BLOCK) != 0) free((char*)object - PREFIX_BYTES);
}

/* ---- errors ---- */

/* Any of the copies may have failed; free() accepts NULL. */
static void delete_error(void* object, int flags) {
  const FfiError* error = ffi_body(object);
  if ((flags & END_CONTENT) != 0) {
    if (error->cause != NULL) ffi_release(error->cause);
    if (error->extra != NULL) ffi_release(error->extra);
    free((void*)error->kind.data);
    free((void*)error->message.data);
    free((void*)error->backtrace.data);
  }
  ffi_free_object(object, flags);
}

/* NUL-terminated for C readers, without counting the NUL. data is NULL if out of memory. */
static TVMByteArray copy_text(const TVMByteArray* first, const TVMByteArray* second) {
  const size_t size = first->size + (second == NULL ? 0 : second->size);
  char* text = malloc(size + 1);
  if (text == NULL) return (TVMByteArray){NULL, 0};
  if (first->size != 0) memcpy(text, first->data, first->size);
  if (size != first->size) memcpy(text + first->size, second->data, second->size);
  text[size] = '\0';
  return (TVMByteArray){text, size};
}

/* Called through the error's slot: each frame that the error passes adds its lines, on the error's
 * thread. */
static void update_backtrace(void* object, const TVMByteArray* lines, int32_t append) {
  const TVMByteArray none = {NULL, 0};
  FfiError* error = ffi_body(object);
  const TVMByteArray text = copy_text(append != 0 ? &error->backtrace : &none, lines);
  if (text.data == NULL) return; /* it stays unchanged */
  free((void*)error->backtrace.data);
  error->backtrace = text;
}

/* Cause and extra context are retained last, so that a failure releases only retained
 * references. */
FfiObject* ffi_make_error(const TVMByteArray* kind, const TVMByteArray* message,
                          const TVMByteArray* backtrace, void* cause, void* extra) {
  const TVMByteArray none = {NULL, 0};
  FfiObject* object = ffi_new_object(kFfiError, sizeof(FfiError), delete_error);
  FfiError* error;
  if (object == NULL) return NULL;
  error = ffi_body(object);
  error->kind = copy_text(kind, NULL);
  error->message = copy_text(message, NULL);
  error->backtrace = copy_text(backtrace == NULL ? &none : backtrace, NULL);
  /* C++ calls it through the struct */
  error->update_backtrace = update_backtrace;
  if (error->kind.data == NULL || error->message.data == NULL || error->backtrace.data == NULL) {
    ffi_release(object);
    return NULL;
  }
  if (cause != NULL) ffi_retain(cause);
  if (extra != NULL) ffi_retain(extra);
  error->cause = cause;
  error->extra = extra;
  return object;
}

/* Raised error of this thread. */
static _Thread_local void* raised;

/* The caller owns the result; NULL if nothing was raised. */
void* ffi_take_error(void) {
  void* error = raised;
  raised = NULL;
  return error;
}

/* Takes over the reference. A pending error is replaced, since later ones are more specific. */
void ffi_keep_error(void* error) {
  void* old = raised;
  raised = error;
  if (old != NULL) ffi_release(old);
}

/* If out of memory there is no error object, which bridge_catch() reports to the caller. */
void ffi_raise_text(const char* kind, const char* message) {
  const TVMByteArray name = {kind, strlen(kind)};
  const TVMByteArray text = {message, strlen(message)};
  ffi_keep_error(ffi_make_error(&name, &text, NULL, NULL, NULL));
}

/* Returns -1 with the error raised on this thread. */
static int no_memory(void) {
  ffi_raise_text("MemoryError", "no memory for a value of tvm-ffi");
  return -1;
}

/* ---- functions ---- */

typedef struct {
  FfiFunction head;
  FfiSafeCall call;
  void* self;
  void (*deleter)(void* self);
} OwnFunction;

/* safe_call gets the function itself as its first argument; the C function expects its handle. */
static int call_own(void* function, const FfiAny* args, int32_t num_args, FfiAny* result) {
  const OwnFunction* own = ffi_body(function);
  return own->call(own->self, args, num_args, result);
}

/* Weak references keep the block after the content has been destroyed. */
static void delete_function(void* object, int flags) {
  const OwnFunction* own = ffi_body(object);
  if ((flags & END_CONTENT) != 0 && own->deleter != NULL) own->deleter(own->self);
  ffi_free_object(object, flags);
}

/* `deleter` is called with `self` when the function is destroyed, but not if this call fails. */
int ffi_make_function(void* self, FfiSafeCall call, void (*deleter)(void* self), void** out) {
  FfiObject* object = ffi_new_object(kFfiFunction, sizeof(OwnFunction), delete_function);
  OwnFunction* own;
  *out = object;
  if (object == NULL) return no_memory();
  own = ffi_body(object);
  own->head.safe_call = call_own;
  own->call = call;
  own->self = self;
  own->deleter = deleter;
  return 0;
}

/* Works for functions of any maker, since each has its own safe_call. */
int ffi_call_function(void* function, FfiAny* args, int32_t num_args, FfiAny* result) {
  return ((const FfiFunction*)ffi_body(function))->safe_call(function, args, num_args, result);
}

/* ---- text ---- */

/* Up to seven bytes are stored in the value and need no object, as in libtvm_ffi. */
static int make_text(const TVMByteArray* bytes, int32_t small, int32_t big, FfiAny* out) {
  const int is_small = bytes->size <= MAX_SMALL_BYTES;
  FfiObject* object;
  TVMByteArray* body;
  *out = (FfiAny){.type_index = is_small ? small : kFfiNone};
  if (is_small) {
    out->small_size = (uint32_t)bytes->size;
    if (bytes->size != 0) memcpy(out->u.v_bytes, bytes->data, bytes->size);
    return 0;
  }
  object = ffi_new_object(big, sizeof(*body) + bytes->size + 1, ffi_free_object);
  if (object == NULL) return no_memory();
  body = ffi_body(object);
  memcpy(body + 1, bytes->data, bytes->size);
  *body = (TVMByteArray){(const char*)(body + 1), bytes->size};
  out->type_index = big;
  out->u.v_obj = object;
  return 0;
}

/* An owned value: an object, or the bytes themselves if they are few. */
int ffi_make_string(const TVMByteArray* bytes, FfiAny* out) {
  return make_text(bytes, kFfiSmallStr, kFfiStr, out);
}

/* Like texts, with the type indices of bytes. */
int ffi_make_bytes(const TVMByteArray* bytes, FfiAny* out) {
  return make_text(bytes, kFfiSmallBytes, kFfiBytes, out);
}

/* ---- tensors ---- */

typedef struct {
  DLTensor tensor;
  DLManagedTensor* managed; /* the source */
  int64_t strides[];        /* used if the source has none */
} OwnTensor;

/* The producer's memory is released with the content; the block stays while weak references
 * exist. */
static void delete_tensor(void* object, int flags) {
  const OwnTensor* own = ffi_body(object);
  if ((flags & END_CONTENT) != 0 && own->managed->deleter != NULL) {
    own->managed->deleter(own->managed);
  }
  ffi_free_object(object, flags);
}

/* Alignment and contiguity are not enforced here: the bridge checks them itself. The shape stays
 * the producer's. tvm-ffi tensors always have strides. */
int ffi_make_tensor(DLManagedTensor* from, int32_t alignment, int32_t contiguous, void** out) {
  const DLTensor* source = &from->dl_tensor;
  const size_t ndim = source->ndim > 0 ? (size_t)source->ndim : 0;
  uint64_t step = 1;
  OwnTensor* own;
  FfiObject* object =
      ffi_new_object(kFfiTensor, sizeof(*own) + ndim * sizeof(int64_t), delete_tensor);
  (void)alignment;
  (void)contiguous;
  *out = object;
  if (object == NULL) return no_memory();
  own = ffi_body(object);
  own->tensor = *source;
  own->managed = from;
  if (source->strides != NULL) return 0;
  for (size_t i = ndim; i-- > 0;) {
    own->strides[i] = (int64_t)step;
    step *= (uint64_t)source->shape[i];
  }
  own->tensor.strides = own->strides;
  return 0;
}

/* Called once, on any thread. */
static void delete_exported(DLManagedTensor* shown) {
  ffi_release(shown->manager_ctx);
  free(shown);
}

/* The consumer's struct retains the tensor until it calls the deleter. */
int ffi_show_tensor(void* tensor, DLManagedTensor** out) {
  DLManagedTensor* shown = malloc(sizeof(*shown));
  *out = shown;
  if (shown == NULL) return no_memory();
  ffi_retain(tensor);
  *shown = (DLManagedTensor){*(const DLTensor*)ffi_body(tensor), tensor, delete_exported};
  return 0;
}
