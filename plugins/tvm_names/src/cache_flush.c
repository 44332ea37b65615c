/* Flush cached data, so that a measurement starts with its tensors in memory.
 *
 * Works line by line if the processor has such an instruction (sdk/system.h), otherwise does
 * nothing. Tensors on other devices and arguments that are not tensors are skipped, so that any
 * function can be measured. */
#include "functions.h"
#include "sdk/system.h"
#include "sdk/tensors.h"
#include "sdk/values.h"

/* (ignored, tensors ...): preparation function of a measurement, called by name with the arguments
 * of the measured function */
TVMRT_PLUGIN_NATIVE(names_cache_flush) {
  TVMRT_GLOBAL_ARGS;
  for (int i = 1; i < in.count; ++i) {
    DLTensor* t;
    uint64_t bytes;
    size_t line = tvmrt__line_bytes();
    if (in.codes[i] != kTVMDLTensorHandle && in.codes[i] != kTVMNDArrayHandle) continue;
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_tensor(&in, i, &t));
    TVMRT_RETURN_IF_ERROR(tvmrt__tensor_bytes(t, &bytes));
    if (t->device.device_type != kDLCPU || bytes == 0) continue;
    for (uint64_t at = 0; at < bytes; at += line) tvmrt__flush_line(tvmrt__tensor_data(t) + at);
    tvmrt__flush_line(tvmrt__tensor_data(t) + bytes - 1);
  }
  tvmrt__flush_end();
  return 0;
}
