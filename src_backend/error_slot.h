/* Backend library: storing error texts for TVMGetLastError().
 *
 * Both functions are defined next to TVMGetLastError(). They are referenced weakly, so an image
 * that never reads the text contains neither the buffer nor the texts. */
#ifndef TVMRT_SRC_BACKEND_ERROR_SLOT_H_
#define TVMRT_SRC_BACKEND_ERROR_SLOT_H_

#include <tvm/runtime/crt/error_codes.h>

#include "compiler.h"

#if defined(__ELF__)
#define TVMRT_IF_LINKED TVMRT_WEAK
/* Whether a function declared TVMRT_IF_LINKED is part of the image. */
#define TVMRT_IS_LINKED(function) ((function) != 0)
#else
#define TVMRT_IF_LINKED
#define TVMRT_IS_LINKED(function) 1
#endif

/* Store a text; NULL is an empty one. */
TVMRT_IF_LINKED void tvmrt__store_error(const char* text);

/* Store the text of an error code of this library. */
TVMRT_IF_LINKED void tvmrt__store_code(tvm_crt_error_t code);

/* Store the text of an error code, if the image can read it, and return the code. */
static inline tvm_crt_error_t tvmrt__report(tvm_crt_error_t code) {
  if (TVMRT_IS_LINKED(tvmrt__store_code)) tvmrt__store_code(code);
  return code;
}

#endif /* TVMRT_SRC_BACKEND_ERROR_SLOT_H_ */
