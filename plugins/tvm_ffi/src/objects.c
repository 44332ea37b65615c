/* Objects of tvm-ffi that are made here, each with its own deleter: whoever holds one, holds it alike.
 *
 * The layout of heads is tvm-ffi's (abi.h). References are counted by atomics, strong and weak ones
 * in one word: the content ends with the last strong one, the block with the last weak one, and a
 * deleter is told by flags which of them it is. */
#include "objects.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"

enum {
  PREFIX_BYTES = 16, /* zero, before every object: other makers keep a pointer there */
  MAX_SMALL_BYTES = 7,
};

/* Zeroed: a deleter may run before the body is filled. */
FfiObject* ffi_new_object(int32_t type_index, size_t body_bytes, void (*deleter)(void*, int)) {
  char* block = calloc(1, PREFIX_BYTES + sizeof(FfiObject) + body_bytes);
  FfiObject* object;
  if (block == NULL) {
    (void)bridge_fail_memory(body_bytes);
    return NULL;
  }
  object = (FfiObject*)(void*)(block + PREFIX_BYTES);
  atomic_init(&object->ref_counts, FFI_ONE_WEAK | 1);
  object->type_index = type_index;
  object->u.deleter = deleter;
  /* lint: the block goes with the object, by ffi_free_object() */
  return object;
}

/* The deleter of objects whose content needs no end. */
void ffi_free_object(void* object, int flags) {
  if ((flags & END_BLOCK) != 0) free((char*)object - PREFIX_BYTES);
}

/* ---- errors ---- */

/* copy_text() may have failed for any of them: free() takes NULL. */
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

/* With a NUL behind it that is not counted, for readers of C strings. data is NULL without
 * memory. */
static TVMByteArray copy_text(const TVMByteArray* first, const TVMByteArray* second) {
  const size_t size = first->size + (second == NULL ? 0 : second->size);
  char* text = malloc(size + 1);
  if (text == NULL) return (TVMByteArray){NULL, 0};
  if (first->size != 0) memcpy(text, first->data, first->size);
  if (size != first->size) memcpy(text + first->size, second->data, second->size);
  text[size] = '\0';
  return (TVMByteArray){text, size};
}

/* Slot of the error: frames that it passes add their lines to it, on the thread that has it. */
static void update_backtrace(void* object, const TVMByteArray* lines, int32_t append) {
  const TVMByteArray none = {NULL, 0};
  FfiError* error = ffi_body(object);
  const TVMByteArray text = copy_text(append != 0 ? &error->backtrace : &none, lines);
  if (text.data == NULL) return; /* it stays as it was */
  free((void*)error->backtrace.data);
  error->backtrace = text;
}

/* Cause and extra context are counted only when all else has worked, so that a failure releases
 * what it has taken and no more. */
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

/* What a thread has raised. */
static _Thread_local void* raised;

/* The caller's from then on; NULL where nothing was raised. */
void* ffi_take_error(void) {
  void* error = raised;
  raised = NULL;
  return error;
}

/* Takes the reference over. An error that nobody has taken is replaced, as later ones tell more. */
void ffi_keep_error(void* error) {
  void* old = raised;
  raised = error;
  if (old != NULL) ffi_release(old);
}

/* Without memory there is no error object, and the caller of the failed function is told so by
 * bridge_catch(). */
void ffi_raise_text(const char* kind, const char* message) {
  const TVMByteArray name = {kind, strlen(kind)};
  const TVMByteArray text = {message, strlen(message)};
  ffi_keep_error(ffi_make_error(&name, &text, NULL, NULL, NULL));
}

/* Always -1, with the error raised on this thread. */
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

/* safe_call's first argument is the function itself; the C function wants its handle. */
static int call_own(void* function, const FfiAny* args, int32_t num_args, FfiAny* result) {
  const OwnFunction* own = ffi_body(function);
  return own->call(own->self, args, num_args, result);
}

/* Weak references keep the block, which is why the two ends are told apart. */
static void delete_function(void* object, int flags) {
  const OwnFunction* own = ffi_body(object);
  if ((flags & END_CONTENT) != 0 && own->deleter != NULL) own->deleter(own->self);
  ffi_free_object(object, flags);
}

/* `deleter` gets `self` when the function ends; where this fails it is not called. */
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

/* Any maker's function: each brings its own way to be called. */
int ffi_call_function(void* function, FfiAny* args, int32_t num_args, FfiAny* result) {
  return ((const FfiFunction*)ffi_body(function))->safe_call(function, args, num_args, result);
}

/* ---- text ---- */

/* Up to seven bytes lie in the value and need no object, as libtvm_ffi has it. */
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

/* An owned value: an object, or the bytes themselves where they are few. */
int ffi_make_string(const TVMByteArray* bytes, FfiAny* out) {
  return make_text(bytes, kFfiSmallStr, kFfiStr, out);
}

/* As texts, under the indices of bytes. */
int ffi_make_bytes(const TVMByteArray* bytes, FfiAny* out) {
  return make_text(bytes, kFfiSmallBytes, kFfiBytes, out);
}

/* ---- tensors ---- */

typedef struct {
  DLTensor tensor;
  DLManagedTensor* managed; /* what it was made of */
  int64_t strides[];        /* where that has none */
} OwnTensor;

/* The producer's memory goes with the content, the block stays while weak references do. */
static void delete_tensor(void* object, int flags) {
  const OwnTensor* own = ffi_body(object);
  if ((flags & END_CONTENT) != 0 && own->managed->deleter != NULL) {
    own->managed->deleter(own->managed);
  }
  ffi_free_object(object, flags);
}

/* Nothing here insists on alignment or gaps: the bridge looks at them itself. The shape stays the
 * producer's. Strides are never missing on the other side. */
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

/* On any thread, once. */
static void end_shown(DLManagedTensor* shown) {
  ffi_release(shown->manager_ctx);
  free(shown);
}

/* The consumer's copy holds the tensor until it calls the deleter. */
int ffi_show_tensor(void* tensor, DLManagedTensor** out) {
  DLManagedTensor* shown = malloc(sizeof(*shown));
  *out = shown;
  if (shown == NULL) return no_memory();
  ffi_retain(tensor);
  *shown = (DLManagedTensor){*(const DLTensor*)ffi_body(tensor), tensor, end_shown};
  return 0;
}
