/* Backend library: where packed functions leave the text of their error. */
#include <tvm/runtime/c_packed_func.h>

#include "error_slot.h"

void TVMPackedFuncSetLastError(const char* msg) {
  if (TVMRT_IS_LINKED(tvmrt__store_error)) tvmrt__store_error(msg);
}

void TVMAPISetLastError(const char* msg) { TVMPackedFuncSetLastError(msg); }
