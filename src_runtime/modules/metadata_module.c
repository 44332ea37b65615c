/* The module that returns the metadata of ahead-of-time compiled code.
 *
 * It imports a library and calls it for constant structs, which live as long as the library. Such
 * structs come from a file: counts and ranks are checked before they are used as indices. Libraries
 * of TVM have only the classic struct; the newer struct for this project's front ends is derived
 * from it once, and freed with the module. */
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/metadata.h>

#include "../tensors/tensor.h"
#include "module.h"

typedef struct metadata_module {
  tvmrt_module base;
  /* Derived from the classic metadata for libraries that only have that. */
  TVMModelMetadata model;
  TVMFunctionInfo main_info;
  TVMParameterInfo* params;
  char* main_name;
} metadata_module;

static void metadata_destroy(tvmrt_module* self) {
  metadata_module* m = (metadata_module*)self;
  free(m->params);
  free(m->main_name);
}

/* More tensors than any function takes: larger counts are invalid. */
enum { MAX_TENSORS = 65536, MAX_CONSTANTS = 1 << 24 };

/* A count without a list is refused too. */
static int check_count(const char* kind, const void* items, int64_t count, int64_t maximum) {
  if (count >= 0 && count <= maximum && (count == 0 || items != NULL)) return 0;
  return tvmrt__fail_value("the library's metadata counts %lld %s%s.", (long long)count, kind,
                           items == NULL ? " and lists none" : "");
}

/* Executors index and allocate by ranks, and a type without bits has no size. */
static int check_tensors(const char* kind, const TVMTensorInfo* infos, int64_t count) {
  int64_t i;
  TVMRT_RETURN_IF_ERROR(check_count(kind, infos, count, MAX_TENSORS));
  for (i = 0; i < count; ++i) {
    const char* name = infos[i].name == NULL ? "" : infos[i].name;
    int64_t ndim = infos[i].num_shape;
    if (ndim < 0 || ndim > TVMRT_MAX_NDIM || (ndim != 0 && infos[i].shape == NULL)) {
      return tvmrt__fail_value("the library's metadata gives '%.60s' of its %s %lld dimensions%s.",
                               name, kind, (long long)ndim,
                               infos[i].shape == NULL ? " and no extents" : "");
    }
    if (infos[i].dtype.bits == 0 || infos[i].dtype.lanes == 0) {
      return tvmrt__fail_value("the library's metadata has no data type for '%.60s' of its %s.",
                               name, kind);
    }
  }
  return 0;
}

/* The classic struct comes from a file: executors rely on all that is checked here. */
int tvmrt__metadata_check(const TVMMetadata* m) {
  if (m->version < 1 || m->mod_name == NULL) {
    return tvmrt__fail_value(
        "the library's metadata is of version %lld or has no name; this runtime reads "
        "version %d.",
        (long long)m->version, TVM_METADATA_VERSION);
  }
  TVMRT_RETURN_IF_ERROR(check_tensors("inputs", m->inputs, m->num_inputs));
  TVMRT_RETURN_IF_ERROR(check_tensors("outputs", m->outputs, m->num_outputs));
  TVMRT_RETURN_IF_ERROR(
      check_tensors("workspace pools", m->workspace_pools, m->num_workspace_pools));
  return check_count("constants", m->constant_pools, m->num_constant_pools, MAX_CONSTANTS);
}

/* The struct that an imported library returns by a function; NULL if there is no such function. The
 * library owns the struct and stays loaded as long as this module. */
static int call_imports(const tvmrt_module* self, const char* name, void** out) {
  size_t i;
  *out = NULL;
  for (i = 0; i < self->num_imports && *out == NULL; ++i) {
    TVMRT_RETURN_IF_ERROR(tvmrt__module_call_pointer(self->imports[i], name, out));
  }
  return 0;
}

/* 0 for a shape whose size overflows: the number is only reported, never used for an allocation. */
static int64_t info_bytes(const TVMTensorInfo* info) {
  uint64_t bytes;
  if (tvmrt__shape_bytes(info->shape, (int)info->num_shape, info->dtype, &bytes) != 0) return 0;
  return (int64_t)bytes;
}

/* The classic struct has one name, which is used for both. */
static void fill_param(TVMParameterInfo* param, const TVMTensorInfo* info) {
  param->relay_name_hint = info->name;
  param->tir_name_hint = info->name;
  param->shape = info->shape;
  param->ndim = info->num_shape;
  param->dtype = info->dtype;
  param->device.device_type = kDLCPU;
  param->device.device_id = 0;
}

/* Called with the lock held. On failure the struct has version 0, and the next call tries again. */
static int synthesise(metadata_module* m, const TVMMetadata* classic) {
  TVMFunctionInfo* info = &m->main_info;
  tvmrt_buf name = {NULL, 0, 0};
  int64_t i;
  TVMRT_RETURN_IF_ERROR(tvmrt__metadata_check(classic));
  m->params =
      tvmrt__calloc((size_t)(classic->num_inputs + classic->num_outputs), sizeof(*m->params));
  if (m->params == NULL) return -1;
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_printf(&name, "%s___tvm_main__", classic->mod_name));
  m->main_name = name.data;
  for (i = 0; i < classic->num_inputs; ++i) {
    fill_param(&m->params[i], &classic->inputs[i]);
    info->io_size_bytes += info_bytes(&classic->inputs[i]);
  }
  for (i = 0; i < classic->num_outputs; ++i) {
    fill_param(&m->params[classic->num_inputs + i], &classic->outputs[i]);
    info->io_size_bytes += info_bytes(&classic->outputs[i]);
  }
  for (i = 0; i < classic->num_workspace_pools; ++i) {
    info->workspace_size_bytes += info_bytes(&classic->workspace_pools[i]);
  }
  for (i = 0; i < classic->num_constant_pools; ++i) {
    info->constant_size_bytes += classic->constant_pools[i].data_len;
  }
  info->function_name = m->main_name;
  /* inputs first, then outputs, as readers expect */
  info->params = m->params;
  info->num_inputs = classic->num_inputs;
  info->num_outputs = classic->num_outputs;
  m->model.functions = info;
  m->model.num_functions = 1;
  m->model.module_name = classic->mod_name;
  m->model.version = TVM_MODEL_METADATA_VERSION; /* last: marks the struct as complete */
  return 0;
}

/* Return the address only: the caller reads the struct by metadata.h. */
static int return_pointer(TVMValue* out, int* out_code, const void* pointer) {
  out->v_handle = (void*)(uintptr_t)pointer;
  *out_code = kTVMOpaqueHandle;
  return 0;
}

/* Always -1. */
static int fail_missing(const char* name) {
  return tvmrt__fail_value(
      "the library has no function '%s': it was not compiled ahead of "
      "time with metadata.",
      name);
}

/* () -> address of the classic struct, owned by the library. */
TVMRT_NATIVE(get_metadata) {
  void* metadata;
  TVMRT_ARGS("get_metadata");
  TVMRT_RETURN_IF_ERROR(call_imports(resource_handle, "get_c_metadata", &metadata));
  return metadata == NULL ? fail_missing("get_c_metadata")
                          : return_pointer(out, out_code, metadata);
}

/* () -> address of the newer struct: the library's, or one derived from the classic struct. */
TVMRT_NATIVE(get_model_metadata) {
  metadata_module* m = resource_handle;
  void* model;
  void* classic = NULL;
  int rc = 0;
  TVMRT_ARGS("get_model_metadata");
  TVMRT_RETURN_IF_ERROR(call_imports(&m->base, "get_model_metadata", &model));
  if (model != NULL) return return_pointer(out, out_code, model);
  TVMRT_RETURN_IF_ERROR(call_imports(&m->base, "get_c_metadata", &classic));
  if (classic == NULL) return fail_missing("get_c_metadata");
  tvmrt__lock(&m->base.lock); /* the struct is made once, and its address stays valid */
  if (m->model.version == 0) {
    metadata_destroy(&m->base); /* leftovers of an attempt that ran out of memory */
    m->params = NULL;
    m->main_name = NULL;
    memset(&m->main_info, 0, sizeof(m->main_info));
    rc = synthesise(m, classic);
  }
  tvmrt__unlock(&m->base.lock);
  return rc != 0 ? rc : return_pointer(out, out_code, &m->model);
}

#define METHODS(X)                \
  X("get_metadata", get_metadata) \
  X("get_model_metadata", get_model_metadata)
static const tvmrt_builtins own = TVMRT_BUILTINS(METHODS);

static int metadata_find(tvmrt_module* self, const char* name, tvmrt_lookup_result* out) {
  (void)self;
  return tvmrt__find_native(&own, name, out);
}

static int metadata_save(tvmrt_module* self, tvmrt_buf* out) {
  (void)self;
  (void)out; /* everything is in the library */
  return 0;
}

static const tvmrt_module_type metadata_type = {
    .key = "metadata_module",
    .properties = TVMRT_MODULE_SERIALIZABLE,
    .find = metadata_find,
    .save = metadata_save,
    .destroy = metadata_destroy,
};

/* Its payload is empty. */
static int read_metadata_module(tvmrt_reader* in, tvmrt_module** out) {
  (void)in;
  *out = tvmrt__module_new(&metadata_type, sizeof(metadata_module));
  return *out == NULL ? -1 : 0;
}

TVMRT_LOADER(load, read_metadata_module)

/* () -> a module without imports: the caller imports the library to describe. */
TVMRT_NATIVE(create) {
  tvmrt_module* mod;
  TVMRT_COUNTED_ARGS(0, 0);
  TVMRT_RETURN_IF_ERROR(read_metadata_module(NULL, &mod));
  return tvmrt__ret_object(out, out_code, &mod->base);
}

#define FUNCTIONS(X)                        \
  X("runtime.MetadataModuleCreate", create) \
  X(TVMRT_LOADER_PREFIX "metadata_module", load)
const tvmrt_builtins tvmrt__metadata_builtins = TVMRT_BUILTINS(FUNCTIONS);
