/* Backend library: calls by handle. A handle is the address of a table entry.
 *
 * A handle is only checked for NULL: it came from a look-up of this image, or from the program's
 * own table. */
#include <tvm/runtime/c_packed_func.h>

#include "error_slot.h"

int TVMFuncCall(TVMFunctionHandle func, TVMValue* arg_values, int* type_codes, int num_args,
                TVMValue* ret_val, int* ret_type_code) {
  ret_val->v_int64 = 0;
  *ret_type_code = kTVMNullptr;
  if (func == NULL) return tvmrt__report(kTvmErrorFunctionNameNotFound);
  return (*(const TVMCPackedFunc*)func)(arg_values, type_codes, num_args, ret_val, ret_type_code,
                                        NULL);
}
