/* Devices whose slots are global packed functions, which a front end registered:
 *
 *   device.<name>.run(symbol, input..., output...)                       required
 *   device.<name>.pre_run(symbol, JSON of the region, constants, options)
 *   device.<name>.post_run(symbol)
 *
 * A function that pre_run returns runs that region from then on, in place of device.<name>.run: two
 * libraries may have regions of one symbol.
 *
 * Tensors are views, valid during the call. The JSON is an element of "regions" (region_set.h), with
 * the shapes that the region is prepared for: at other shapes post_run and pre_run are called again.
 */
#include <stdlib.h>

#include "loaded_region.h"

/* device_graph: the functions of one region. */
typedef struct scripted_graph {
  tvmrt_func* run;
  TVMValue* args;
  int* codes;
} scripted_graph;

/* Retained; *out NULL if there is none. */
static int find_slot(const tvmrt_device* device, const char* slot, tvmrt_func** out) {
  tvmrt_buf name = {NULL, 0, 0};
  int rc = tvmrt__buf_printf(&name, "device.%s.%s", device->name, slot);
  *out = NULL;
  if (rc == 0) rc = tvmrt__global_get(name.data, out);
  tvmrt__buf_free(&name);
  return rc;
}

/* What the function returns beside its success is dropped. */
static int call(tvmrt_func* f, TVMValue* args, int* codes, int count) {
  TVMValue ret;
  int code;
  TVMRT_RETURN_IF_ERROR(TVMFuncCall(f, args, codes, count, &ret, &code));
  tvmrt__release(tvmrt__value_object(&ret, code));
  return 0;
}

static int scripted_release_graph(tvmrt_device* device, void* device_graph) {
  scripted_graph* g = device_graph;
  (void)device;
  if (g->run != NULL) tvmrt__release(&g->run->base);
  free(g->args);
  free(g->codes);
  free(g);
  return 0;
}

static int make_graph(tvmrt_device* device, tvmrt_region* region) {
  const size_t count = (size_t)region->num_inputs + (size_t)region->num_outputs + 1;
  scripted_graph* g = tvmrt__calloc(1, sizeof(*g));
  if (g == NULL) return -1;
  region->device_graph = g;
  g->args = tvmrt__calloc(count, sizeof(*g->args));
  g->codes = tvmrt__calloc(count, sizeof(*g->codes));
  if (g->args == NULL || g->codes == NULL) return -1;
  TVMRT_RETURN_IF_ERROR(find_slot(device, "run", &g->run));
  return g->run != NULL ? 0 : tvmrt__fail_value("device.%s.run was removed.", device->name);
}

static void keep_run(scripted_graph* g, TVMValue ret, int code) {
  if (code == kTVMPackedFuncHandle) {
    tvmrt__release(&g->run->base);
    g->run = ret.v_handle; /* with the reference that the call returned */
  } else {
    tvmrt__release(tvmrt__value_object(&ret, code));
  }
}

static int tell_region(tvmrt_func* f, tvmrt_region* region, const char* options) {
  const tvmrt_loaded_region* loaded = region->runtime;
  TVMByteArray constants = {loaded->constants->data, loaded->constants->size};
  tvmrt_buf json = {NULL, 0, 0};
  TVMValue args[4];
  int codes[4] = {kTVMStr, kTVMStr, kTVMBytes, kTVMStr};
  TVMValue ret;
  int code;
  int rc = tvmrt__write_region(loaded->text, loaded->text_size, &loaded->sizes, region, &json);
  args[0].v_str = region->symbol;
  args[1].v_str = json.data;
  args[2].v_handle = &constants;
  args[3].v_str = options;
  if (rc == 0) rc = TVMFuncCall(f, args, codes, 4, &ret, &code);
  if (rc == 0) keep_run(region->device_graph, ret, code);
  tvmrt__buf_free(&json);
  return rc;
}

static int scripted_pre_run(tvmrt_device* device, tvmrt_region* region, const char* options) {
  tvmrt_func* f;
  int rc = 0;
  if (region->device_graph == NULL) TVMRT_RETURN_IF_ERROR(make_graph(device, region));
  TVMRT_RETURN_IF_ERROR(find_slot(device, "pre_run", &f));
  if (f == NULL) return 0;
  rc = tell_region(f, region, options);
  tvmrt__release(&f->base);
  return rc;
}

static int scripted_run(tvmrt_device* device, tvmrt_region* region) {
  const scripted_graph* g = region->device_graph;
  int count = 1;
  int32_t i;
  (void)device;
  g->args[0].v_str = region->symbol;
  g->codes[0] = kTVMStr;
  for (i = 0; i < region->num_inputs; ++i, ++count) {
    g->args[count].v_handle = region->data[region->inputs[i]];
    g->codes[count] = kTVMDLTensorHandle;
  }
  for (i = 0; i < region->num_outputs; ++i, ++count) {
    g->args[count].v_handle = region->data[region->outputs[i]];
    g->codes[count] = kTVMDLTensorHandle;
  }
  return call(g->run, g->args, g->codes, count);
}

static int scripted_post_run(tvmrt_device* device, tvmrt_region* region) {
  tvmrt_func* f;
  TVMValue arg;
  int code = kTVMStr;
  int rc;
  TVMRT_RETURN_IF_ERROR(find_slot(device, "post_run", &f));
  if (f == NULL) return 0;
  arg.v_str = region->symbol;
  rc = call(f, &arg, &code, 1);
  tvmrt__release(&f->base);
  return rc;
}

int tvmrt__scripted_device(const char* name, tvmrt_device* out, bool* out_found) {
  static const tvmrt_device_interface slots = {
      .pre_run = scripted_pre_run,
      .run = scripted_run,
      .post_run = scripted_post_run,
      .release_graph = scripted_release_graph,
  };
  tvmrt_func* run;
  *out_found = false;
  memset(out, 0, sizeof(*out));
  out->struct_bytes = sizeof(*out);
  out->name = name;
  out->interface = &slots;
  out->version = UINT32_MAX;   /* one front end wrote both halves: no version is too new, */
  out->abilities = UINT64_MAX; /* and no ability is lacking */
  TVMRT_RETURN_IF_ERROR(find_slot(out, "run", &run));
  *out_found = run != NULL;
  if (run != NULL) tvmrt__release(&run->base);
  return 0;
}
