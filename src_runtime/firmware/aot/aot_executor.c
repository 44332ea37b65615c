/* Firmware runtime: the ahead-of-time executor, over the packed interface of compiled networks.
 *
 * The network's metadata lists its tensors; they lie in one block of the board's allocator, after
 * the executor. A network is entered by its run function, which has its own memory for intermediate
 * values; older networks have no such function, and get this memory as additional tensors. */
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/config_defaults.h>
#include <tvm/runtime/platform.h>

#include "aot_metadata.h"
#include "registry.h"
#include "tensor_size.h"

/* Handles of programs point to `public_part`; the other fields are private. */
typedef struct aot_executor {
  TVMAotExecutor public_part; /* first, because programs have its address */
  TVMCPackedFunc entry;
  /* arguments of `entry`: one per tensor, set once */
  TVMValue* values;
  int* codes;
  void* block; /* as returned by the board's allocator */
} aot_executor;

/* The tensors of an executor: pools only if the network has no run function. */
typedef struct tensors {
  const TVMMetadata* metadata;
  size_t count;
  size_t extents;
  size_t bytes; /* each rounded */
} tensors;

/* Find `<prefix><name><suffix>` in a module; NULL if the name is too long or unknown. The name is
 * composed on the stack, because no other memory exists yet. */
static TVMFunctionHandle find(const TVMModule* module, const char* prefix, const char* name,
                              const char* suffix) {
  const char* parts[3];
  char symbol[TVM_CRT_MAX_STRLEN_FUNCTION_NAME];
  size_t size = 0;
  int i;
  parts[0] = prefix;
  parts[1] = name;
  parts[2] = suffix;
  for (i = 0; i < 3; ++i) {
    const char* p;
    for (p = parts[i]; *p != '\0'; ++p) {
      if (size == sizeof(symbol) - 1) return NULL;
      symbol[size++] = *p;
    }
  }
  symbol[size] = '\0';
  return tvmrt__registry_find(module->registry, symbol);
}

/* NULL also for metadata of another version, whose structs have another layout. Metadata lies in
 * flash and is never freed. A network without a name has functions without one. */
static const TVMMetadata* metadata_of(const TVMModule* module, const char* name) {
  const TVMFunctionHandle get =
      find(module, name[0] == '\0' ? "tvmgen" : "tvmgen_", name, "_get_c_metadata");
  TVMValue value;
  int code;
  const TVMMetadata* metadata;
  if (get == NULL || TVMFuncCall(get, NULL, NULL, 0, &value, &code) != 0) return NULL;
  metadata = (const TVMMetadata*)value.v_handle;
  if (code != kTVMOpaqueHandle || metadata == NULL) return NULL;
  return metadata->version == TVM_METADATA_VERSION ? metadata : NULL;
}

/* Inputs, outputs, pools: the order of main's arguments. */
static const TVMTensorInfo* info_of(const TVMMetadata* m, size_t index) {
  if (index < (size_t)m->num_inputs) return &m->inputs[index];
  index -= (size_t)m->num_inputs;
  if (index < (size_t)m->num_outputs) return &m->outputs[index];
  return &m->workspace_pools[index - (size_t)m->num_outputs];
}

/* The shape points into flash until lay_out() has copied it. */
static void describe(DLTensor* tensor, const TVMTensorInfo* info) {
  tensor->data = NULL;
  tensor->device.device_type = kDLCPU;
  tensor->device.device_id = 0;
  tensor->ndim = (int32_t)info->num_shape;
  tensor->dtype = info->dtype;
  tensor->shape = (int64_t*)(uintptr_t)info->shape;
  tensor->strides = NULL;
  tensor->byte_offset = 0;
}

/* Whether the sizes of all tensors are known and their sum is valid. Each is rounded as in
 * lay_out(). Beyond a quarter of the address space the sums of tables_bytes() could overflow. */
static int add_up(tensors* all) {
  size_t i;
  all->extents = 0;
  all->bytes = 0;
  if (all->count > MAX_ITEMS) return 0;
  for (i = 0; i < all->count; ++i) {
    DLTensor tensor;
    int ok;
    describe(&tensor, info_of(all->metadata, i));
    all->bytes += TVMRT_GRAPH_ROUND_UP(tvmrt__graph_bytes(&tensor, &ok));
    if (!ok || all->bytes > SIZE_MAX / 4) return 0;
    all->extents += (size_t)tensor.ndim;
  }
  return 1;
}

/* After the executor: tensors, values, codes, extents, which a run may choose, and the tensors'
 * data. */
static size_t tables_bytes(const tensors* all) {
  const size_t count = all->count;
  return TVMRT_GRAPH_ROUND_UP(sizeof(aot_executor)) +
         TVMRT_GRAPH_ROUND_UP(count * sizeof(TVMNDArray)) +
         TVMRT_GRAPH_ROUND_UP(count * sizeof(TVMValue)) +
         TVMRT_GRAPH_ROUND_UP(count * sizeof(int)) +
         TVMRT_GRAPH_ROUND_UP(all->extents * sizeof(int64_t));
}

/* Lays out the tables measured by tables_bytes() and add_up(); the block has that size. Shapes
 * are copied, since a run may choose extents below those of the metadata. */
static aot_executor* lay_out(void* block, const tensors* all) {
  uint8_t* at = (uint8_t*)block + (-(uintptr_t)block & (TVMRT_GRAPH_ALIGN_BYTES - 1));
  aot_executor* e = (aot_executor*)(void*)at;
  int64_t* shape;
  size_t i;
  at += TVMRT_GRAPH_ROUND_UP(sizeof(*e));
  e->public_part.args = (TVMNDArray*)(void*)at;
  at += TVMRT_GRAPH_ROUND_UP(all->count * sizeof(*e->public_part.args));
  e->values = (TVMValue*)(void*)at;
  at += TVMRT_GRAPH_ROUND_UP(all->count * sizeof(*e->values));
  e->codes = (int*)(void*)at;
  at += TVMRT_GRAPH_ROUND_UP(all->count * sizeof(*e->codes));
  shape = (int64_t*)(void*)at;
  at += TVMRT_GRAPH_ROUND_UP(all->extents * sizeof(*shape));
  for (i = 0; i < all->count; ++i) {
    DLTensor* tensor = &e->public_part.args[i].dl_tensor;
    int32_t d;
    int ok;
    describe(tensor, info_of(all->metadata, i));
    tensor->data = at;
    for (d = 0; d < tensor->ndim; ++d) shape[d] = tensor->shape[d];
    tensor->shape = shape;
    shape += tensor->ndim;
    at += TVMRT_GRAPH_ROUND_UP(tvmrt__graph_bytes(tensor, &ok));
    e->public_part.args[i].reference_count = 1;
    /* the address of the struct, which programs may get too: each run reads the data's address from
     * it */
    e->values[i].v_handle = tensor;
    e->codes[i] = kTVMDLTensorHandle;
  }
  e->block = block;
  return e;
}

/* Owned by the caller until TVMAotExecutor_Release(); *executor is NULL on failure. Codes: the
 * image has no such network; its metadata is not supported; or the error of the board's
 * allocator. */
tvm_crt_error_t TVMAotExecutor_Create(TVMModuleHandle module_handle, const DLDevice device,
                                      TVMAotExecutor** executor, const char* module_name) {
  const TVMModule* module = (const TVMModule*)module_handle;
  TVMFunctionHandle entry;
  tensors all;
  void* block;
  aot_executor* e;
  tvm_crt_error_t rc;
  *executor = NULL;
  if (module == NULL || device.device_type != kDLCPU) return kTvmErrorExecutorModuleBadContext;
  /* all checks come before the board's allocator is called */
  all.metadata = metadata_of(module, module_name);
  if (all.metadata == NULL) return kTvmErrorFunctionNameNotFound;
  all.count = (size_t)(all.metadata->num_inputs + all.metadata->num_outputs);
  /* `_run` includes the workspaces; main takes them as arguments. Networks whose pools of constants
   * must be filled are rejected. */
  entry = find(module, "", all.metadata->mod_name, "_run");
  if (entry == NULL) {
    entry = find(module, "", all.metadata->mod_name, "___tvm_main__");
    if (entry == NULL) return kTvmErrorFunctionNameNotFound;
    if (all.metadata->num_constant_pools != 0) return kTvmErrorExecutorModuleBadContext;
    all.count += (size_t)all.metadata->num_workspace_pools;
  }
  if (!add_up(&all)) return kTvmErrorExecutorModuleBadContext;
  rc = TVMPlatformMemoryAllocate(tables_bytes(&all) + all.bytes + TVMRT_GRAPH_ALIGN_BYTES - 1,
                                 device, &block);
  if (rc != kTvmErrorNoError) return rc;
  e = lay_out(block, &all);
  e->public_part.metadata = all.metadata;
  e->public_part.module_handle = module_handle;
  e->public_part.device = device;
  e->public_part.num_args = (int64_t)all.count;
  e->entry = *(const TVMCPackedFunc*)entry;
  *executor = &e->public_part;
  return kTvmErrorNoError;
}

/* Frees the one block. The board's stack allocator requires the reverse order of allocation. */
tvm_crt_error_t TVMAotExecutor_Release(TVMAotExecutor* executor, const DLDevice device) {
  if (executor == NULL) return kTvmErrorNoError;
  return TVMPlatformMemoryFree(((aot_executor*)(void*)executor)->block, device);
}

/* Accepts the spelling in C and the name as the author wrote it; -1 if there is none. */
int TVMAotExecutor_GetInputIndex(TVMAotExecutor* executor, const char* name) {
  const TVMMetadata* m = executor->metadata;
  int i;
  for (i = 0; i < (int)m->num_inputs; ++i) {
    if (tvmrt__aot_c_names_match(m->inputs[i].name, name)) return i;
  }
  return -1;
}

/* *name is borrowed from the metadata in flash. */
int TVMAotExecutor_GetInputName(TVMAotExecutor* executor, int index, const char** name) {
  *name = NULL;
  if (index < 0 || index >= executor->metadata->num_inputs) {
    return kTvmErrorExecutorModuleNoSuchInput;
  }
  *name = executor->metadata->inputs[index].name;
  return kTvmErrorNoError;
}

/* Returns the code of the operator that failed, whose text is in the error slot. Outputs then have
 * some old and some new values. */
tvm_crt_error_t TVMAotExecutor_Run(TVMAotExecutor* executor) {
  aot_executor* e = (aot_executor*)(void*)executor;
  TVMValue result;
  int code = kTVMNullptr;
  return (tvm_crt_error_t)e->entry(e->values, e->codes, (int)executor->num_args, &result, &code,
                                   NULL);
}
