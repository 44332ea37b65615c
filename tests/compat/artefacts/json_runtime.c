/* An accelerator's module of kind "compat_json", as a plug-in: payload and functions are those of
 * the JSON runtimes. Its one operator adds all its constants to its input. */
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/module_plugin.h>

enum { MAX_CONSTANTS = 4, ELEMENTS = 6 };

typedef struct {
  char symbol[64];
  char init[80];
  uint64_t num_constants;
  TVMObjectHandle constants[MAX_CONSTANTS]; /* NDArrays as the initialiser gave them */
  const float* data[MAX_CONSTANTS];
  int64_t times_initialised;
} json_module;

#define PACKED(name)                                                                      \
  static int name(TVMValue* args, int* codes, int num_args, TVMValue* ret, int* ret_code, \
                  void* resource)
#define UNUSED() ((void)args, (void)codes, (void)num_args, (void)ret, (void)ret_code)

static int fail(const char* text) {
  TVMPackedFuncSetLastError(text);
  return -1;
}

static int call_global(const char* name, TVMValue* args, int* codes, int count, TVMValue* ret) {
  TVMFunctionHandle f;
  int code;
  int rc = TVMFuncGetGlobal(name, &f);
  if (rc == 0 && f == NULL) rc = fail("a function of containers is missing");
  if (rc == 0) rc = TVMFuncCall(f, args, codes, count, ret, &code);
  TVMFuncFree(f);
  return rc;
}

PACKED(run) {
  const json_module* self = resource;
  uint64_t k;
  int i;
  UNUSED();
  if (num_args != 2) return fail("the JSON module takes an input and an output");
  if (self->times_initialised == 0) return fail("the JSON module was not initialised");
  for (i = 0; i < ELEMENTS; ++i) {
    float sum = ((const float*)((DLTensor*)args[0].v_handle)->data)[i];
    for (k = 0; k < self->num_constants; ++k) sum += self->data[k][i];
    ((float*)((DLTensor*)args[1].v_handle)->data)[i] = sum;
  }
  return 0;
}

PACKED(initialise) {
  json_module* self = resource;
  TVMValue item;
  TVMValue pair[2];
  int pair_codes[2] = {kTVMObjectHandle, kTVMArgInt};
  uint64_t k;
  UNUSED();
  pair[0] = args[0];
  if (call_global("runtime.ArraySize", pair, pair_codes, 1, &item) != 0) return -1;
  if ((uint64_t)item.v_int64 != self->num_constants) return fail("not all constants came");
  for (k = 0; k < self->num_constants; ++k) {
    pair[1].v_int64 = (int64_t)k;
    if (call_global("runtime.ArrayGetItem", pair, pair_codes, 2, &item) != 0) return -1;
    self->constants[k] = item.v_handle;
    self->data[k] = ((DLTensor*)item.v_handle)->data;
  }
  ++self->times_initialised;
  ret->v_int64 = 0;
  *ret_code = kTVMArgInt;
  return 0;
}

PACKED(times_initialised) {
  UNUSED();
  ret->v_int64 = ((json_module*)resource)->times_initialised;
  *ret_code = kTVMArgInt;
  return 0;
}

static int get_symbol(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                      void* resource) {
  TVMValue text;
  int code = kTVMStr;
  (void)args, (void)codes, (void)num_args;
  text.v_str = resource;
  return TVMCFuncSetReturn(ret, &text, &code, 1);
}

static int find(void* opaque, const char* name, tvmrt_module_function* out) {
  json_module* self = opaque;
  out->resource = self;
  if (strcmp(name, self->symbol) == 0) {
    out->function = run;
  } else if (strcmp(name, self->init) == 0) {
    out->function = initialise;
  } else if (strcmp(name, "times_initialised") == 0) {
    out->function = times_initialised;
  } else if (strcmp(name, "get_symbol") == 0) {
    return TVMFuncCreateFromCFunc(get_symbol, self->symbol, NULL, &out->handle);
  }
  return 0;
}

static void release(void* opaque) {
  json_module* self = opaque;
  uint64_t k;
  for (k = 0; self->times_initialised != 0 && k < self->num_constants; ++k) {
    TVMArrayFree(self->constants[k]);
  }
  free(self);
}

static int read_payload(void* stream, json_module* self) {
  const char* text;
  size_t size;
  uint64_t k;
  if (tvmrt_stream_read_string(stream, &text, &size) != 0) return -1;
  if (size >= sizeof(self->symbol)) return fail("the symbol is too long");
  memcpy(self->symbol, text, size);
  memcpy(self->init, "__init_", 7);
  memcpy(self->init + 7, text, size);
  if (tvmrt_stream_read_string(stream, &text, &size) != 0) return -1; /* the graph */
  if (tvmrt_stream_read_u64(stream, &self->num_constants) != 0) return -1;
  if (self->num_constants > MAX_CONSTANTS) return fail("there are too many constants");
  for (k = 0; k < self->num_constants; ++k) {
    if (tvmrt_stream_read_string(stream, &text, &size) != 0) return -1;
  }
  return 0;
}

static int load(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret, void* resource) {
  static const tvmrt_module_vtable vtable = {
      sizeof(vtable), "compat_json", TVMRT_MODULE_RUNNABLE, find, NULL, NULL, release};
  json_module* self = calloc(1, sizeof(*self));
  TVMValue module;
  int code = kTVMModuleHandle;
  int rc;
  (void)codes, (void)num_args, (void)resource;
  if (self == NULL) return fail("there is no memory for the JSON module");
  if (read_payload(args[0].v_handle, self) != 0 ||
      tvmrt_module_create(&vtable, self, &module.v_handle) != 0) {
    free(self);
    return -1;
  }
  rc = TVMCFuncSetReturn(ret, &module, &code, 1);
  TVMModFree(module.v_handle);
  return rc;
}

TVM_DLL int install(TVMValue* args, int* codes, int num_args, TVMValue* ret, int* ret_code,
                    void* resource);
TVM_DLL int install(TVMValue* args, int* codes, int num_args, TVMValue* ret, int* ret_code,
                    void* resource) {
  TVMFunctionHandle loader;
  int rc;
  UNUSED();
  if (TVMFuncCreateFromCFunc(load, resource, NULL, &loader) != 0) return -1;
  rc = TVMFuncRegisterGlobal("runtime.module.loadbinary_compat_json", loader, 1);
  TVMFuncFree(loader);
  return rc;
}
