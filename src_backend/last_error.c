/* Backend library: where packed functions leave the text of their error.
 *
 * Apart from error_slot.c so that packed functions, which all link this, do not bring the slot:
 * without a reader of the text their messages go nowhere and the buffer is not part of the
 * image. */
#include <tvm/runtime/c_packed_func.h>

#include "error_slot.h"

void TVMPackedFuncSetLastError(const char* msg) {
  if (TVMRT_IS_LINKED(tvmrt__store_error)) tvmrt__store_error(msg);
}

void TVMAPISetLastError(const char* msg) { TVMPackedFuncSetLastError(msg); }
