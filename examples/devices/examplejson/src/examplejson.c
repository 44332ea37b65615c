/* The module kind "examplejson": a runtime for graphs in the ExampleJSON text format.
 *
 * An example of a module kind that is not a device: it shows how to implement a custom runtime with
 * public headers only. A graph is immutable after parsing, so calls need no lock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/device.h>
#include <tvm/runtime/module_plugin.h>

#include "graph.h"

TVMRT_DEVICE_PLUGIN(examplejson)

/* Returns -1. The text begins with the error kind, which frontends raise as an exception. Names are
 * truncated to 128 bytes. */
static int fail(const char* type, const char* what, const char* name) {
  char text[256];
  (void)snprintf(text, sizeof(text), "%s: examplejson: %.128s: %s", type, name, what);
  TVMPackedFuncSetLastError(text);
  return -1;
}

/* ---- running a subgraph ---- */

/* Any stride is valid for extents of 1. NULL strides mean a compact tensor. */
static int is_dense(const DLTensor* t) {
  int64_t expected = 1;
  if (t->strides == NULL) return 1;
  for (int32_t i = t->ndim; i-- > 0; expected *= t->shape[i]) {
    if (t->shape[i] != 1 && t->strides[i] != expected) return 0;
  }
  return 1;
}

/* Check an argument of arbitrary callers and get its data pointer, which is borrowed for the
 * run. */
static int bind(const examplejson_subgraph* s, const examplejson_tensor* declared, TVMValue value,
                int code, float** out) {
  const DLTensor* t = value.v_handle;
  if ((code != kTVMDLTensorHandle && code != kTVMNDArrayHandle) || t == NULL) {
    return fail("TypeError", "every argument must be a tensor", s->name);
  }
  if (t->dtype.code != kDLFloat || t->dtype.bits != 32 || t->dtype.lanes != 1) {
    return fail("TypeError", "every tensor must be float32", s->name);
  }
  if (t->device.device_type != kDLCPU || !is_dense(t)) {
    return fail("ValueError", "every tensor must be a contiguous CPU tensor", s->name);
  }
  if (t->ndim != declared->ndim ||
      (t->ndim != 0 && memcmp(t->shape, declared->shape, (size_t)t->ndim * sizeof(int64_t)) != 0)) {
    return fail("ValueError", "a tensor's shape differs from the graph's", s->name);
  }
  *out = (float*)(void*)((char*)t->data + t->byte_offset);
  return 0;
}

/* Inputs are arguments, the last tensor is the output, all others are in the scratch memory. Each
 * result has its own memory, so no operator overwrites an operand of a later one. */
static float* tensor_data(const examplejson_subgraph* s, size_t id, float* const* arguments,
                          float* scratch) {
  const examplejson_tensor* t = &s->tensors[id];
  if (t->is_input) return arguments[t->position];
  if (id + 1 == s->num_tensors) return arguments[s->num_inputs];
  return scratch + t->position;
}

/* In the order of the text, where operands precede results. Cannot fail. */
static void run_nodes(const examplejson_subgraph* s, float* const* arguments, float* scratch) {
  for (size_t i = 0; i < s->num_nodes; ++i) {
    const examplejson_node* n = &s->nodes[i];
    n->run(tensor_data(s, n->inputs[0], arguments, scratch),
           tensor_data(s, n->inputs[1], arguments, scratch),
           tensor_data(s, n->output, arguments, scratch), s->tensors[n->output].size);
  }
}

/* Only arguments are checked: intermediate values have the shapes of the graph. */
static int bind_all(const examplejson_subgraph* s, const TVMValue* args, const int* codes,
                    float** arguments) {
  for (size_t i = 0; i < s->num_tensors; ++i) {
    const examplejson_tensor* t = &s->tensors[i];
    size_t position = t->is_input ? t->position : s->num_inputs;
    if (!t->is_input && i + 1 != s->num_tensors) continue;
    if (bind(s, t, args[position], codes[position], &arguments[position]) != 0) return -1;
  }
  return 0;
}

/* One block for the argument pointers and the intermediate values, since several threads may run
 * the subgraph. The workspace is per thread and cheaper than malloc(). Also returns -1 if it cannot
 * be freed. */
static int run_subgraph(TVMValue* args, int* codes, int num_args, TVMValue* ret, int* ret_code,
                        void* resource) {
  const examplejson_subgraph* s = resource;
  /* the following floats are aligned, since a pointer is not smaller than a float */
  size_t pointers = (s->num_inputs + 1) * sizeof(float*);
  float** arguments;
  int rc;
  (void)ret;
  (void)ret_code;
  if (num_args < 0 || (size_t)num_args != s->num_inputs + 1) {
    return fail("TypeError", "the arguments must be the inputs, then one output", s->name);
  }
  arguments = TVMBackendAllocWorkspace(kDLCPU, 0, pointers + s->scratch_elements * sizeof(float),
                                       kDLFloat, 32);
  if (arguments == NULL) return fail("MemoryError", "no workspace", s->name);
  /* arguments first: nothing is computed if one of them is invalid */
  rc = bind_all(s, args, codes, arguments);
  if (rc == 0) run_nodes(s, arguments, (float*)(void*)((char*)arguments + pointers));
  if (TVMBackendFreeWorkspace(kDLCPU, 0, arguments) != 0) return -1;
  return rc;
}

/* ---- the module ---- */

/* An unknown name leaves *out empty, which is not an error. The function retains the module and so
 * the graph. */
static int get_function(void* self, const char* name, tvmrt_module_function* out) {
  examplejson_graph* graph = self;
  for (size_t i = 0; i < graph->num_subgraphs; ++i) {
    if (strcmp(graph->subgraphs[i].name, name) != 0) continue;
    out->function = run_subgraph;
    out->resource = &graph->subgraphs[i];
  }
  return 0;
}

/* Write in the format of strings in libraries: the size as 8 little-endian bytes, then the text.
 * load_binary() reads it. */
static int save(void* self, tvmrt_module_write write, void* sink) {
  const examplejson_graph* graph = self;
  uint8_t size[8];
  for (int i = 0; i < 8; ++i) size[i] = (uint8_t)((uint64_t)graph->text_size >> (8 * i));
  return write(sink, size, sizeof(size)) != 0 ? -1 : write(sink, graph->text, graph->text_size);
}

/* The original text, so that the output can be loaded again. */
static int source(void* self, const char* format, tvmrt_module_write write, void* sink) {
  const examplejson_graph* graph = self;
  (void)format; /* there is only one format */
  return write(sink, graph->text, graph->text_size);
}

/* Called once, with the last reference to the module or one of its functions. */
static void release(void* self) {
  examplejson_free(self);
  free(self);
}

/* SERIALIZABLE requires `save` and a function "loadbinary_examplejson"; RUNNABLE requires
 * `get_function`. */
static const tvmrt_module_vtable kind = {
    .struct_bytes = sizeof(tvmrt_module_vtable),
    .type_key = "examplejson",
    .properties = TVMRT_MODULE_SERIALIZABLE | TVMRT_MODULE_RUNNABLE,
    .get_function = get_function,
    .save = save,
    .source = source,
    .release = release,
};

/* The module takes over the graph, and the text is copied. On failure everything is freed, and the
 * error text is the parser's or the runtime's. */
static int create(const char* text, size_t size, TVMRetValueHandle ret) {
  examplejson_graph* graph = malloc(sizeof(*graph));
  TVMModuleHandle module = NULL;
  TVMValue value;
  int code = kTVMModuleHandle;
  int rc;
  /* nothing to free yet */
  if (graph == NULL) return fail("MemoryError", "no memory for a module", "create");
  if (examplejson_parse(text, size, graph) != 0) {
    free(graph);
    return -1;
  }
  if (tvmrt_module_create(&kind, graph, &module) != 0) {
    release(graph);
    return -1;
  }
  value.v_handle = module;
  rc = TVMCFuncSetReturn(ret, &value, &code, 1); /* takes its own reference */
  return TVMModFree(module) != 0 ? -1 : rc;
}

/* (text): a string ends at its NUL; bytes may contain NULs, which no line accepts. */
static int create_of_text(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                          void* resource) {
  (void)resource;
  if (num_args == 1 && codes[0] == kTVMStr)
    return create(args[0].v_str, strlen(args[0].v_str), ret);
  if (num_args == 1 && codes[0] == kTVMBytes) {
    const TVMByteArray* bytes = args[0].v_handle;
    return create(bytes->data, bytes->size, ret);
  }
  return fail("TypeError", "expected one argument, the text of a graph", "create");
}

/* (stream of a library): reads the output of save(). */
static int load_binary(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                       void* resource) {
  const char* text;
  size_t size;
  (void)resource;
  if (num_args != 1 || codes[0] != kTVMOpaqueHandle) {
    return fail("TypeError", "expected one argument, a stream", "loadbinary");
  }
  if (tvmrt_stream_read_string(args[0].v_handle, &text, &size) != 0) return -1;
  return create(text, size, ret);
}

/* Read a whole file of at most 1 GB, since the module keeps the text. *out must be freed also on
 * failure. */
static int read_file(FILE* file, char** out, size_t* size) {
  long end = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
  if (end < 0 || end > 1 << 30 || fseek(file, 0, SEEK_SET) != 0) return -1;
  *size = (size_t)end;
  *out = malloc(*size + 1);
  return *out != NULL && fread(*out, 1, *size, file) == *size ? 0 : -1;
}

/* (path [, format]). The format is ignored: this kind of file has only one. */
static int load_file(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                     void* resource) {
  char* text = NULL;
  size_t size = 0;
  FILE* file;
  int rc;
  (void)resource;
  if (num_args < 1 || codes[0] != kTVMStr) {
    return fail("TypeError", "the first argument must be the path of a file", "loadfile");
  }
  file = fopen(args[0].v_str, "rb");
  if (file == NULL) return fail("OSError", "the file cannot be opened", args[0].v_str);
  rc = read_file(file, &text, &size);
  (void)fclose(file); /* opened for reading only */
  rc =
      rc == 0 ? create(text, size, ret) : fail("OSError", "the file cannot be read", args[0].v_str);
  free(text);
  return rc;
}

/* The guide's names, and those that the classic loader uses to find a module kind. */
static const struct {
  const char* name;
  TVMRuntimeCPackedFunc function;
} functions[] = {
    {"module.examplejson_module_create", create_of_text},
    {"module.loadbinary_examplejson", load_binary},
    {"module.loadfile_examplejson", load_file},
    {"runtime.module.loadbinary_examplejson", load_binary},
    {"runtime.module.loadfile_examplejson", load_file},
};

enum { NUM_FUNCTIONS = sizeof(functions) / sizeof(functions[0]) };

/* Replaces earlier functions, so that a second copy of the plug-in can be loaded. After a failure,
 * functions registered before stay registered. */
int register_examplejson_device(void) {
  for (int i = 0; i < NUM_FUNCTIONS; ++i) {
    TVMFunctionHandle handle;
    int rc;
    if (TVMFuncCreateFromCFunc(functions[i].function, NULL, NULL, &handle) != 0) return -1;
    rc = TVMFuncRegisterGlobal(functions[i].name, handle, 1);
    if (TVMFuncFree(handle) != 0 || rc != 0) return -1;
  }
  return 0;
}

/* Tries to remove all, even after a failure. Live modules keep their functions. */
int unregister_examplejson_device(void) {
  int rc = 0;
  for (int i = 0; i < NUM_FUNCTIONS; ++i) rc |= TVMFuncRemoveGlobal(functions[i].name);
  return rc;
}
