/* The start of firmware programs on hosts, and functions that their packed functions need.
 *
 * Registration does nothing on hosts: the runtime registers its executors itself. */
#include <tvm/runtime/crt/aot_executor_module.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/graph_executor_module.h>

#include "../core/function.h"
#include "../firmware/aot/packed_func.h"
#include "../tensors/tensor.h"

/* Boards set up their registry here. Hosts already have one: this only checks that it works. */
tvm_crt_error_t TVMInitializeRuntime(void) {
  tvmrt_func* f;
  if (tvmrt__global_get("runtime.SystemLib", &f) != 0) return kTvmErrorPlatformNoMemory;
  if (f != NULL) tvmrt__release(&f->base);
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMGraphExecutorModule_Register(void) { return kTvmErrorNoError; }

tvm_crt_error_t TVMAotExecutorModule_Register(void) { return kTvmErrorNoError; }

/* A type with 0 bits if `s` is not a type; the error text is set. */
DLDataType String2DLDataType(const char* s) {
  DLDataType dtype = {0, 0, 0};
  (void)tvmrt__dtype_from_text(s, &dtype);
  return dtype;
}

/* If the look-up failed, the error text is set already. */
int tvmrt__function_missing(const char* name, int rc) {
  return rc != 0 ? rc : tvmrt__fail("Cannot find function %s.", name);
}
