/*! \file objects.h
 * \brief tvm-ffi objects made here, without libtvm_ffi. */
#ifndef TVMRT_PLUGINS_TVM_FFI_OBJECTS_H_
#define TVMRT_PLUGINS_TVM_FFI_OBJECTS_H_

#include <stddef.h>

#include "abi.h"

/*! \brief Content of an error after the header. */
typedef struct {
  TVMByteArray kind;
  TVMByteArray message;
  TVMByteArray backtrace; /* "  File ..., line ..., in ...\n", the innermost call first */
  void (*update_backtrace)(void* self, const TVMByteArray* lines, int32_t append);
  void* cause; /* owned, or NULL */
  void* extra;
} FfiError;

/*! \brief Content of a function after the header. */
typedef struct {
  FfiSafeCall safe_call;
  void* cpp_call; /* NULL unless C++ made it */
} FfiFunction;

/*! \brief Flags of a deleter; both are set if no reference is left. */
enum {
  END_CONTENT = 1, /*!< No strong reference is left: release the object's content. */
  END_BLOCK = 2    /*!< No weak reference is left: free the memory with ffi_free_object(). */
};

/*!
 * \brief Make an object with a zero-initialised body and one reference.
 *
 * \param deleter [in] Called as for every tvm-ffi object.
 * \return NULL if out of memory.
 */
FfiObject* ffi_new_object(int32_t type_index, size_t body_bytes, void (*deleter)(void*, int));
/*! \brief Free the block of an object made by ffi_new_object(), if the flags request it. */
void ffi_free_object(void* object, int flags);

/*! \brief Implementations of the FfiApi members of similar names, without libtvm_ffi. */
int ffi_make_function(void* self, FfiSafeCall call, void (*deleter)(void* self), void** out);
int ffi_call_function(void* function, FfiAny* args, int32_t num_args, FfiAny* result);
int ffi_make_string(const TVMByteArray* bytes, FfiAny* out);
int ffi_make_bytes(const TVMByteArray* bytes, FfiAny* out);
int ffi_make_tensor(DLManagedTensor* from, int32_t alignment, int32_t contiguous, void** out);
int ffi_show_tensor(void* tensor, DLManagedTensor** out);

/*! \brief Make an error; the texts are copied, cause and extra retained. NULL if out of memory. */
FfiObject* ffi_make_error(const TVMByteArray* kind, const TVMByteArray* message,
                          const TVMByteArray* backtrace, void* cause, void* extra);

/*! \brief Take this thread's raised error; NULL if there is none. */
void* ffi_take_error(void);
/*! \brief Store an error as raised on this thread, replacing an older one; takes it over. */
void ffi_keep_error(void* error);
/*! \brief Make an error and raise it on this thread. */
void ffi_raise_text(const char* kind, const char* message);

#endif /* TVMRT_PLUGINS_TVM_FFI_OBJECTS_H_ */
