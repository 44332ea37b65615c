/*! \file objects.h
 *  \brief Objects of tvm-ffi that are made here, without its library. */
#ifndef TVMRT_PLUGINS_TVM_FFI_OBJECTS_H_
#define TVMRT_PLUGINS_TVM_FFI_OBJECTS_H_

#include <stddef.h>

#include "abi.h"

/*! \brief What follows the head of an error. */
typedef struct {
  TVMByteArray kind;
  TVMByteArray message;
  TVMByteArray backtrace; /* "  File ..., line ..., in ...\n", the innermost call first */
  void (*update_backtrace)(void* self, const TVMByteArray* lines, int32_t append);
  void* cause; /* owned, or NULL */
  void* extra;
} FfiError;

/*! \brief What follows the head of a function. */
typedef struct {
  FfiSafeCall safe_call;
  void* cpp_call; /* NULL unless C++ made it */
} FfiFunction;

/*! \brief What a deleter is told by its flags; both where nobody holds the object any more. */
enum {
  END_CONTENT = 1, /*!< No strong reference is left: what the object holds is given up. */
  END_BLOCK = 2    /*!< No weak one either: its memory goes, by ffi_free_object(). */
};

/*!
 * \brief An object with a body of so many bytes, all zero, and one reference.
 *
 * \param deleter [in] As of every object.
 * \return NULL if there is no memory.
 */
FfiObject* ffi_new_object(int32_t type_index, size_t body_bytes, void (*deleter)(void*, int));
/*! \brief Free the block of an object made by ffi_new_object(), if the flags say so. */
void ffi_free_object(void* object, int flags);

/*! \brief The members of FfiApi by these names, without libtvm_ffi. */
int ffi_make_function(void* self, FfiSafeCall call, void (*deleter)(void* self), void** out);
int ffi_call_function(void* function, FfiAny* args, int32_t num_args, FfiAny* result);
int ffi_make_string(const TVMByteArray* bytes, FfiAny* out);
int ffi_make_bytes(const TVMByteArray* bytes, FfiAny* out);
int ffi_make_tensor(DLManagedTensor* from, int32_t alignment, int32_t contiguous, void** out);
int ffi_show_tensor(void* tensor, DLManagedTensor** out);

/*! \brief An error; the texts are copied, cause and extra retained. NULL if there is no memory. */
FfiObject* ffi_make_error(const TVMByteArray* kind, const TVMByteArray* message,
                          const TVMByteArray* backtrace, void* cause, void* extra);

/*! \brief Take the error that this thread keeps; NULL if it has none. */
void* ffi_take_error(void);
/*! \brief Keep an error for this thread, in place of an older one; the reference is taken over. */
void ffi_keep_error(void* error);
/*! \brief Make an error and keep it. */
void ffi_raise_text(const char* kind, const char* message);

#endif /* TVMRT_PLUGINS_TVM_FFI_OBJECTS_H_ */
