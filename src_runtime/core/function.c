/* Packed functions: calls, results, creation from C functions.
 *
 * Three kinds share one handle type: symbols of libraries, which get no resource and are called by
 * a jump; native functions of this runtime; functions of a front end, which have another signature
 * and set their result by a handle. Functions are reference-counted objects and may be called by
 * several threads at once. They own their resource, which `finalize` frees with the last reference.
 * Returned text lies in the calling thread's slot until that thread's next call: callers of the C
 * ABI free nothing. */
#include "function.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"

/* Target of a TVMRetValueHandle. Text stays here until the call is over. The function may set
 * its result and then call others, which use the thread's return slot. */
typedef struct tvmrt_return {
  TVMValue* value;
  int* code;
  tvmrt_buf text;
} tvmrt_return;

/* A function of a module's own table is not freed: only its reference to the module is released. */
static TVMRT_COLD_PATH void free_function(tvmrt_object* obj) {
  tvmrt_func* f = (tvmrt_func*)obj;
  if (f->owner != NULL) {
    tvmrt__release(f->owner); /* the module frees the function in its own destructor */
    return;
  }
  if (f->finalize != NULL) f->finalize(f->resource);
  free(f);
}

/* A copy of free_function() with its own address, so that TVMFuncCall() recognises library
 * functions. */
static TVMRT_COLD_PATH void free_library_function(tvmrt_object* obj) { free_function(obj); }

/* The caller owns the one reference; on failure it still owns the resource. */
TVMRT_COLD_PATH tvmrt_func* tvmrt__func_new(TVMCPackedFunc fn, void* resource,
                                            TVMPackedCFuncFinalizer finalize) {
  tvmrt_func* f = tvmrt__calloc(1, sizeof(*f));
  if (f == NULL) return NULL;
  tvmrt__object_init(&f->base, TVMRT_TYPE_FUNCTION, free_function);
  f->kind = TVMRT_FUNC_NATIVE;
  f->fn = fn;
  f->resource = resource;
  f->finalize = finalize;
  return f;
}

/* Call before sharing the function: TVMFuncCall() reads the destructor without a lock. */
void tvmrt__func_set_kind(tvmrt_func* f, tvmrt_func_kind kind) {
  f->kind = kind;
  f->base.destroy = kind == TVMRT_FUNC_LIBRARY ? free_library_function : free_function;
}

/* Move text to the thread's return slot. Text is returned as v_str, bytes as a TVMByteArray. *text
 * is moved, not copied, and is empty afterwards, unless it is the slot itself. */
static TVMRT_COLD_PATH int publish_text(TVMValue* value, int code, tvmrt_buf* text) {
  tvmrt_thread* thread = tvmrt__thread();
  if (thread == NULL) return tvmrt__fail_memory(sizeof(*thread));
  if (&thread->ret_text != text) {
    tvmrt__buf_free(&thread->ret_text);
    thread->ret_text = *text;
    memset(text, 0, sizeof(*text));
  }
  if (code == kTVMStr) {
    value->v_str = thread->ret_text.data;
    return 0;
  }
  thread->ret_bytes.data = thread->ret_text.data;
  thread->ret_bytes.size = thread->ret_text.size;
  value->v_handle = &thread->ret_bytes;
  return 0;
}

/* Set None, which owns nothing: the result of a failed call is safe to release. */
static void clear_return(TVMValue* value, int* code) {
  value->v_int64 = 0;
  *code = kTVMNullptr;
}

/* Finish the call of a front end's function that failed or returned text. */
static TVMRT_COLD_PATH int end_frontend_call(tvmrt_return* result, int rc) {
  const int code = *result->code;
  if (rc == 0 && (code == kTVMStr || code == kTVMBytes)) {
    rc = publish_text(result->value, code, &result->text);
  }
  if (rc != 0) {
    tvmrt__release(tvmrt__value_object(result->value, *result->code));
    clear_return(result->value, result->code);
  }
  tvmrt__buf_free(&result->text);
  return rc;
}

/* Handles come from outside. */
static inline bool is_function(const tvmrt_func* f) {
  return f != NULL && f->base.type_index == TVMRT_TYPE_FUNCTION;
}

/* The result of a front end's function is in a struct on this stack, so that nested calls on this
 * thread cannot overwrite it. */
static TVMRT_OUT_OF_LINE int call_frontend(const tvmrt_func* f, TVMValue* args, int* codes,
                                           int num_args, TVMValue* ret, int* ret_code) {
  tvmrt_return result = {ret, ret_code, {NULL, 0, 0}};
  const int rc = f->frontend_fn(args, codes, num_args, &result, f->resource);
  if (rc == 0 && result.text.data == NULL) return 0;
  return end_frontend_call(&result, rc);
}

/* Call any function except a library's, after checking the handle. After a failure the return value
 * must not hold a reference. */
static TVMRT_TAIL_CALLED int call_any(TVMFunctionHandle func, TVMValue* args, int* codes,
                                      int num_args, TVMValue* ret, int* ret_code) {
  const tvmrt_func* f = func;
  int rc;
  if (!is_function(f)) return tvmrt__check_type(func, TVMRT_TYPE_FUNCTION, "TVMFuncCall");
  if (f->kind == TVMRT_FUNC_FRONTEND) return call_frontend(f, args, codes, num_args, ret, ret_code);
  rc = f->fn(args, codes, num_args, ret, ret_code, f->resource);
  if (rc != 0) clear_return(ret, ret_code);
  return rc;
}

/* The call of a library's function is a tail call. One comparison checks both that the handle is
 * valid and its kind; the result is passed on unchanged. */
TVMRT_CACHE_ALIGNED int TVMFuncCall(TVMFunctionHandle func, TVMValue* arg_values, int* type_codes,
                                    int num_args, TVMValue* ret_val, int* ret_type_code) {
  const tvmrt_func* f = func;
  clear_return(ret_val, ret_type_code);
  if (!TVMRT_EXPECT_TRUE(f != NULL) ||
      !TVMRT_EXPECT_TRUE(f->base.destroy == free_library_function)) {
    return call_any(func, arg_values, type_codes, num_args, ret_val, ret_type_code);
  }
  return f->fn(arg_values, type_codes, num_args, ret_val, ret_type_code, f->resource);
}

/* These functions read an object that the caller holds, take no lock and call no other function. */
TVMRT_COLD_PATH bool tvmrt__is_short(const char* name) {
  static const char names[] =
      "get_num_inputs\0get_num_outputs\0get_input_index\0get_output_index\0"
      "runtime.ArraySize\0runtime.ArrayGetItem\0runtime.GetADTSize\0runtime.GetADTTag\0"
      "runtime.GetADTFields\0runtime.MapSize\0runtime.MapCount\0runtime.MapGetItem\0"
      "runtime.GetShapeTupleSize\0runtime.GetShapeTupleElem\0runtime.GetFFIString\0"
      "runtime.String\0runtime.ShapeTuple\0runtime.Box\0runtime.BoxInt\0runtime.BoxFloat\0"
      "runtime.BoxBool\0runtime.Unbox\0runtime.UnBoxBool\0";
  const char* known = names;
  /* lint: the list ends with an empty name */
  while (*known != '\0' && strcmp(known, name) != 0) known = tvmrt__next_name(known);
  return *known != '\0';
}

/* Front ends keep their interpreter's lock during such calls. */
TVMRT_COLD_PATH int tvmrt_func_is_short(TVMFunctionHandle func) {
  const tvmrt_func* f = func;
  return is_function(f) && f->is_short;
}

/* Called by the creator, before the function is shared. */
TVMRT_COLD_PATH int tvmrt_func_set_strided(TVMFunctionHandle func) {
  tvmrt_func* f = func;
  TVMRT_RETURN_IF_ERROR(tvmrt__check_type(func, TVMRT_TYPE_FUNCTION, "tvmrt_func_set_strided"));
  f->is_strided = true;
  return 0;
}

/* Whether the function accepts tensors with strides, so that callers need not copy them. */
TVMRT_COLD_PATH int tvmrt_func_is_strided(TVMFunctionHandle func) {
  const tvmrt_func* f = func;
  return is_function(f) && f->is_strided;
}

/* Release a reference; NULL does nothing, as in free(). */
int TVMFuncFree(TVMFunctionHandle func) {
  if (func == NULL) return 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__check_type(func, TVMRT_TYPE_FUNCTION, "TVMFuncFree"));
  tvmrt__release(func);
  return 0;
}

/* TVM's front ends free returned bytes; here they are the thread's slot, which stays. */
TVMRT_COLD_PATH int TVMByteArrayFree(TVMByteArray* arr) {
  tvmrt_thread* thread = tvmrt__thread();
  if (arr == NULL || (thread != NULL && arr == &thread->ret_bytes)) return 0;
  return tvmrt__fail(
      "TVMByteArrayFree: the bytes are not the last return value of this thread; others cannot be "
      "freed.");
}

/* On failure the caller still owns the resource: `fin` is not called. */
TVMRT_COLD_PATH int TVMFuncCreateFromCFunc(TVMRuntimeCPackedFunc func, void* resource_handle,
                                           TVMPackedCFuncFinalizer fin, TVMFunctionHandle* out) {
  tvmrt_func* f;
  *out = NULL;
  if (func == NULL) return tvmrt__fail("TVMFuncCreateFromCFunc: the function is NULL.");
  f = tvmrt__func_new(NULL, resource_handle, fin);
  if (f == NULL) return -1;
  f->kind = TVMRT_FUNC_FRONTEND;
  f->frontend_fn = func;
  *out = f;
  return 0;
}

/* For plug-ins: called like a native function. On failure the caller still owns the resource. */
TVMRT_COLD_PATH int tvmrt_func_create(TVMCPackedFunc func, void* resource,
                                      TVMPackedCFuncFinalizer fin, TVMFunctionHandle* out) {
  *out = NULL;
  if (func == NULL) return tvmrt__fail("tvmrt_func_create: the function is NULL.");
  *out = tvmrt__func_new(func, resource, fin);
  return *out == NULL ? -1 : 0;
}

/* Reuses the slot's memory for the text, unless the text itself lies there: then a new block is
 * filled before the old one is freed. */
static TVMRT_COLD_PATH int return_text(tvmrt_return* ret, const void* data, size_t size, int code) {
  tvmrt_thread* thread = tvmrt__thread();
  if (ret->text.data == NULL && thread != NULL) { /* reuse the slot's memory */
    const char* old = thread->ret_text.data;
    if (old == NULL || (const char*)data < old || (const char*)data > old + thread->ret_text.size) {
      ret->text = thread->ret_text;
      memset(&thread->ret_text, 0, sizeof(thread->ret_text));
    }
  }
  ret->text.size = 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(&ret->text, data, size));
  *ret->code = code;
  return 0;
}

/* The bytes are copied: their owner may be released when the function returns. */
static TVMRT_COLD_PATH int return_bytes(tvmrt_return* ret, const TVMByteArray* bytes) {
  if (bytes == NULL) return tvmrt__fail("TVMCFuncSetReturn: the byte array is NULL.");
  return return_text(ret, bytes->data, bytes->size, kTVMBytes);
}

/* Types are returned as text. */
static TVMRT_COLD_PATH int return_dtype(tvmrt_return* ret, DLDataType dtype) {
  char text[TVMRT_DTYPE_TEXT_BYTES];
  tvmrt__dtype_to_text(dtype, text);
  return return_text(ret, text, strlen(text), kTVMStr);
}

/* Type codes of values that are returned by value, without an owner. */
static inline bool is_plain(int code) {
  const unsigned plain = 1u << kTVMArgInt | 1u << kTVMArgFloat | 1u << kTVMOpaqueHandle |
                         1u << kTVMNullptr | 1u << kDLDevice | 1u << kTVMArgBool;
  return (unsigned)code < 32 && (plain >> code & 1) != 0;
}

/* A second result replaces the first, which is released. The value is copied before, since the
 * caller may pass the very value that is replaced. */
static TVMRT_OUT_OF_LINE int set_owned_return(tvmrt_return* result, const TVMValue* value,
                                              int code) {
  tvmrt_object* old = tvmrt__value_object(result->value, *result->code);
  TVMValue copy = *value;
  clear_return(result->value, result->code);
  tvmrt__release(old);
  switch (code) {
    case kTVMStr:
      if (copy.v_str == NULL) return tvmrt__fail("TVMCFuncSetReturn: the text is NULL.");
      return return_text(result, copy.v_str, strlen(copy.v_str), kTVMStr);
    case kTVMBytes:
      return return_bytes(result, copy.v_handle);
    case kTVMDataType:
      return return_dtype(result, copy.v_type);
    case kTVMDLTensorHandle:
      return tvmrt__fail_type(
          "a tensor view has no owner and cannot be returned: return an NDArray.");
    default:
      TVMRT_RETURN_IF_ERROR(TVMCbArgToReturn(&copy, &code));
      *result->value = copy;
      *result->code = code;
      return 0;
  }
}

/* Plain values are written here; all others are passed to set_owned_return(). */
int TVMCFuncSetReturn(TVMRetValueHandle ret, TVMValue* value, int* type_code, int num_ret) {
  tvmrt_return* result = ret;
  if (result == NULL) return tvmrt__fail("TVMCFuncSetReturn: the return handle is NULL.");
  if (num_ret != 1) {
    return tvmrt__fail_value("a packed function returns one value, got %d.", num_ret);
  }
  if (!is_plain(*type_code) || !is_plain(*result->code)) {
    return set_owned_return(result, value, *type_code);
  }
  *result->value = *value;
  *result->code = *type_code;
  return 0;
}

/* For native functions of plug-ins, which return by pointers but need the semantics of
 * TVMCFuncSetReturn(). */
int tvmrt_func_return(const TVMValue* value, int type_code, TVMValue* ret_value,
                      int* ret_type_code) {
  tvmrt_return result = {ret_value, ret_type_code, {NULL, 0, 0}};
  return end_frontend_call(&result, set_owned_return(&result, value, type_code));
}

/* Type code of an object of this type. */
static int code_of_type(uint32_t type_index) {
  if (type_index == TVMRT_TYPE_MODULE) return kTVMModuleHandle;
  if (type_index == TVMRT_TYPE_FUNCTION) return kTVMPackedFuncHandle;
  if (type_index == TVMRT_TYPE_NDARRAY) return kTVMNDArrayHandle;
  return kTVMObjectHandle;
}

/* The handle of an NDArray is the address of its DLTensor, of all other objects that of the
 * head. */
static void store_object(TVMValue* value, int* code, tvmrt_object* obj) {
  *code = code_of_type(obj->type_index);
  value->v_handle = *code == kTVMNDArrayHandle ? (void*)&((tvmrt_ndarray*)obj)->dl : (void*)obj;
}

/* The caller owns the resulting reference: a moved argument is transferred and its source set to
 * NULL; others are retained. Values without an object are copied. */
int TVMCbArgToReturn(TVMValue* value, int* code) {
  if (*code == kTVMObjectRValueRefArg) {
    tvmrt_object** source = value->v_handle;
    tvmrt_object* moved = source == NULL ? NULL : *source;
    if (moved == NULL) {
      clear_return(value, code);
      return 0;
    }
    *source = NULL;
    store_object(value, code, moved);
    return 0;
  }
  if (tvmrt__value_object(value, *code) != NULL) tvmrt__retain(tvmrt__value_object(value, *code));
  return 0;
}

/* Borrowed; NULL for values that are not objects. */
tvmrt_object* tvmrt__value_object(const TVMValue* value, int code) {
  switch (code) {
    case kTVMObjectHandle:
    case kTVMModuleHandle:
    case kTVMPackedFuncHandle:
      return value->v_handle;
    case kTVMNDArrayHandle:
      return value->v_handle == NULL ? NULL : tvmrt__object_of_ndarray(value->v_handle);
    default:
      return NULL;
  }
}

int tvmrt__ret_int(TVMValue* out, int* out_code, int64_t value) {
  out->v_int64 = value;
  *out_code = kTVMArgInt;
  return 0;
}

/* *out_code is written only on success. */
static TVMRT_COLD_PATH int return_to_slot(TVMValue* out, int* out_code, const void* data,
                                          size_t size, int code) {
  tvmrt_buf text = {NULL, 0, 0}; /* data may lie in the slot itself: fill first, then replace */
  int rc = tvmrt__buf_append(&text, data, size);
  if (rc == 0) rc = publish_text(out, code, &text);
  if (rc == 0) *out_code = code;
  tvmrt__buf_free(&text);
  return rc;
}

/* Copied to the thread's slot, where it stays until this thread's next call that returns text. */
int tvmrt__ret_str(TVMValue* out, int* out_code, const char* text) {
  return return_to_slot(out, out_code, text, strlen(text), kTVMStr);
}

/* Moved to the slot, as it may be large. */
int tvmrt__ret_buf(int rc, int code, tvmrt_buf* buf, TVMValue* out, int* out_code) {
  if (rc == 0) rc = tvmrt__buf_puts(buf, ""); /* an untouched buffer has no text yet */
  if (rc == 0) rc = publish_text(out, code, buf);
  if (rc == 0) *out_code = code;
  tvmrt__buf_free(buf);
  return rc;
}

/* Takes ownership of the object. NULL means that its constructor failed and set the text. */
int tvmrt__ret_object(TVMValue* out, int* out_code, tvmrt_object* owned) {
  if (owned == NULL) return -1;
  store_object(out, out_code, owned);
  return 0;
}

/* A failed call leaves nothing to release. */
int tvmrt__func_call(tvmrt_func* f, TVMValue* values, int* codes, int count) {
  TVMValue ret;
  int code;
  TVMRT_RETURN_IF_ERROR(TVMFuncCall(f, values, codes, count, &ret, &code));
  tvmrt__release(tvmrt__value_object(&ret, code));
  return 0;
}
