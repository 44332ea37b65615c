/* The start of firmware programs on hosts, and what their packed functions need there.
 *
 * Registration does nothing on hosts: the runtime has registered its executors by itself. */
#include <tvm/runtime/crt/aot_executor_module.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/graph_executor_module.h>

#include "../core/function.h"
#include "../firmware/packed_func.h"
#include "../tensors/tensor.h"

/* Boards set their registry up here. Hosts have one already: what is tried is whether it
 * answers. */
tvm_crt_error_t TVMInitializeRuntime(void) {
  tvmrt_func* f;
  if (tvmrt__global_get("runtime.SystemLib", &f) != 0) return kTvmErrorPlatformNoMemory;
  if (f != NULL) tvmrt__release(&f->base);
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMGraphExecutorModule_Register(void) { return kTvmErrorNoError; }

tvm_crt_error_t TVMAotExecutorModule_Register(void) { return kTvmErrorNoError; }

/* A type of no bits for what is none; the sentence is in the error slot. */
DLDataType String2DLDataType(const char* s) {
  DLDataType dtype = {0, 0, 0};
  (void)tvmrt__dtype_from_text(s, &dtype);
  return dtype;
}

/* What has failed already has its text. */
int tvmrt__function_missing(const char* name, int rc) {
  return rc != 0 ? rc : tvmrt__fail("Cannot find function %s.", name);
}
