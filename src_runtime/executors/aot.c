/* The ahead-of-time executor: creating an instance from a library's metadata.
 *
 * An instance owns its ports' tensors and its pools and borrows the metadata, which is data of the
 * library, so it retains the library. Main takes inputs, outputs and pools in this order, all as
 * DLTensors. The arguments are laid out once and updated when a port is bound to another tensor, so
 * a run is one call. Instances of a library share no data that a run writes. Functions of one
 * instance are called one at a time (ensured by executor.c); other instances may run
 * concurrently. */
#include "aot.h"

#include <stdlib.h>
#include <string.h>

#include "../firmware/aot/aot_metadata.h"

/* Accepts a partly built instance: tables that were not reached are NULL. The module's own
 * destructor releases the library. */
static void aot_destroy(tvmrt_module* self) {
  tvmrt_aot_executor* e = (tvmrt_aot_executor*)self;
  size_t i;
  tvmrt__executor_free_ports(&e->base);
  for (i = 0; e->pools != NULL && i < e->num_pools; ++i) tvmrt__tensor_release(e->pools[i]);
  free(e->pools);
  free(e->args);
  free(e->codes);
  tvmrt__run_memory_free(e->memory);
  if (e->main_function != NULL) tvmrt__release(&e->main_function->base);
}

/* `get_c_metadata`, or `tvmgen_<name>_get_c_metadata` if a library contains several networks. */
static int find_metadata(tvmrt_aot_executor* e, const char* name) {
  tvmrt_buf network = {NULL, 0, 0};
  void* found = NULL;
  int rc = tvmrt__buf_printf(&network, "tvmgen_%s", name);
  if (rc == 0) {
    rc = tvmrt__network_pointer(e->base.module.library, network.data, "get_c_metadata", &found);
  }
  tvmrt__buf_free(&network);
  if (rc != 0) return rc;
  if (found == NULL) {
    return tvmrt__fail_value(
        "the library has no function '%s': it was not compiled ahead of time with metadata.",
        "get_c_metadata");
  }
  e->metadata = found;
  return 0;
}

#define MAIN "___tvm_main__" /* suffix of a network's name: its main function */

/* Find the library's extended metadata of this network's main function. */
static int find_info(tvmrt_aot_executor* e) {
  const TVMMetadata* m = e->metadata;
  const size_t length = strlen(m->mod_name);
  const TVMModelMetadata* model;
  void* found;
  TVMRT_RETURN_IF_ERROR(
      tvmrt__network_pointer(e->base.module.library, m->mod_name, "get_model_metadata", &found));
  model = found;
  /* Libraries of other compilers have none, which is not an error: ports then use the metadata's
   * names. */
  if (model == NULL || model->num_functions < 1 || model->functions[0].function_name == NULL ||
      model->functions[0].params == NULL) {
    return 0;
  }
  if (strncmp(model->functions[0].function_name, m->mod_name, length) != 0 ||
      strcmp(model->functions[0].function_name + length, MAIN) != 0 ||
      model->functions[0].num_inputs != m->num_inputs ||
      model->functions[0].num_outputs != m->num_outputs) {
    return 0; /* another network's, in a library of several */
  }
  e->info = &model->functions[0];
  return 0;
}

/* The packed function that runs all operators, retained. Its name contains the metadata's, so that
 * each network of a library has its own. */
static int find_main(tvmrt_aot_executor* e) {
  tvmrt_buf symbol = {NULL, 0, 0};
  int rc = tvmrt__buf_printf(&symbol, "%s" MAIN, e->metadata->mod_name);
  if (rc == 0) rc = tvmrt__module_get(e->base.module.library, symbol.data, true, &e->main_function);
  if (rc == 0 && e->main_function == NULL) {
    rc = tvmrt__fail_value("the library has metadata but no main function '%s'.", symbol.data);
  }
  tvmrt__buf_free(&symbol);
  return rc;
}

/* Zeros, so that runs before the first set_input are reproducible. */
static void clear_inputs(tvmrt_aot_executor* e) {
  size_t i;
  for (i = 0; i < e->base.inputs.count; ++i) tvmrt__port_clear(&e->base.inputs.items[i]);
}

/* A tensor with the library's description, owned by the caller; *out is NULL on failure. */
static int alloc_info(const TVMTensorInfo* info, DLDevice dev, tvmrt_tensor** out) {
  *out = tvmrt__tensor_alloc_workspace(info->shape, (int)info->num_shape, info->dtype, dev);
  return *out == NULL ? -1 : 0;
}

/* The minimum extents of a port whose memory grows, which is recorded; NULL for other ports. */
static const int64_t* find_min(const tvmrt_aot_executor* e, const tvmrt_ports* side,
                               tvmrt_port* port, const TVMTensorInfo* info) {
  const tvmrt_dims* dims = e->base.dims;
  const bool is_output = side == &e->base.outputs;
  const int64_t i = port - side->items;
  const tvmrt_dims_tensor* desc;
  /* Ports without a description have fixed extents. */
  if (e->memory == NULL || i >= (is_output ? dims->num_outputs : dims->num_inputs)) return NULL;
  desc = &(is_output ? dims->outputs : dims->inputs)[i];
  /* tvmrt__executor_read_dims() refuses another rank */
  port->grows = desc->rank == info->num_shape && tvmrt__has_dynamic_extent(desc);
  return port->grows ? desc->min : NULL;
}

/* The port's own tensor, with the library's description, or with the minimum extents. */
static int make_port(const tvmrt_aot_executor* e, const tvmrt_ports* side, tvmrt_port* port,
                     const TVMTensorInfo* info, DLDevice dev) {
  TVMTensorInfo first = *info;
  const int64_t* least;
  tvmrt_tensor* own;
  port->name = info->name == NULL ? "" : info->name;
  least = find_min(e, side, port, info);
  if (least != NULL) first.shape = least;
  TVMRT_RETURN_IF_ERROR(alloc_info(&first, dev, &own));
  tvmrt__port_replace_own(port, own);
  return 0;
}

/* A port that was not reached has no tensor, which tvmrt__port_free() accepts. */
static int make_ports(const tvmrt_aot_executor* e, const TVMTensorInfo* infos, size_t count,
                      DLDevice dev, tvmrt_ports* out) {
  size_t i;
  out->items = tvmrt__calloc(count, sizeof(*out->items));
  if (out->items == NULL) return -1;
  out->count = count;
  for (i = 0; i < count; ++i) {
    TVMRT_RETURN_IF_ERROR(make_port(e, out, &out->items[i], &infos[i], dev));
  }
  return 0;
}

/* Sizes come from an untrusted library: a sum that overflows would make the pool too small. */
static int constant_end(const TVMConstantInfo* info, uint64_t* end) {
  if (info->byte_offset < 0 || info->data_len < 0 || info->data_bytes == NULL ||
      info->data_len > PTRDIFF_MAX - info->byte_offset) {
    return tvmrt__fail_value("constant '%.60s' of the library has no data or a bad offset.",
                             info->name_hint == NULL ? "" : info->name_hint);
  }
  *end = (uint64_t)(info->byte_offset + info->data_len);
  return 0;
}

/* Copy a serialised constant to its offset in the pool. */
static int place_constant(const TVMConstantInfo* info, tvmrt_tensor* pool) {
  tvmrt_reader in;
  tvmrt_tensor* t;
  uint64_t bytes = 0;
  int rc;
  tvmrt__reader_init(&in, "a constant of the library", info->data_bytes, (size_t)info->data_len);
  t = tvmrt__tensor_read(&in);
  if (t == NULL) return -1;
  rc = tvmrt__tensor_bytes(&t->dl, &bytes); /* less than data_len, so the pool is large enough */
  if (rc == 0) memcpy((char*)pool->dl.data + info->byte_offset, t->dl.data, (size_t)bytes);
  tvmrt__tensor_release(t);
  return rc;
}

static const DLDataType byte_type = {kDLUInt, 8, 1};

/* Constants that the library lists are copied into one pool, which may be empty: tvmrt's libraries
 * read constants in place. */
static int make_constant_pool(const TVMMetadata* m, DLDevice dev, tvmrt_tensor** out) {
  uint64_t size = 0;
  int64_t extent;
  int64_t i;
  for (i = 0; i < m->num_constant_pools; ++i) {
    uint64_t end = 0;
    TVMRT_RETURN_IF_ERROR(constant_end(&m->constant_pools[i], &end));
    if (end > size) size = end;
  }
  extent = (int64_t)size;
  *out = tvmrt__tensor_alloc_workspace(&extent, 1, byte_type, dev);
  if (*out == NULL) return -1;
  for (i = 0; i < m->num_constant_pools; ++i) {
    TVMRT_RETURN_IF_ERROR(place_constant(&m->constant_pools[i], *out));
  }
  return 0;
}

/* Device of a workspace: a device whose regions alone use it, or the device of the network. */
static DLDevice pool_device(const tvmrt_aot_executor* e, int64_t pool, DLDevice dev) {
  const tvmrt_placement* p = e->placement;
  const bool is_placed = p != NULL && pool < p->num_pools && p->pools[pool].device_type != kDLCPU;
  return is_placed ? p->pools[pool] : dev;
}

/* pools[0] has the constants, the workspaces follow, in the order of main's arguments. */
static int make_pools(tvmrt_aot_executor* e, DLDevice dev) {
  const TVMMetadata* m = e->metadata;
  int64_t i;
  if (m->num_workspace_pools == 0) return 0; /* then main takes no constants either */
  e->pools = tvmrt__calloc((size_t)m->num_workspace_pools + 1, sizeof(*e->pools));
  if (e->pools == NULL) return -1;
  e->num_pools = (size_t)m->num_workspace_pools + 1;
  TVMRT_RETURN_IF_ERROR(make_constant_pool(m, dev, &e->pools[0]));
  if (e->memory != NULL) return 0; /* runs allocate the workspace */
  for (i = 0; i < m->num_workspace_pools; ++i) {
    TVMRT_RETURN_IF_ERROR(
        alloc_info(&m->workspace_pools[i], pool_device(e, i, dev), &e->pools[i + 1]));
  }
  return 0;
}

/* A state is initial if its mark in the workspace is 0. */
static int reset_state(tvmrt_executor* base) {
  const tvmrt_aot_executor* e = (const tvmrt_aot_executor*)base;
  size_t i;
  for (i = 1; base->has_state && i < e->num_pools; ++i) {
    const DLTensor* t = &e->pools[i]->dl;
    uint64_t bytes;
    /* no state lies in the memory of a region's device */
    if (t->device.device_type != e->pools[0]->dl.device.device_type) continue;
    TVMRT_RETURN_IF_ERROR(tvmrt__tensor_bytes(t, &bytes));
    memset(t->data, 0, (size_t)bytes);
  }
  return 0;
}

/* Update main's arguments from the ports' tensors, after each change of a port. */
static void update_args(tvmrt_aot_executor* e) {
  const tvmrt_ports* inputs = &e->base.inputs;
  const tvmrt_ports* outputs = &e->base.outputs;
  size_t i;
  for (i = 0; i < inputs->count; ++i) tvmrt__aot_set_arg(e, i, inputs->items[i].bound);
  for (i = 0; i < outputs->count; ++i) {
    tvmrt__aot_set_arg(e, inputs->count + i, outputs->items[i].bound);
  }
  for (i = 0; i < e->num_pools; ++i) {
    if (e->pools[i] == NULL) continue; /* a workspace that runs allocate */
    tvmrt__aot_set_arg(e, inputs->count + outputs->count + i, e->pools[i]);
  }
}

/* Update the argument of one port; outputs follow the inputs. */
static void update_arg(tvmrt_executor* base, const tvmrt_ports* side, const tvmrt_port* port) {
  const size_t first = side == &base->outputs ? base->inputs.count : 0;
  tvmrt__aot_set_arg((tvmrt_aot_executor*)base, first + (size_t)(port - side->items), port->bound);
}

/* Names of one side of a network: in the source network, and in generated code. */
typedef struct names {
  const tvmrt_ports* ports;
  const TVMTensorInfo* infos;
  const TVMParameterInfo* params; /* NULL if the library has no source names */
} names;

/* `params` lists the outputs after the inputs. */
static names names_of(const tvmrt_aot_executor* e, const tvmrt_ports* side) {
  const bool is_output = side == &e->base.outputs;
  const TVMParameterInfo* params = e->info == NULL ? NULL : e->info->params;
  const names n = {side, is_output ? e->metadata->outputs : e->metadata->inputs,
                   params != NULL && is_output ? params + e->base.inputs.count : params};
  return n;
}

/* Ports have their source names, if the library has them: names in the metadata are C identifiers,
 * which need not be unique. */
static int name_ports(const tvmrt_aot_executor* e, const tvmrt_ports* side) {
  const names n = names_of(e, side);
  size_t i;
  for (i = 0; n.params != NULL && i < side->count; ++i) {
    const char* hint = n.params[i].relay_name_hint;
    if (hint != NULL && hint[0] != '\0') side->items[i].name = hint;
  }
  return tvmrt__ports_make_names_unique(side->items, side->count);
}

/* Whether `name` matches the metadata's name or the C name. */
static bool matches_c_name(const names* n, size_t i, const char* name) {
  const char* c_name = n->infos[i].name;
  const char* hint = n->params == NULL ? NULL : n->params[i].tir_name_hint;
  return (c_name != NULL && tvmrt__aot_c_names_match(c_name, name)) ||
         (hint != NULL && tvmrt__aot_c_names_match(hint, name));
}

/* The only port whose name in generated code matches `name`. */
static int find_by_c_name(tvmrt_executor* base, const tvmrt_ports* side, const char* callee,
                          const char* name, tvmrt_port** out) {
  const names n = names_of((const tvmrt_aot_executor*)base, side);
  size_t i;
  (void)callee;
  for (i = 0; i < side->count; ++i) {
    if (!matches_c_name(&n, i, name)) continue;
    if (*out != NULL) {
      return tvmrt__fail_value(
          "'%.60s' is ambiguous: %ss '%.60s' and '%.60s' have this C name; use the network's own "
          "name, or the index.",
          name, side->kind, (*out)->name, side->items[i].name);
    }
    *out = &side->items[i];
  }
  return 0;
}

/* Allocate main's arguments once: runs do not allocate. */
static int make_args(tvmrt_aot_executor* e) {
  size_t count = e->base.inputs.count + e->base.outputs.count + e->num_pools;
  e->args = tvmrt__calloc(count, sizeof(*e->args));
  e->codes = tvmrt__calloc(count, sizeof(*e->codes));
  if (e->args == NULL || e->codes == NULL) return -1;
  e->num_args = (int)count;
  update_args(e);
  return 0;
}

/* Libraries of tvmrt, which have info, compute in the host's memory; other libraries do not state
 * their device. */
static int check_device(const tvmrt_aot_executor* e, DLDevice dev) {
  if (e->info == NULL || dev.device_type == kDLCPU || dev.device_type == kDLCUDAHost) return 0;
  return tvmrt__fail_value(
      "network '%.80s' was compiled for the CPU's memory and cannot run on a device of type %d; "
      "create the executor with cpu(0): its regions select their devices.",
      e->metadata->mod_name, (int)dev.device_type);
}

/* The order matters: names need info, dims and placement need ports, arguments need all tensors. On
 * failure aot_destroy() frees the rest. */
static int build(tvmrt_aot_executor* e, const char* name, DLDevice dev) {
  const TVMMetadata* m;
  TVMRT_RETURN_IF_ERROR(find_metadata(e, name));
  m = e->metadata;
  TVMRT_RETURN_IF_ERROR(tvmrt__metadata_check(m));
  TVMRT_RETURN_IF_ERROR(find_info(e));
  TVMRT_RETURN_IF_ERROR(check_device(e, dev));
  TVMRT_RETURN_IF_ERROR(find_main(e));
  TVMRT_RETURN_IF_ERROR(
      tvmrt__library_has_state(e->base.module.library, m->mod_name, &e->base.has_state));
  TVMRT_RETURN_IF_ERROR(tvmrt__aot_read_plan(e));
  TVMRT_RETURN_IF_ERROR(make_ports(e, m->inputs, (size_t)m->num_inputs, dev, &e->base.inputs));
  clear_inputs(e);
  TVMRT_RETURN_IF_ERROR(make_ports(e, m->outputs, (size_t)m->num_outputs, dev, &e->base.outputs));
  /* Before parameters are set, which find their inputs by these names. */
  TVMRT_RETURN_IF_ERROR(name_ports(e, &e->base.inputs));
  TVMRT_RETURN_IF_ERROR(name_ports(e, &e->base.outputs));
  TVMRT_RETURN_IF_ERROR(tvmrt__executor_read_dims(&e->base, m->mod_name));
  TVMRT_RETURN_IF_ERROR(tvmrt__read_placement(e->base.module.library, m->mod_name, &e->placement));
  TVMRT_RETURN_IF_ERROR(tvmrt__executor_set_placement(&e->base, e->placement));
  TVMRT_RETURN_IF_ERROR(make_pools(e, dev));
  /* Allocated memory is not cleared, and a state's mark must be 0 before the first run. */
  TVMRT_RETURN_IF_ERROR(reset_state(&e->base));
  TVMRT_RETURN_IF_ERROR(tvmrt__executor_prepare(&e->base, m->mod_name));
  return make_args(e);
}

/* Names that are not inputs are skipped. An exact source name takes precedence over a C name.
 * Inputs share the params' tensors. */
static int set_params(tvmrt_executor* base, const tvmrt_params* params) {
  size_t i;
  for (i = 0; i < params->count; ++i) {
    const char* name = params->names[i];
    tvmrt_port* port = tvmrt__port_named(&base->inputs, name);
    if (port == NULL) {
      TVMRT_RETURN_IF_ERROR(find_by_c_name(base, &base->inputs, "", name, &port));
    }
    if (port == NULL) continue;
    TVMRT_RETURN_IF_ERROR(tvmrt__port_share(port, "parameter", params->tensors[i]));
  }
  update_args((tvmrt_aot_executor*)base);
  return 0;
}

static const tvmrt_executor_kind kind = {
    .type = TVMRT_EXECUTOR_TYPE("AotExecutor", aot_destroy),
    .find = find_by_c_name,
    .update = update_arg,
    .run = tvmrt__aot_run,
    .reset_state = reset_state,
    .set_params = set_params,
    .profile = tvmrt__aot_profile,
};

/* `params` may be NULL, and is only read: ports share its tensors. */
int tvmrt__aot_executor_new(tvmrt_module* library, const char* name, DLDevice dev,
                            const tvmrt_params* params, tvmrt_module** out) {
  tvmrt_aot_executor* e = tvmrt__executor_new(&kind, sizeof(*e), library);
  int rc = e == NULL ? -1 : build(e, name, dev);
  if (rc == 0 && params != NULL) rc = set_params(&e->base, params);
  *out = rc == 0 ? &e->base.module : NULL;
  if (rc != 0) tvmrt__module_release(e);
  return rc;
}
