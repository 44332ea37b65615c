#include <dlpack/dlpack.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"
#include "sdk/system.h"
#include "sdk/tensors.h"

/* Functions of a network's executor; the last is of networks with dynamic sizes only. */
enum { SET_INPUT, BIND_INPUT, BIND_OUTPUT, GET_INPUT, GET_OUTPUT, RUN, GET_DIMS, NUM_FUNCTIONS };
static const char* const function_names[NUM_FUNCTIONS] = {
    "set_input", "set_input_zero_copy", "set_output_zero_copy", "get_input", "get_output", "run",
    "get_dims"};

/* Buffers of one run; a run takes an idle executor, or makes one. */
typedef struct executor {
  struct executor* next;
  TVMModuleHandle module;
  TVMFunctionHandle functions[NUM_FUNCTIONS];
  struct {
    void* to; /* memory of onnxruntime that an output is copied to; NULL: none */
    const void* from;
    size_t bytes;
  } copies[];
} executor;

struct kernel {
  ort_own table; /* first */
  const ort_functions* ort;
  TVMModuleHandle library;
  TVMFunctionHandle make;
  size_t num_inputs, num_outputs;
  DLTensor **inputs, **outputs; /* of the first executor, for their types and fixed shapes; owned */
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

static void executor_free(executor* of) {
  for (size_t i = 0; i < NUM_FUNCTIONS; ++i) (void)TVMFuncFree(of->functions[i]);
  (void)TVMModFree(of->module);
  free(of);
}

static executor* executor_new(job* j, const kernel* k) {
  TVMValue device = {.v_device = {kDLCPU, 0}}, out;
  int code = kDLDevice, out_code = kTVMNullptr;
  executor* made = tvmrt__calloc(1, sizeof(*made) + k->num_outputs * sizeof(*made->copies));
  if (made == NULL) {
    TVM(j, -1);
    return NULL;
  }
  TVM(j, TVMFuncCall(k->make, &device, &code, 1, &out, &out_code));
  if (out_code == kTVMModuleHandle) made->module = out.v_handle;
  for (size_t i = 0; i < NUM_FUNCTIONS && made->module != NULL; ++i) {
    TVM(j, TVMModGetFunction(made->module, function_names[i], 0, &made->functions[i]));
  }
  for (size_t i = 0; i < GET_DIMS; ++i) {
    if (made->functions[i] != NULL) continue;
    job_fail(j, ORT_FAIL, "the library is not a network with a function %s; compile it again",
             function_names[i]);
  }
  if (!j->has_failed) return made;
  executor_free(made);
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

/* Returns the bytes of a tensor of the library. onnxruntime's memory has those of the model's type, so
 * a library of another network would read or write past its end. */
static size_t check_size(job* j, const ort_value* value, const DLTensor* tensor) {
  uint64_t bytes = 0;
  size_t size = 0;
  TVM(j, tvmrt__tensor_bytes(tensor, &bytes));
  if (ORT(j, api.GetTensorSizeInBytes, value, &size) && size != bytes) {
    job_fail(j, ORT_FAIL,
             "a tensor has %zu bytes in the model and %llu in its library; compile the model again",
             size, (unsigned long long)bytes);
  }
  return size;
}

/* The bounds of a dimension are a provider option. Not ORT_EP_FAIL: for that code, onnxruntime's
 * Python package repeats a run without tvmrt. */
static void fail_input(job* j, const kernel* k) {
  const char* text = TVMGetLastError();
  const size_t size = strlen(text);
  job_fail(j, ORT_INVALID_ARGUMENT, "%.*s%s",
           (int)size - (k->is_dynamic && size > 0 && text[size - 1] == '.'), text,
           k->is_dynamic ? "; when the network is compiled, set the provider option dims to bounds "
                           "that include this size"
                         : "");
}

static void set_input(job* j, const kernel* k, const executor* e, ort_context* context, size_t i) {
  const ort_value* value = NULL;
  const void* data = NULL;
  const int64_t* shape = NULL;
  size_t rank = 0;
  TVMValue none;
  int type, code;
  DLTensor tensor = {.device = {kDLCPU, 0}, .dtype = k->inputs[i]->dtype};
  ORT(j, api.KernelContext_GetInput, context, i, &value);
  ORT(j, api.GetTensorData, value, &data);
  if (!ORT(j, api.GetTensorElementTypeAndShapeDataReference, value, &type, &shape, &rank)) return;
  tensor.ndim = (int32_t)rank;
  tensor.shape = (int64_t*)(uintptr_t)shape; /* inputs are only read */
  tensor.data = (void*)(uintptr_t)data;
  check_size(j, value, &tensor);
  if (j->has_failed) return;
  if (call(e, is_aligned(data) ? BIND_INPUT : SET_INPUT, 2, i, &tensor, &none, &code) != 0) {
    fail_input(j, k);
  }
}

/* Let output i be written to onnxruntime's memory, or next to it if that is not aligned. */
static void bind_output(job* j, const kernel* k, executor* e, ort_context* context, size_t i) {
  DLTensor tensor = *k->outputs[i];
  ort_value* value = NULL;
  void* data = NULL;
  size_t bytes;
  char* aside;
  TVMValue none;
  int code;
  ORT(j, api.KernelContext_GetOutput, context, i, tensor.shape, (size_t)tensor.ndim, &value);
  ORT(j, api.GetTensorMutableData, value, &data);
  bytes = check_size(j, value, &tensor);
  e->copies[i].to = is_aligned(data) ? NULL : data;
  if (e->copies[i].to != NULL) {
    aside = job_alloc(j, bytes + TVMRT_FOREIGN_ALIGN_BYTES, 1);
    if (aside == NULL) return;
    data = aside + TVMRT_FOREIGN_ALIGN_BYTES - (uintptr_t)aside % TVMRT_FOREIGN_ALIGN_BYTES;
    e->copies[i].from = data;
    e->copies[i].bytes = bytes;
  }
  tensor.data = data;
  tensor.byte_offset = 0;
  TVM(j, call(e, BIND_OUTPUT, 2, i, &tensor, &none, &code));
}

/* For outputs whose size is known after the run. */
static void copy_output(job* j, const executor* e, ort_context* context, size_t i) {
  TVMValue out;
  int code = kTVMNullptr;
  void* data = NULL;
  ort_value* value = NULL;
  size_t bytes;
  const DLTensor* from;
  if (!TVM(j, call(e, GET_OUTPUT, 1, i, NULL, &out, &code))) return;
  from = out.v_handle;
  ORT(j, api.KernelContext_GetOutput, context, i, from->shape, (size_t)from->ndim, &value);
  ORT(j, api.GetTensorMutableData, value, &data);
  bytes = check_size(j, value, from);
  if (!j->has_failed && data != NULL && bytes > 0) memcpy(data, tvmrt__tensor_data(from), bytes);
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
    } else if (e->copies[i].to != NULL) {
      memcpy(e->copies[i].to, e->copies[i].from, e->copies[i].bytes);
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

static const ort_slot slots[ORT_OWN_SLOTS] = {
    [OrtNodeComputeInfo_CreateState] = (ort_slot)create_state,
    [OrtNodeComputeInfo_Compute] = (ort_slot)compute,
    [OrtNodeComputeInfo_ReleaseState] = (ort_slot)release_state,
};

/* The first executor shows what the network's tensors are. */
static void describe(job* j, kernel* k) {
  const size_t count = k->num_inputs + k->num_outputs;
  const executor* e = k->idle = executor_new(j, k);
  TVMValue out;
  int code = kTVMNullptr;
  k->inputs = tvmrt__calloc(count + 1, sizeof(DLTensor*));
  if (k->inputs == NULL) TVM(j, -1);
  if (j->has_failed || e == NULL || k->inputs == NULL) return;
  k->outputs = k->inputs + k->num_inputs;
  if (e->functions[GET_DIMS] != NULL) TVM(j, call(e, GET_DIMS, 0, 0, NULL, &out, &code));
  k->is_dynamic = code != kTVMNullptr;
  for (size_t i = 0; !j->has_failed && i < count; ++i) {
    const bool is_input = i < k->num_inputs;
    const size_t at = is_input ? i : i - k->num_inputs;
    TVM(j, call(e, is_input ? GET_INPUT : GET_OUTPUT, 1, at, NULL, &out, &code));
    if (code == kTVMNDArrayHandle) {
      k->inputs[i] = out.v_handle;
    } else {
      job_fail(j, ORT_FAIL, "the library has no tensor %zu; compile the model again", at);
    }
  }
}

kernel* kernel_load(job* j, const char* path, const ort_node* fused) {
  kernel* k = own_new(j, sizeof(*k), slots);
  if (k == NULL) return NULL;
  k->ort = j->ort;
  (void)tvmrt__mutex_init(&k->lock);
  ORT(j, api.Node_GetNumInputs, fused, &k->num_inputs);
  ORT(j, api.Node_GetNumOutputs, fused, &k->num_outputs);
  if (!j->has_failed && TVMModLoadFromFile(path, "so", &k->library) != 0) {
    job_fail(j, ORT_FAIL, "a compiled part cannot be loaded (%s); compile the model again",
             TVMGetLastError());
  }
  TVM(j, TVMModGetFunction(k->library, "default", 0, &k->make));
  if (k->make == NULL) job_fail(j, ORT_FAIL, "a library is not a network; compile the model again");
  if (!j->has_failed) describe(j, k);
  if (!j->has_failed) return k;
  kernel_free(k);
  return NULL;
}

void kernel_free(kernel* of) {
  if (of == NULL) return;
  for (size_t i = 0; of->inputs != NULL && i < of->num_inputs + of->num_outputs; ++i) {
    (void)TVMArrayFree(of->inputs[i]);
  }
  free(of->inputs);
  for (executor *next, *at = of->idle; at != NULL; at = next) {
    next = at->next;
    executor_free(at);
  }
  (void)TVMFuncFree(of->make);
  (void)TVMModFree(of->library);
  tvmrt__mutex_free(&of->lock);
  free(of);
}
