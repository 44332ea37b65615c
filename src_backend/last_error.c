/* Backend library: entry points for packed functions to report error texts.
 *
 * Separate from error_slot.c so that packed functions, which all link this, do not link the slot:
 * without a reader of the text, messages are dropped and the buffer is not part of the image. */
#include <tvm/runtime/c_packed_func.h>

#include "error_slot.h"

void TVMPackedFuncSetLastError(const char* msg) {
  if (TVMRT_IS_LINKED(tvmrt__store_error)) tvmrt__store_error(msg);
}

void TVMAPISetLastError(const char* msg) { TVMPackedFuncSetLastError(msg); }
