#include "kernel.h"

#include <dlpack/dlpack.h>
#include <stdlib.h>
#include <tvm/runtime/c_packed_func.h>
#include <tvm/runtime/c_runtime_api.h>

#include "platform/posix.h"

enum { ALIGN_BYTES = 64, MAX_AXES = 64 }; /* tensors at other addresses are copied */

/* Buffers of one run; a run takes an idle executor, or makes one. */
typedef struct executor {
  struct executor* next;
  TVMModuleHandle module;
  TVMFunctionHandle set_input, bind_input, bind_output, get_output, run;
  void** scratch; /* for each output: aligned memory, or NULL */
} executor;

typedef struct port {
  DLDataType dtype;
  int ndim;
  size_t bytes;
  int64_t* shape; /* owned */
} port;

struct kernel {
  ort_own table; /* first */
  const ort_functions* ort;
  TVMModuleHandle library;
  TVMFunctionHandle make;
  size_t num_inputs, num_outputs;
  port *inputs, *outputs;
  bool is_dynamic;
  mutex lock;
  executor* idle;
};

/* Not ORT_EP_FAIL: for that code, onnxruntime's Python package repeats a run without tvmrt. */
static ort_status* fail_tvm(const ort_functions* ort, int code) {
  const char* text = TVMGetLastError();
  return fail(ort, code, "tvmrt: %s", text == NULL ? "unknown error" : text);
}

/* The bounds of a dimension are a provider option. If the runtime's text says that a dimension has
 * another size, in these words, the error names bounds that include it. */
static ort_status* fail_input(const ort_functions* ort) {
  static const char before[] = ", dimension ", has[] = " has ", expected[] = " expected ",
                    to[] = " to ";
  const char *text = TVMGetLastError(), *name, *found = NULL, *bounds = NULL;
  long long size, low, high;
  char* end;
  name = text == NULL ? NULL : strstr(text, before);
  for (const char* at = name; at != NULL && (at = strstr(at, has)) != NULL; ++at) found = at;
  if (found != NULL) bounds = strstr(found, expected);
  if (bounds == NULL) return fail_tvm(ort, ORT_INVALID_ARGUMENT);
  name += sizeof(before) - 1;
  size = strtoll(found + sizeof(has) - 1, NULL, 10);
  low = high = strtoll(bounds + sizeof(expected) - 1, &end, 10);
  if (strncmp(end, to, sizeof(to) - 1) == 0) high = strtoll(end + sizeof(to) - 1, NULL, 10);
  return fail(ort, ORT_INVALID_ARGUMENT,
              "tvmrt: %.*s; set the provider option dims when the network is compiled, for example "
              "%.*s=%lld..%lld",
              (int)strcspn(bounds, ".") + (int)(bounds - text), text, (int)(found - name), name,
              size < low ? size : low, size > high ? size : high);
}

#define TVM_TRY(ort, call)                           \
  do {                                               \
    if ((call) != 0) return fail_tvm(ort, ORT_FAIL); \
  } while (0)

static int call0(TVMFunctionHandle function, TVMValue* out, int* code) {
  TVMValue none = {0};
  int none_code = kTVMNullptr;
  *code = kTVMNullptr;
  return TVMFuncCall(function, &none, &none_code, 0, out, code);
}

static int call_index(TVMFunctionHandle function, size_t index, DLTensor* tensor, TVMValue* out,
                      int* code) {
  TVMValue args[2] = {{.v_int64 = (int64_t)index}, {.v_handle = tensor}};
  int codes[2] = {kTVMArgInt, kTVMDLTensorHandle};
  *code = kTVMNullptr;
  return TVMFuncCall(function, args, codes, tensor == NULL ? 1 : 2, out, code);
}

/* ---- executors ---- */

static void executor_free(const kernel* k, executor* of) {
  if (of == NULL) return;
  (void)TVMFuncFree(of->set_input);
  (void)TVMFuncFree(of->bind_input);
  (void)TVMFuncFree(of->bind_output);
  (void)TVMFuncFree(of->get_output);
  (void)TVMFuncFree(of->run);
  (void)TVMModFree(of->module);
  for (size_t i = 0; of->scratch != NULL && i < k->num_outputs; ++i) free(of->scratch[i]);
  free(of->scratch);
  free(of);
}

static ort_status* executor_fill(const kernel* k, executor* to) {
  const struct {
    const char* name;
    TVMFunctionHandle* function;
  } rows[] = {
      {"set_input", &to->set_input},
      {"set_input_zero_copy", &to->bind_input},
      {"set_output_zero_copy", &to->bind_output},
      {"get_output", &to->get_output},
      {"run", &to->run},
  };
  TVMValue device = {.v_device = {kDLCPU, 0}}, out;
  int code = kDLDevice, out_code = kTVMNullptr;
  to->scratch = calloc(k->num_outputs + 1, sizeof(*to->scratch));
  if (to->scratch == NULL) return fail_memory(k->ort);
  TVM_TRY(k->ort, TVMFuncCall(k->make, &device, &code, 1, &out, &out_code));
  if (out_code != kTVMModuleHandle) return fail(k->ort, ORT_FAIL, "tvmrt: not a network");
  to->module = out.v_handle;
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    TVM_TRY(k->ort, TVMModGetFunction(to->module, rows[i].name, 0, rows[i].function));
    if (*rows[i].function == NULL) {
      return fail(k->ort, ORT_FAIL, "tvmrt: the network has no function %s", rows[i].name);
    }
  }
  return NULL;
}

static ort_status* executor_new(const kernel* k, executor** out) {
  executor* made = calloc(1, sizeof(*made));
  ort_status* status = made == NULL ? fail_memory(k->ort) : executor_fill(k, made);
  if (status != NULL) {
    executor_free(k, made);
    made = NULL;
  }
  *out = made;
  return status;
}

static ort_status* take(kernel* k, executor** out) {
  mutex_lock(&k->lock);
  *out = k->idle;
  if (*out != NULL) k->idle = (*out)->next;
  mutex_unlock(&k->lock);
  return *out != NULL ? NULL : executor_new(k, out);
}

static void give(kernel* k, executor* back) {
  mutex_lock(&k->lock);
  back->next = k->idle;
  k->idle = back;
  mutex_unlock(&k->lock);
}

/* ---- runs ---- */

static bool is_aligned(const void* data) { return (uintptr_t)data % ALIGN_BYTES == 0; }

static ort_status* set_input(const kernel* k, const executor* e, ort_context* context, size_t i) {
  const ort_functions* ort = k->ort;
  const ort_value* value = NULL;
  const void* data = NULL;
  ort_shape* shape = NULL;
  size_t rank = 0;
  int64_t extents[MAX_AXES];
  ort_status* status;
  TVMValue none;
  int code;
  DLTensor tensor = {.device = {kDLCPU, 0}, .dtype = k->inputs[i].dtype, .shape = extents};
  ORT_TRY(ort->api.KernelContext_GetInput(context, i, &value));
  ORT_TRY(ort->api.GetTensorData(value, &data));
  ORT_TRY(ort->api.GetTensorTypeAndShape(value, &shape));
  status = ort->api.GetDimensionsCount(shape, &rank);
  if (status == NULL && rank > MAX_AXES) status = fail(ort, ORT_FAIL, "tvmrt: too many axes");
  if (status == NULL) status = ort->api.GetDimensions(shape, extents, rank);
  ort->api.ReleaseTensorTypeAndShapeInfo(shape);
  ORT_TRY(status);
  tensor.ndim = (int32_t)rank;
  tensor.data = (void*)(uintptr_t)data; /* inputs are only read */
  if (call_index(is_aligned(data) ? e->bind_input : e->set_input, i, &tensor, &none, &code) != 0) {
    return fail_input(ort);
  }
  return NULL;
}

/* Let output i be written to onnxruntime's memory, or next to it if that is not aligned; *copy_to
 * is then its address. */
static ort_status* bind_output(const kernel* k, executor* e, ort_context* context, size_t i,
                               void** copy_to) {
  const port* p = &k->outputs[i];
  ort_value* value = NULL;
  void* data = NULL;
  TVMValue none;
  int code;
  DLTensor tensor = {.device = {kDLCPU, 0}, .dtype = p->dtype, .ndim = p->ndim, .shape = p->shape};
  *copy_to = NULL;
  ORT_TRY(k->ort->api.KernelContext_GetOutput(context, i, p->shape, (size_t)p->ndim, &value));
  ORT_TRY(k->ort->api.GetTensorMutableData(value, &data));
  if (!is_aligned(data)) {
    if (e->scratch[i] == NULL && posix_memalign(&e->scratch[i], ALIGN_BYTES, p->bytes + 1) != 0) {
      e->scratch[i] = NULL;
      return fail_memory(k->ort);
    }
    *copy_to = data;
    data = e->scratch[i];
  }
  tensor.data = data;
  TVM_TRY(k->ort, call_index(e->bind_output, i, &tensor, &none, &code));
  return NULL;
}

static size_t bytes_of(const DLTensor* tensor) {
  size_t count = 1;
  for (int i = 0; i < tensor->ndim; ++i) count *= (size_t)tensor->shape[i];
  return (count * tensor->dtype.bits * tensor->dtype.lanes + 7) / 8;
}

/* For outputs whose size is known after the run. */
static ort_status* copy_output(const kernel* k, const executor* e, ort_context* context, size_t i) {
  TVMValue out;
  int code;
  void* data = NULL;
  ort_value* value = NULL;
  ort_status* status;
  const DLTensor* from;
  TVM_TRY(k->ort, call_index(e->get_output, i, NULL, &out, &code));
  if (code != kTVMNDArrayHandle) return fail(k->ort, ORT_FAIL, "tvmrt: an output is not a tensor");
  from = out.v_handle;
  status = k->ort->api.KernelContext_GetOutput(context, i, from->shape, (size_t)from->ndim, &value);
  if (status == NULL) status = k->ort->api.GetTensorMutableData(value, &data);
  if (status == NULL && bytes_of(from) > 0) {
    memcpy(data, (const char*)from->data + from->byte_offset, bytes_of(from));
  }
  (void)TVMArrayFree(out.v_handle);
  return status;
}

static ort_status* run_with(const kernel* k, executor* e, ort_context* context, void** copies) {
  TVMValue none;
  int code;
  for (size_t i = 0; i < k->num_inputs; ++i) ORT_TRY(set_input(k, e, context, i));
  for (size_t i = 0; !k->is_dynamic && i < k->num_outputs; ++i) {
    ORT_TRY(bind_output(k, e, context, i, &copies[i]));
  }
  TVM_TRY(k->ort, call0(e->run, &none, &code));
  for (size_t i = 0; i < k->num_outputs; ++i) {
    if (k->is_dynamic) {
      ORT_TRY(copy_output(k, e, context, i));
    } else if (copies[i] != NULL) {
      memcpy(copies[i], e->scratch[i], k->outputs[i].bytes);
    }
  }
  return NULL;
}

static ort_status* check_counts(const kernel* k, const ort_context* context) {
  size_t inputs = 0, outputs = 0;
  ORT_TRY(k->ort->api.KernelContext_GetInputCount(context, &inputs));
  ORT_TRY(k->ort->api.KernelContext_GetOutputCount(context, &outputs));
  if (inputs == k->num_inputs && outputs == k->num_outputs) return NULL;
  return fail(k->ort, ORT_FAIL,
              "tvmrt: the node has %zu inputs and %zu outputs, its library %zu "
              "and %zu; compile the model again",
              inputs, outputs, k->num_inputs, k->num_outputs);
}

static ort_status* compute(void* self, void* state, ort_context* context) {
  kernel* k = self;
  executor* e = NULL;
  void *few[16], **copies = few;
  ort_status* status;
  (void)state;
  ORT_TRY(check_counts(k, context));
  if (k->num_outputs > 16) {
    copies = calloc(k->num_outputs, sizeof(*copies));
    if (copies == NULL) return fail_memory(k->ort);
  }
  status = take(k, &e);
  if (status == NULL) status = run_with(k, e, context, copies);
  if (e != NULL) give(k, e);
  if (copies != few) free(copies);
  return status;
}

static ort_status* create_state(void* self, void* context, void** state) {
  (void)context;
  *state = self; /* the kernel itself; executors are not bound to a state */
  return NULL;
}

static void release_state(void* self, void* state) { (void)self, (void)state; }

/* ---- loading ---- */

static int get_count(TVMModuleHandle module, const char* name, size_t* out) {
  TVMFunctionHandle function = NULL;
  TVMValue value;
  int code, rc = TVMModGetFunction(module, name, 0, &function);
  if (rc != 0 || function == NULL) return -1;
  rc = call0(function, &value, &code);
  (void)TVMFuncFree(function);
  *out = rc == 0 && code == kTVMArgInt ? (size_t)value.v_int64 : SIZE_MAX;
  return rc;
}

static ort_status* read_port(const kernel* k, TVMFunctionHandle get, size_t i, port* to) {
  TVMValue out;
  int code;
  const DLTensor* tensor;
  TVM_TRY(k->ort, call_index(get, i, NULL, &out, &code));
  if (code != kTVMNDArrayHandle) {
    return fail(k->ort, ORT_FAIL, "tvmrt: the library has no tensor %zu; compile it again", i);
  }
  tensor = out.v_handle;
  to->dtype = tensor->dtype;
  to->ndim = tensor->ndim;
  to->bytes = bytes_of(tensor);
  to->shape = calloc((size_t)tensor->ndim + 1, sizeof(*to->shape));
  if (to->shape != NULL && tensor->ndim > 0) {
    memcpy(to->shape, tensor->shape, (size_t)tensor->ndim * sizeof(*to->shape));
  }
  (void)TVMArrayFree(out.v_handle);
  return to->shape == NULL ? fail_memory(k->ort) : NULL;
}

static ort_status* read_ports(kernel* k, const executor* e, TVMFunctionHandle get_input) {
  size_t inputs = 0, outputs = 0;
  if (get_input == NULL) return fail(k->ort, ORT_FAIL, "tvmrt: the library is not a network");
  TVM_TRY(k->ort, get_count(e->module, "get_num_inputs", &inputs));
  TVM_TRY(k->ort, get_count(e->module, "get_num_outputs", &outputs));
  if (inputs != k->num_inputs || outputs != k->num_outputs) {
    return fail(k->ort, ORT_FAIL,
                "tvmrt: the library has %zu inputs and %zu outputs, the node %zu and %zu; compile "
                "the model again",
                inputs, outputs, k->num_inputs, k->num_outputs);
  }
  /* lint: a node has far fewer than SIZE_MAX inputs */
  k->inputs = calloc(inputs + 1, sizeof(*k->inputs));
  k->outputs = calloc(outputs + 1, sizeof(*k->outputs));
  if (k->inputs == NULL || k->outputs == NULL) return fail_memory(k->ort);
  for (size_t i = 0; i < inputs; ++i) ORT_TRY(read_port(k, get_input, i, &k->inputs[i]));
  for (size_t i = 0; i < outputs; ++i) ORT_TRY(read_port(k, e->get_output, i, &k->outputs[i]));
  return NULL;
}

/* The first executor says what the network's tensors are. */
static ort_status* describe(kernel* k) {
  TVMFunctionHandle get_input = NULL, get_dims = NULL;
  TVMValue dims;
  int code = kTVMNullptr;
  ort_status* status = executor_new(k, &k->idle);
  ORT_TRY(status);
  if (k->idle == NULL) return fail_memory(k->ort); /* there was no memory for a status either */
  if (TVMModGetFunction(k->idle->module, "get_input", 0, &get_input) != 0 ||
      TVMModGetFunction(k->idle->module, "get_dims", 0, &get_dims) != 0 ||
      (get_dims != NULL && call0(get_dims, &dims, &code) != 0)) {
    status = fail_tvm(k->ort, ORT_FAIL);
  }
  k->is_dynamic = code != kTVMNullptr;
  if (status == NULL) status = read_ports(k, k->idle, get_input);
  (void)TVMFuncFree(get_input);
  (void)TVMFuncFree(get_dims);
  return status;
}

ort_status* kernel_load(const ort_functions* ort, const char* path, size_t num_inputs,
                        size_t num_outputs, kernel** out) {
  kernel* k = calloc(1, sizeof(*k));
  ort_status* status = NULL;
  *out = NULL;
  if (k == NULL) return fail_memory(ort);
  k->table.version = ORT_VERSION_NEEDED;
  k->table.slots[OrtNodeComputeInfo_CreateState] = (ort_slot)create_state;
  k->table.slots[OrtNodeComputeInfo_Compute] = (ort_slot)compute;
  k->table.slots[OrtNodeComputeInfo_ReleaseState] = (ort_slot)release_state;
  k->ort = ort;
  k->num_inputs = num_inputs;
  k->num_outputs = num_outputs;
  mutex_init(&k->lock);
  if (TVMModLoadFromFile(path, "so", &k->library) != 0 ||
      TVMModGetFunction(k->library, "default", 0, &k->make) != 0) {
    status = fail_tvm(ort, ORT_FAIL);
  } else if (k->make == NULL) {
    status =
        fail(ort, ORT_FAIL, "tvmrt: %s is not a network of tvmrt; compile the model again", path);
  }
  if (status == NULL) status = describe(k);
  if (status != NULL) {
    kernel_free(k);
  } else {
    *out = k;
  }
  return status;
}

ort_status* kernel_from_bytes(const ort_functions* ort, const void* data, size_t size,
                              size_t num_inputs, size_t num_outputs, kernel** out) {
  char* path = text_new("%s/tvmrt-ep-XXXXXX.so", temporary_folder());
  int error = path == NULL ? 0 : write_temporary_library(path, data, size);
  ort_status* status;
  if (path == NULL) return fail_memory(ort);
  if (error != 0) {
    status = fail(ort, ORT_FAIL, "tvmrt: the file %s cannot be written (%s); set TMPDIR", path,
                  strerror(error));
  } else {
    status = kernel_load(ort, path, num_inputs, num_outputs, out);
    remove_file(path); /* the loaded library stays mapped */
  }
  free(path);
  return status;
}

static void ports_free(port* of, size_t count) {
  for (size_t i = 0; of != NULL && i < count; ++i) free(of[i].shape);
  free(of);
}

void kernel_free(kernel* of) {
  if (of == NULL) return;
  while (of->idle != NULL) {
    executor* next = of->idle->next;
    executor_free(of, of->idle);
    of->idle = next;
  }
  (void)TVMFuncFree(of->make);
  (void)TVMModFree(of->library);
  ports_free(of->inputs, of->num_inputs);
  ports_free(of->outputs, of->num_outputs);
  mutex_free(&of->lock);
  free(of);
}
