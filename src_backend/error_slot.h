/* Backend library: how errors reach the text of TVMGetLastError().
 *
 * Both functions live beside TVMGetLastError(). They are referred to weakly, so that an image that
 * never asks for the text holds neither the buffer nor the sentences. */
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

/* Keep a text; NULL is an empty one. */
TVMRT_IF_LINKED void tvmrt__store_error(const char* text);

/* Keep the sentence that belongs to a code of this library. */
TVMRT_IF_LINKED void tvmrt__store_code(tvm_crt_error_t code);

/* Keep the sentence of a code, if anybody can ask for it, and give the code back. */
static inline tvm_crt_error_t tvmrt__report(tvm_crt_error_t code) {
  if (TVMRT_IS_LINKED(tvmrt__store_code)) tvmrt__store_code(code);
  return code;
}

#endif /* TVMRT_SRC_BACKEND_ERROR_SLOT_H_ */
