/* Firmware runtime: the graph executor: memory of its tensors, inputs, outputs, runs.
 *
 * Tables are filled by graph_read.c and never move. Entries with the same storage id share memory;
 * those of inputs are EXTERNAL and have the address of the program's tensor, which is used in place
 * and must stay valid until the run ends. A run calls the operators in order, with prepared
 * arguments. Not thread-safe: one thread at a time may use an executor. */
#include <tvm/runtime/c_runtime_api.h>

#include "../../../src_backend/mem_functions.h"
#include "../../../src_backend/string_functions.h"
#include "../aot/dtype.h"
#include "graph.h"

/* The program's memory begins with the executor, and programs rely on its stated size. */
typedef char executor_fits[sizeof(TVMGraphExecutor) <= TVMRT_GRAPH_EXECUTOR_BYTES ? 1 : -1];
typedef char op_fits[sizeof(graph_op) == 3 * sizeof(void*) ? 1 : -1];
typedef char input_fits[sizeof(graph_input) == 2 * sizeof(void*) ? 1 : -1];
typedef char executor_is_aligned[TVMRT_GRAPH_EXECUTOR_BYTES % 8 == 0 ? 1 : -1];

/* On success `at` is the first unused byte, aligned. A remainder that is too small stays unused if
 * `memory` provides a new block. */
tvm_crt_error_t tvmrt__graph_reserve(TVMGraphExecutor* g, size_t num_bytes) {
  if ((size_t)(g->end - g->at) >= num_bytes) return kTvmErrorNoError;
  return g->memory == NULL ? kTvmErrorPlatformNoMemory : g->memory->grow(g, num_bytes);
}

/* Give each storage its offset from the beginning of the memory, stored in place of the address. 0
 * means not set, so the first offset must not be 0. Returns the end of the last storage. */
static size_t measure(TVMGraphExecutor* g, size_t offset) {
  uint32_t i;
  uint32_t k;
  for (i = 0; i < g->num_entries; ++i) {
    size_t maximum = 0;
    /* inputs lie elsewhere, and an entry with an offset shares it with an earlier one */
    if ((g->storage_ids[i] & EXTERNAL) != 0 || g->entries[i].data != NULL) continue;
    for (k = i; k < g->num_entries; ++k) {
      int ok;
      size_t bytes;
      if (g->storage_ids[k] != g->storage_ids[i]) continue;
      bytes = TVMRT_GRAPH_ROUND_UP(tvmrt__graph_bytes(&g->entries[k], &ok));
      if (bytes > maximum) maximum = bytes;
      g->entries[k].data = (void*)(uintptr_t)offset;
    }
    /* more than any board has, and a number that does not overflow when it is rounded */
    if (maximum > SIZE_MAX / 2 - offset) return SIZE_MAX / 2;
    offset += maximum;
  }
  return offset;
}

/* Type codes are those of the operator with the most arguments: all are tensors, so one table
 * serves all. *needed_bytes is set also if memory is insufficient. */
tvm_crt_error_t tvmrt__graph_assign_memory(TVMGraphExecutor* g, size_t* needed_bytes) {
  size_t codes_bytes = TVMRT_GRAPH_ROUND_UP(g->max_args * sizeof(int));
  tvm_crt_error_t rc;
  uint32_t i;
  *needed_bytes = 0;
  if (g->ops == g->ops_end) return kTvmErrorNoError; /* all outputs are inputs */
  *needed_bytes = measure(g, codes_bytes);
  rc = tvmrt__graph_reserve(g, *needed_bytes);
  if (rc != kTvmErrorNoError) return rc;
  g->type_codes = (int*)(void*)g->at;
  for (i = 0; i < g->max_args; ++i) g->type_codes[i] = kTVMDLTensorHandle;
  for (i = 0; i < g->num_entries; ++i) {
    DLTensor* tensor = &g->entries[i];
    if ((g->storage_ids[i] & EXTERNAL) == 0) tensor->data = g->at + (uintptr_t)tensor->data;
  }
  g->at += *needed_bytes;
  return kTvmErrorNoError;
}

/* num_inputs if there is none. Names lie in the JSON, and are compared with escapes decoded. */
uint32_t tvmrt__graph_find_input(const TVMGraphExecutor* g, const char* name, size_t num_bytes) {
  uint32_t i;
  for (i = 0; i < g->num_inputs; ++i) {
    if (tvmrt__json_same(g->inputs[i].name, name, num_bytes)) break;
  }
  return i;
}

/* Setting an input for the first time decrements num_unset. Reshaped views of the input have its
 * storage id. */
void tvmrt__graph_bind(TVMGraphExecutor* g, uint32_t input, void* data) {
  uint32_t entry = (uint32_t)g->inputs[input].entry;
  uint32_t i;
  if (g->entries[entry].data == NULL) --g->num_unset;
  for (i = 0; i < g->num_entries; ++i) {
    if (g->storage_ids[i] == g->storage_ids[entry]) g->entries[i].data = data;
  }
}

/* -1 for a name that no input has. Weights are inputs as well. */
int TVMGraphExecutor_GetInputIndex(TVMGraphExecutor* executor, const char* name) {
  uint32_t i = tvmrt__graph_find_input(executor, name, tvmrt__text_length(name));
  return i < executor->num_inputs ? (int)i : -1;
}

int TVMGraphExecutor_GetNumInputs(TVMGraphExecutor* executor) { return executor->num_inputs; }

int TVMGraphExecutor_GetNumOutputs(TVMGraphExecutor* executor) { return executor->num_heads; }

/* Borrowed; its data is NULL until the input is set. */
const DLTensor* tvmrt_graph_input(const TVMGraphExecutor* executor, int32_t index) {
  if (index < 0 || index >= executor->num_inputs) return NULL;
  return &executor->entries[executor->inputs[index].entry];
}

/* Borrowed; valid until the next run. If runs choose extents, it has the extents of the last
 * run. */
const DLTensor* tvmrt_graph_output(const TVMGraphExecutor* executor, int32_t index) {
  if (index < 0 || index >= executor->num_heads) return NULL;
  return &executor->entries[executor->heads[index]];
}

/* Whether the tensor is contiguous by its strides. */
static int is_compact(const DLTensor* tensor) {
  int64_t stride = 1;
  int32_t i;
  if (tensor->strides == NULL) return 1;
  for (i = tensor->ndim; i > 0; --i) {
    /* the stride of an extent of 1 is irrelevant */
    if (tensor->shape[i - 1] != 1 && tensor->strides[i - 1] != stride) return 0;
    stride *= tensor->shape[i - 1];
  }
  return 1;
}

/* Compares sizes in bytes, not shapes: any shape with as many elements fits. The address must be
 * aligned to the elements, as the processor may require it. */
tvm_crt_error_t tvmrt__graph_compare(const DLTensor* own, const DLTensor* given, uint8_t** data) {
  int ok;
  size_t lane = own->dtype.bits / 8u;
  if (given == NULL || given->data == NULL) return kTvmErrorFunctionCallInvalidArg;
  if (!tvmrt__same_type(own->dtype, given->dtype) || !is_compact(given) ||
      tvmrt__graph_bytes(own, &ok) != tvmrt__graph_bytes(given, &ok) || !ok) {
    return kTvmErrorGraphTensorMismatch;
  }
  *data = (uint8_t*)given->data + given->byte_offset;
  if (lane > 1 && ((uintptr_t)*data & (lane - 1)) != 0) return kTvmErrorGraphTensorMisaligned;
  return kTvmErrorNoError;
}

/* Used in place: the program's memory must stay valid until the last run that reads it. */
tvm_crt_error_t tvmrt__graph_set_input(TVMGraphExecutor* g, uint32_t input,
                                       const DLTensor* tensor) {
  uint8_t* data = NULL;
  tvm_crt_error_t rc;
  if (g->sizes != NULL) return g->sizes->set_input(g, input, tensor);
  rc = tvmrt__graph_compare(tvmrt_graph_input(g, (int32_t)input), tensor, &data);
  if (rc == kTvmErrorNoError) tvmrt__graph_bind(g, input, data);
  return rc;
}

int TVMGraphExecutor_SetInput(TVMGraphExecutor* executor, const char* name, DLTensor* data_in) {
  uint32_t input = tvmrt__graph_find_input(executor, name, tvmrt__text_length(name));
  if (input == executor->num_inputs) return kTvmErrorExecutorModuleNoSuchInput;
  return tvmrt__graph_set_input(executor, input, data_in);
}

/* An output that is an input has no data until that is set. Copies the values of the last run, even
 * if that run failed. */
int TVMGraphExecutor_GetOutput(TVMGraphExecutor* executor, int32_t index, DLTensor* out) {
  const DLTensor* own = tvmrt_graph_output(executor, index);
  uint8_t* data = NULL;
  tvm_crt_error_t rc;
  int ok;
  if (own == NULL) return kTvmErrorFunctionCallInvalidArg;
  if (own->data == NULL) return kTvmErrorGraphInputNotSet;
  rc = tvmrt__graph_compare(own, out, &data);
  if (rc == kTvmErrorNoError) memcpy(data, own->data, tvmrt__graph_bytes(own, &ok));
  return rc;
}

/* Returns the code of the first operator that fails, whose text is in the error slot. Outputs that
 * were written before stay written. */
int TVMGraphExecutor_Run(TVMGraphExecutor* executor) {
  const graph_op* op = executor->ops;
  const graph_op* end = executor->ops_end;
  if (executor->num_unset != 0) return kTvmErrorGraphInputNotSet;
  if (executor->sizes != NULL) executor->sizes->show_capacity(executor);
  for (; op != end; ++op) {
    TVMValue result;
    int code = kTVMNullptr;
    int rc = op->function(op->args, executor->type_codes, (int)op->num_args, &result, &code, NULL);
    if (rc != 0) return rc;
  }
  return 0;
}

/* An executor in a program's arena has nothing to free; the program may reuse the arena. */
int TVMGraphExecutor_Release(TVMGraphExecutor** executor) {
  TVMGraphExecutor* g = *executor;
  *executor = NULL;
  if (g != NULL && g->memory != NULL) g->memory->release(g);
  return 0;
}
