#include <dlpack/dlpack.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"
#include "sdk/system.h"
#include "sdk/tensors.h"

/* Functions of a network's executor that runs call. */
enum { SET_INPUT, BIND_INPUT, BIND_OUTPUT, GET_OUTPUT, RUN, NUM_FUNCTIONS };
static const char* const function_names[NUM_FUNCTIONS] = {
    "set_input", "set_input_zero_copy", "set_output_zero_copy", "get_output", "run"};

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
  const tvmrt_dims* dims;       /* a constant of the library; NULL: all sizes are fixed */
  tvmrt_mutex lock;
  executor* idle;
  size_t num_idle, max_idle;
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
  for (size_t i = 0; i < NUM_FUNCTIONS; ++i) {
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
  if (found != NULL) {
    k->idle = found->next;
    --k->num_idle;
  }
  tvmrt__unlock(&k->lock);
  return found != NULL ? found : executor_new(j, k);
}

/* Keep an executor for a later run, or free it: many runs at once must not hold memory for good. */
static void give(kernel* k, executor* back) {
  bool is_kept;
  tvmrt__lock(&k->lock);
  is_kept = k->num_idle < k->max_idle;
  if (is_kept) {
    back->next = k->idle;
    k->idle = back;
    ++k->num_idle;
  }
  tvmrt__unlock(&k->lock);
  if (!is_kept) executor_free(back);
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

enum { EXAMPLE_MAXIMUM = 1024 };

/* The first dimension of an input whose size is out of bounds, as a value of the option dims that
 * includes it; NULL: none has a name. */
static char* wider_bounds(job* j, const kernel* k, size_t input, const DLTensor* given) {
  const tvmrt_dims_tensor* of = &k->dims->inputs[input];
  if ((int64_t)input >= k->dims->num_inputs || of->rank != given->ndim) return NULL;
  for (int32_t i = 0; i < of->rank; ++i) {
    const int64_t size = given->shape[i];
    if ((size >= of->min[i] && size <= of->max[i]) || of->dim[i] < 0) continue;
    /* an example for a dimension without a maximum */
    const int64_t most = of->max[i] > INT32_MAX - EXAMPLE_MAXIMUM ? EXAMPLE_MAXIMUM : of->max[i];
    return job_text(j, "%s=%lld..%lld", k->dims->dims[of->dim[i]].name,
                    (long long)(size < of->min[i] ? size : of->min[i]),
                    (long long)(size > most ? size : most));
  }
  return NULL;
}

/* Not ORT_EP_FAIL: for that code, onnxruntime's Python package repeats a run without tvmrt. */
static void fail_input(job* j, const kernel* k, size_t input, const DLTensor* given) {
  const char* text = TVMGetLastError();
  const size_t size = strlen(text);
  const char* bounds = k->dims == NULL ? NULL : wider_bounds(j, k, input, given);
  if (bounds == NULL) {
    job_fail(j, ORT_INVALID_ARGUMENT, "%s", text);
  } else {
    job_fail(j, ORT_INVALID_ARGUMENT,
             "%.*s; create the session, or compile the model, with the provider option dims set to "
             "%s or wider bounds",
             (int)size - (size > 0 && text[size - 1] == '.'), text, bounds);
  }
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
    fail_input(j, k, i, &tensor);
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
  for (size_t i = 0; k->dims == NULL && i < k->num_outputs; ++i) bind_output(&j, k, e, context, i);
  TVM(&j, call(e, RUN, 0, 0, NULL, &none, &code));
  for (size_t i = 0; !j.has_failed && i < k->num_outputs; ++i) {
    if (k->dims != NULL) {
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

/* Call a function of a module, with an index unless it is negative. The result has the type `want`. */
static bool ask(job* j, TVMModuleHandle of, const char* name, int64_t index, int want,
                TVMValue* out) {
  TVMFunctionHandle function = NULL;
  TVMValue arg = {.v_int64 = index};
  int code = kTVMArgInt, out_code = kTVMNullptr;
  if (TVM(j, TVMModGetFunction(of, name, 0, &function)) && function != NULL) {
    TVM(j, TVMFuncCall(function, &arg, &code, index >= 0, out, &out_code));
    (void)TVMFuncFree(function);
  }
  if (!j->has_failed && out_code == want) return true;
  return job_fail(j, ORT_FAIL, "the library is not a network with a function %s; compile it again",
                  name);
}

/* Read the tensors of one side from an executor that has not run, and compare them with the node. */
static void describe_side(job* j, const kernel* k, const executor* e, bool is_input, list infos,
                          DLTensor** tensors) {
  const char* side = is_input ? "input" : "output";
  const size_t count = is_input ? k->num_inputs : k->num_outputs;
  TVMValue out = {.v_int64 = 0};
  if (!ask(j, e->module, job_text(j, "get_num_%ss", side), -1, kTVMArgInt, &out)) return;
  if ((size_t)out.v_int64 != count) {
    job_fail(j, ORT_INVALID_ARGUMENT,
             "a compiled part has %lld %ss in its library and %zu in the model; compile the model "
             "again",
             (long long)out.v_int64, side, count);
  }
  for (size_t i = 0; !j->has_failed && i < count; ++i) {
    library_port port = {.is_input = is_input, .index = i};
    const char* get = job_text(j, "get_%s", side);
    if (!ask(j, e->module, get, (int64_t)i, kTVMNDArrayHandle, &out)) return;
    port.tensor = tensors[i] = out.v_handle;
    if (!ask(j, e->module, job_text(j, "%s_name", get), (int64_t)i, kTVMStr, &out)) return;
    port.name = job_text(j, "%s", out.v_str);
    if (k->dims != NULL && i < (size_t)(is_input ? k->dims->num_inputs : k->dims->num_outputs)) {
      port.dims = &(is_input ? k->dims->inputs : k->dims->outputs)[i];
    }
    boundary_check(j, infos.items[i], &port);
  }
}

static void describe(job* j, kernel* k, const ort_node* fused) {
  const list inputs = LIST(j, Node, Inputs, fused), outputs = LIST(j, Node, Outputs, fused);
  executor* e;
  TVMFunctionHandle get_dims = NULL;
  TVMValue out = {.v_handle = NULL};
  int code = kTVMNullptr;
  k->num_inputs = inputs.count;
  k->num_outputs = outputs.count;
  e = executor_new(j, k);
  if (e == NULL) return;
  TVM(j, TVMModGetFunction(k->library, "get_dims", 1, &get_dims));
  if (get_dims != NULL) TVM(j, TVMFuncCall(get_dims, NULL, NULL, 0, &out, &code));
  (void)TVMFuncFree(get_dims);
  k->dims = out.v_handle;
  k->inputs = tvmrt__calloc(inputs.count + outputs.count + 1, sizeof(DLTensor*));
  if (TVM(j, k->inputs == NULL ? -1 : 0)) {
    k->outputs = k->inputs + inputs.count;
    describe_side(j, k, e, true, inputs, k->inputs);
    describe_side(j, k, e, false, outputs, k->outputs);
  }
  give(k, e);
}

kernel* kernel_load(job* j, const char* path, const ort_node* fused, size_t max_idle) {
  kernel* k = own_new(j, sizeof(*k), slots);
  if (k == NULL) return NULL;
  k->ort = j->ort;
  k->max_idle = max_idle;
  (void)tvmrt__mutex_init(&k->lock);
  if (TVMModLoadFromFile(path, "so", &k->library) != 0) {
    job_fail(j, ORT_FAIL, "a compiled part cannot be loaded (%s); compile the model again",
             TVMGetLastError());
  }
  TVM(j, TVMModGetFunction(k->library, "default", 0, &k->make));
  if (k->make == NULL) job_fail(j, ORT_FAIL, "a library is not a network; compile the model again");
  if (!j->has_failed) describe(j, k, fused);
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
