#include "kernel.h"

#include <dlpack/dlpack.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/system.h"
#include "sdk/tensors.h"

/* Functions of a network's executor; the last is of networks with dynamic sizes only. */
enum {
  SET_INPUT,
  BIND_INPUT,
  BIND_OUTPUT,
  GET_INPUT,
  GET_OUTPUT,
  RUN,
  GET_NUM_INPUTS,
  GET_NUM_OUTPUTS,
  GET_DIMS,
  NUM_FUNCTIONS
};
static const char* const function_names[NUM_FUNCTIONS] = {
    [SET_INPUT] = "set_input",
    [BIND_INPUT] = "set_input_zero_copy",
    [BIND_OUTPUT] = "set_output_zero_copy",
    [GET_INPUT] = "get_input",
    [GET_OUTPUT] = "get_output",
    [RUN] = "run",
    [GET_NUM_INPUTS] = "get_num_inputs",
    [GET_NUM_OUTPUTS] = "get_num_outputs",
    [GET_DIMS] = "get_dims",
};

/* Buffers of one run; a run takes an idle executor, or makes one. */
typedef struct executor {
  struct executor* next;
  TVMModuleHandle module;
  TVMFunctionHandle functions[NUM_FUNCTIONS];
  struct {
    void* scratch; /* aligned memory, or NULL */
    void* copy_to; /* memory of onnxruntime that the scratch is copied to; NULL: none */
  } outputs[];
} executor;

typedef struct port {
  DLDataType dtype;
  int ndim;
  uint64_t bytes;
  int64_t shape[TVMRT_MAX_NDIM];
} port;

struct kernel {
  ort_own table; /* first */
  const ort_functions* ort;
  TVMModuleHandle library;
  TVMFunctionHandle make;
  size_t num_inputs, num_outputs;
  port *inputs, *outputs;
  bool is_dynamic;
  tvmrt_mutex lock;
  executor* idle;
};

/* Call a function with the first of: an index, a tensor. The result has a type code. */
static int call(const executor* e, int function, int num_args, size_t index, DLTensor* tensor,
                TVMValue* out, int* out_code) {
  TVMValue args[2] = {{.v_int64 = (int64_t)index}, {.v_handle = tensor}};
  int codes[2] = {kTVMArgInt, kTVMDLTensorHandle};
  *out_code = kTVMNullptr;
  return TVMFuncCall(e->functions[function], args, codes, num_args, out, out_code);
}

/* ---- executors ---- */

static void executor_free(const kernel* k, executor* of) {
  if (of == NULL) return;
  for (size_t i = 0; i < NUM_FUNCTIONS; ++i) (void)TVMFuncFree(of->functions[i]);
  (void)TVMModFree(of->module);
  for (size_t i = 0; i < k->num_outputs; ++i) tvmrt__aligned_free(of->outputs[i].scratch);
  free(of);
}

static executor* executor_new(job* j, const kernel* k) {
  TVMValue device = {.v_device = {kDLCPU, 0}}, out;
  int code = kDLDevice, out_code = kTVMNullptr;
  executor* made = tvmrt__calloc(1, sizeof(*made) + k->num_outputs * sizeof(*made->outputs));
  if (made == NULL) {
    TVM(j, -1);
    return NULL;
  }
  if (!TVM(j, TVMFuncCall(k->make, &device, &code, 1, &out, &out_code))) {
    free(made);
    return NULL;
  }
  made->module = out_code == kTVMModuleHandle ? out.v_handle : NULL;
  for (size_t i = 0; i < NUM_FUNCTIONS; ++i) {
    if (made->module != NULL) {
      TVM(j, TVMModGetFunction(made->module, function_names[i], 0, &made->functions[i]));
    }
    if (made->functions[i] != NULL || (i == GET_DIMS && made->module != NULL)) continue;
    job_fail(j, ORT_FAIL, "the library is not a network with a function %s; compile it again",
             function_names[i]);
  }
  if (!j->has_failed) return made;
  executor_free(k, made);
  return NULL;
}

static executor* take(job* j, kernel* k) {
  executor* found;
  tvmrt__lock(&k->lock);
  found = k->idle;
  if (found != NULL) k->idle = found->next;
  tvmrt__unlock(&k->lock);
  return found != NULL ? found : executor_new(j, k);
}

static void give(kernel* k, executor* back) {
  tvmrt__lock(&k->lock);
  back->next = k->idle;
  k->idle = back;
  tvmrt__unlock(&k->lock);
}

/* ---- runs ---- */

static bool is_aligned(const void* data) { /* tensors at other addresses are copied */
  return (uintptr_t)data % TVMRT_FOREIGN_ALIGN_BYTES == 0;
}

/* The bounds of a dimension are a provider option. If the runtime's text says that a dimension has
 * another size, in these words, the error names bounds that include it. Not ORT_EP_FAIL: for that
 * code, onnxruntime's Python package repeats a run without tvmrt. */
static void fail_input(job* j) {
  static const char before[] = ", dimension ", has[] = " has ", expected[] = " expected ",
                    to[] = " to ";
  const char *text = TVMGetLastError(), *name = strstr(text, before), *found = NULL, *bounds = NULL;
  long long size, low, high;
  char* end;
  for (const char* at = name; at != NULL && (at = strstr(at, has)) != NULL; ++at) found = at;
  if (found != NULL) bounds = strstr(found, expected);
  if (bounds == NULL) {
    TVM(j, -1);
    return;
  }
  name += sizeof(before) - 1;
  size = strtoll(found + sizeof(has) - 1, NULL, 10);
  low = high = strtoll(bounds + sizeof(expected) - 1, &end, 10);
  if (strncmp(end, to, sizeof(to) - 1) == 0) high = strtoll(end + sizeof(to) - 1, NULL, 10);
  job_fail(j, ORT_INVALID_ARGUMENT,
           "%.*s; set the provider option dims when the network is compiled, for example "
           "%.*s=%lld..%lld",
           (int)strcspn(bounds, ".") + (int)(bounds - text), text, (int)(found - name), name,
           size < low ? size : low, size > high ? size : high);
}

static void set_input(job* j, const kernel* k, const executor* e, ort_context* context, size_t i) {
  const ort_value* value = NULL;
  const void* data = NULL;
  ort_shape* shape = NULL;
  size_t rank = 0;
  int64_t extents[TVMRT_MAX_NDIM];
  TVMValue none;
  int code;
  DLTensor tensor = {.device = {kDLCPU, 0}, .dtype = k->inputs[i].dtype, .shape = extents};
  ORT(j, api.KernelContext_GetInput, context, i, &value);
  ORT(j, api.GetTensorData, value, &data);
  ORT(j, api.GetTensorTypeAndShape, value, &shape);
  ORT(j, api.GetDimensionsCount, shape, &rank);
  if (rank > TVMRT_MAX_NDIM) job_fail(j, ORT_FAIL, "an input has %zu axes; at most 64 work", rank);
  ORT(j, api.GetDimensions, shape, extents, rank);
  if (shape != NULL) k->ort->api.ReleaseTensorTypeAndShapeInfo(shape);
  if (j->has_failed) return;
  tensor.ndim = (int32_t)rank;
  tensor.data = (void*)(uintptr_t)data; /* inputs are only read */
  if (call(e, is_aligned(data) ? BIND_INPUT : SET_INPUT, 2, i, &tensor, &none, &code) != 0) {
    fail_input(j);
  }
}

/* Let output i be written to onnxruntime's memory, or next to it if that is not aligned. */
static void bind_output(job* j, const kernel* k, executor* e, ort_context* context, size_t i) {
  port* p = &k->outputs[i];
  ort_value* value = NULL;
  void *data = NULL, **scratch = &e->outputs[i].scratch;
  TVMValue none;
  int code;
  DLTensor tensor = {.device = {kDLCPU, 0}, .dtype = p->dtype, .ndim = p->ndim, .shape = p->shape};
  ORT(j, api.KernelContext_GetOutput, context, i, p->shape, (size_t)p->ndim, &value);
  if (!ORT(j, api.GetTensorMutableData, value, &data)) return;
  e->outputs[i].copy_to = is_aligned(data) ? NULL : data;
  if (!is_aligned(data)) {
    if (*scratch == NULL) *scratch = tvmrt__aligned_alloc(TVMRT_FOREIGN_ALIGN_BYTES, p->bytes + 1);
    if (*scratch == NULL) TVM(j, tvmrt__fail_memory(p->bytes));
    data = *scratch;
  }
  tensor.data = data;
  TVM(j, call(e, BIND_OUTPUT, 2, i, &tensor, &none, &code));
}

/* For outputs whose size is known after the run. */
static void copy_output(job* j, const executor* e, ort_context* context, size_t i) {
  TVMValue out;
  int code = kTVMNullptr;
  void* data = NULL;
  ort_value* value = NULL;
  uint64_t bytes = 0;
  const DLTensor* from;
  if (!TVM(j, call(e, GET_OUTPUT, 1, i, NULL, &out, &code))) return;
  from = out.v_handle;
  TVM(j, tvmrt__tensor_bytes(from, &bytes));
  ORT(j, api.KernelContext_GetOutput, context, i, from->shape, (size_t)from->ndim, &value);
  ORT(j, api.GetTensorMutableData, value, &data);
  if (!j->has_failed && data != NULL && bytes > 0) {
    memcpy(data, tvmrt__tensor_data(from), (size_t)bytes);
  }
  (void)TVMArrayFree(out.v_handle);
}

static ort_status* compute(void* self, void* state, ort_context* context) {
  kernel* k = self;
  job j = {.ort = k->ort};
  executor* e = take(&j, k);
  TVMValue none;
  int code;
  (void)state;
  if (e == NULL) return job_end(&j);
  for (size_t i = 0; i < k->num_inputs; ++i) set_input(&j, k, e, context, i);
  for (size_t i = 0; !k->is_dynamic && i < k->num_outputs; ++i) bind_output(&j, k, e, context, i);
  TVM(&j, call(e, RUN, 0, 0, NULL, &none, &code));
  for (size_t i = 0; !j.has_failed && i < k->num_outputs; ++i) {
    if (k->is_dynamic) {
      copy_output(&j, e, context, i);
    } else if (e->outputs[i].copy_to != NULL) {
      memcpy(e->outputs[i].copy_to, e->outputs[i].scratch, k->outputs[i].bytes);
    }
  }
  give(k, e);
  return job_end(&j);
}

static ort_status* create_state(void* self, void* context, void** state) {
  (void)context;
  *state = self; /* the kernel itself; executors are not bound to a state */
  return NULL;
}

static void release_state(void* self, void* state) { (void)self, (void)state; }

/* ---- loading ---- */

/* Codes of the compiler for float8 and float4; DataTypeCode in Python lists them. */
enum { E4M3FN = 6, E5M2 = 7, E4M3FNUZ = 11, E5M2FNUZ = 13, E8M0FNU = 14, E2M1FN = 17 };
/* Types of elements by onnxruntime's numbers. */
static const DLDataType element_types[] = {
    [1] = {kDLFloat, 32, 1},   [2] = {kDLUInt, 8, 1},   [3] = {kDLInt, 8, 1},
    [4] = {kDLUInt, 16, 1},    [5] = {kDLInt, 16, 1},   [6] = {kDLInt, 32, 1},
    [7] = {kDLInt, 64, 1},     [9] = {kDLUInt, 1, 1},   [10] = {kDLFloat, 16, 1},
    [11] = {kDLFloat, 64, 1},  [12] = {kDLUInt, 32, 1}, [13] = {kDLUInt, 64, 1},
    [16] = {kDLBfloat, 16, 1}, [17] = {E4M3FN, 8, 1},   [18] = {E4M3FNUZ, 8, 1},
    [19] = {E5M2, 8, 1},       [20] = {E5M2FNUZ, 8, 1}, [21] = {kDLUInt, 4, 1},
    [22] = {kDLInt, 4, 1},     [23] = {E2M1FN, 4, 1},   [24] = {kDLUInt, 2, 1},
    [25] = {kDLInt, 2, 1},     [26] = {E8M0FNU, 8, 1},
};
enum { NUM_ELEMENT_TYPES = sizeof(element_types) / sizeof(*element_types) };

/* onnxruntime's memory for a tensor has the size of the node's type, so a library of another network
 * would read or write past its end. */
static void check_type(job* j, const ort_value_info* info, DLDataType dtype) {
  const char* name = NULL;
  const ort_type* type = NULL;
  const ort_shape* shape = NULL;
  DLDataType expected = {0, 0, 0};
  char is[TVMRT_DTYPE_TEXT_BYTES], wanted[TVMRT_DTYPE_TEXT_BYTES];
  int number = 0;
  ORT(j, api.GetValueInfoName, info, &name);
  ORT(j, api.GetValueInfoTypeInfo, info, &type);
  ORT(j, api.CastTypeInfoToTensorInfo, type, &shape);
  if (shape != NULL) ORT(j, api.GetTensorElementType, shape, &number);
  if (j->has_failed) return;
  if (number > 0 && number < NUM_ELEMENT_TYPES) expected = element_types[number];
  if (tvmrt__same_dtype(dtype, expected)) return;
  tvmrt__dtype_to_text(dtype, is);
  tvmrt__dtype_to_text(expected, wanted);
  job_fail(j, ORT_FAIL,
           "the type of %s is %s in the library and %s in the model; compile the model again", name,
           is, wanted);
}

static void read_port(job* j, const executor* e, int function, size_t i, const ort_value_info* info,
                      port* to) {
  TVMValue out;
  int code = kTVMNullptr;
  const DLTensor* tensor;
  if (!TVM(j, call(e, function, 1, i, NULL, &out, &code))) return;
  if (code != kTVMNDArrayHandle) {
    job_fail(j, ORT_FAIL, "the library has no tensor %zu; compile it again", i);
    return;
  }
  tensor = out.v_handle; /* the runtime has none of more than 64 axes */
  to->dtype = tensor->dtype;
  to->ndim = tensor->ndim;
  TVM(j, tvmrt__tensor_bytes(tensor, &to->bytes));
  check_type(j, info, tensor->dtype);
  for (int axis = 0; axis < tensor->ndim; ++axis) to->shape[axis] = tensor->shape[axis];
  (void)TVMArrayFree(out.v_handle);
}

/* The first executor says what the network's tensors are. */
static void describe(job* j, kernel* k, const ort_node* fused) {
  const executor* e = k->idle = executor_new(j, k);
  TVMValue inputs = {0}, outputs = {0}, dims;
  list in, out;
  int code = kTVMNullptr;
  if (e == NULL) return;
  if (e->functions[GET_DIMS] != NULL) TVM(j, call(e, GET_DIMS, 0, 0, NULL, &dims, &code));
  k->is_dynamic = code != kTVMNullptr;
  TVM(j, call(e, GET_NUM_INPUTS, 0, 0, NULL, &inputs, &code));
  if (!TVM(j, call(e, GET_NUM_OUTPUTS, 0, 0, NULL, &outputs, &code))) return;
  if (inputs.v_int64 != (int64_t)k->num_inputs || outputs.v_int64 != (int64_t)k->num_outputs) {
    job_fail(
        j, ORT_FAIL,
        "the library has %lld inputs and %lld outputs, the node %zu and %zu; compile the model "
        "again",
        (long long)inputs.v_int64, (long long)outputs.v_int64, k->num_inputs, k->num_outputs);
    return;
  }
  k->inputs = tvmrt__calloc(k->num_inputs + k->num_outputs + 1, sizeof(*k->inputs));
  if (k->inputs == NULL) {
    TVM(j, -1);
    return;
  }
  k->outputs = k->inputs + k->num_inputs;
  in = LIST(j, Node, Inputs, fused);
  out = LIST(j, Node, Outputs, fused);
  for (size_t i = 0; i < in.count; ++i) read_port(j, e, GET_INPUT, i, in.items[i], &k->inputs[i]);
  for (size_t i = 0; i < out.count; ++i) {
    read_port(j, e, GET_OUTPUT, i, out.items[i], &k->outputs[i]);
  }
}

kernel* kernel_load(job* j, const char* path, const ort_node* fused) {
  kernel* k = j->has_failed ? NULL : tvmrt__calloc(1, sizeof(*k));
  if (k == NULL) {
    TVM(j, -1);
    return NULL;
  }
  k->table.version = ORT_VERSION_NEEDED;
  k->table.slots[OrtNodeComputeInfo_CreateState] = (ort_slot)create_state;
  k->table.slots[OrtNodeComputeInfo_Compute] = (ort_slot)compute;
  k->table.slots[OrtNodeComputeInfo_ReleaseState] = (ort_slot)release_state;
  k->ort = j->ort;
  (void)tvmrt__mutex_init(&k->lock);
  ORT(j, api.Node_GetNumInputs, fused, &k->num_inputs);
  ORT(j, api.Node_GetNumOutputs, fused, &k->num_outputs);
  TVM(j, TVMModLoadFromFile(path, "so", &k->library));
  TVM(j, TVMModGetFunction(k->library, "default", 0, &k->make));
  if (k->make == NULL) {
    job_fail(j, ORT_FAIL, "%s is not a network of tvmrt; compile the model again", path);
  }
  if (!j->has_failed) describe(j, k, fused);
  if (!j->has_failed) return k;
  kernel_free(k);
  return NULL;
}

void kernel_free(kernel* of) {
  if (of == NULL) return;
  for (executor *next, *at = of->idle; at != NULL; at = next) {
    next = at->next;
    executor_free(of, at);
  }
  (void)TVMFuncFree(of->make);
  (void)TVMModFree(of->library);
  free(of->inputs);
  tvmrt__mutex_free(&of->lock);
  free(of);
}
