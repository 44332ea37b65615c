/* Global functions for devices: tvmrt.device.*, and device.<name>.* of devices written in C.
 *
 * Queries of compilers and tools. A device is held during a query, so that it cannot be
 * unregistered meanwhile. Regions are passed as the JSON that libraries contain, and parsed by the
 * same reader.
 *
 * device.<name>.* are registered with the device and removed with it. A device in a front end
 * defines functions with these names itself, so that compilers query both kinds alike. */
#include <stdlib.h>

#include "../base/json.h"
#include "../core/container.h"
#include "../platform/system.h"
#include "loaded_region.h"

/* () -> Array of str */
TVMRT_NATIVE(list_devices) {
  const char** names;
  int32_t existing, count;
  int rc;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__device_list(NULL, 0, &existing));
  /* one more, to avoid an empty allocation */
  names = (const char**)tvmrt__calloc((size_t)existing + 1, sizeof(*names));
  if (names == NULL) return -1;
  rc = tvmrt__device_list(names, existing, &count);
  if (count > existing) count = existing; /* one was registered meanwhile */
  if (rc == 0) {
    rc = tvmrt__ret_object(out, out_code,
                           (tvmrt_object*)tvmrt__array_of_texts(names, (size_t)count));
  }
  free((void*)names);
  return rc;
}

/* () -> text: the names of plug-ins that can be loaded on demand, one per line */
TVMRT_NATIVE(list_plugins) {
  tvmrt_buf names = {NULL, 0, 0};
  int rc = tvmrt__plugin_names(&names);
  TVMRT_GLOBAL_ARGS;
  return tvmrt__ret_buf(rc, kTVMStr, &names, out, out_code);
}

/* The only argument of most of these functions, borrowed. */
static int read_text(const tvmrt_args* in, const char** out) {
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 1, 1));
  return tvmrt__arg_str(in, 0, out);
}

/* (path) */
TVMRT_NATIVE(load_plugin) {
  const char* path;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(read_text(&in, &path));
  return tvmrt__device_load_plugin(path);
}

/* (name) */
TVMRT_NATIVE(unregister_device) {
  const char* name;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(read_text(&in, &name));
  return tvmrt__device_unregister(name);
}

/* (name, JSON object): for regions that are loaded later */
TVMRT_NATIVE(set_options) {
  const char* name;
  const char* options;
  TVMRT_COUNTED_ARGS(2, 2);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 0, &name));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 1, &options));
  return tvmrt__device_set_options(name, options);
}

#define FUNCTIONS(X)                              \
  X("tvmrt.device.list", list_devices)            \
  X("tvmrt.device.list_plugins", list_plugins)    \
  X("tvmrt.device.load_plugin", load_plugin)      \
  X("tvmrt.device.unregister", unregister_device) \
  X("tvmrt.device.set_options", set_options)
const tvmrt_builtins tvmrt__region_builtins = TVMRT_BUILTINS(FUNCTIONS);

/* A member of an object, with a leading comma. NULL is an empty list. */
static int write_list(tvmrt_buf* out, const char* key, const char* const* list) {
  const char* comma = "";
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_printf(out, ", \"%s\": [", key));
  for (; list != NULL && *list != NULL; ++list, comma = ", ") {
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, comma));
    TVMRT_RETURN_IF_ERROR(tvmrt__json_write_string(out, *list));
  }
  return tvmrt__buf_puts(out, "]");
}

/* Memory properties for the planner. */
static int write_memory(const tvmrt_device_memory* memory, tvmrt_buf* out) {
  if (memory == NULL) return 0;
  return tvmrt__buf_printf(
      out, ", \"memory\": [%d, %d, %zu]", (int)memory->device.device_type,
      (int)memory->device.device_id,
      memory->align_bytes == 0 ? (size_t)TVMRT_CONSTANT_ALIGN_BYTES : memory->align_bytes);
}

/* JSON for compilers, which select operators for the device by it. */
static int write_description(tvmrt_device* device, tvmrt_buf* out) {
  /* Default of devices without a type list, as in split.c. */
  static const char* const float32[] = {"float32", NULL};
  tvmrt_device_description can;
  TVMRT_RETURN_IF_ERROR(tvmrt__device_describe(device, &can));
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_printf(
      out,
      "{\"name\": \"%s\", \"version\": %u, \"layout\": \"%s\", \"async\": %d, \"any_size\": %d, "
      "\"own_split\": %d",
      device->name, (unsigned)device->version, can.layout == NULL ? "dense" : can.layout,
      device->interface->async_run != NULL, (device->abilities & TVMRT_DEVICE_ANY_SIZE) != 0,
      device->optimizer != NULL && device->optimizer->split_graph != NULL));
  TVMRT_RETURN_IF_ERROR(write_memory(device->memory, out));
  TVMRT_RETURN_IF_ERROR(write_list(out, "ops", can.ops));
  TVMRT_RETURN_IF_ERROR(write_list(out, "dtypes", can.dtypes == NULL ? float32 : can.dtypes));
  TVMRT_RETURN_IF_ERROR(write_list(out, "precisions", can.precisions));
  TVMRT_RETURN_IF_ERROR(write_list(out, "chips", can.chips));
  return tvmrt__buf_puts(out, "}");
}

/* State of one query of a device. */
typedef struct query {
  tvmrt_device* device;
  tvmrt_region_set set;
  void* constants; /* aligned copy */
  int32_t* answers;
  tvmrt_buf text;
} query;

/* Call end_query() afterwards, also on failure. */
static int begin_query(query* q, const char* name) {
  memset(q, 0, sizeof(*q));
  TVMRT_RETURN_IF_ERROR(tvmrt__device_take(name, &q->device));
  return q->device != NULL ? 0 : tvmrt__fail_value("there is no device '%.60s'.", name);
}

/* (JSON [, constants, ...]): the first region in it. */
static int read_query(query* q, const tvmrt_args* in, const tvmrt_region** out_region) {
  TVMByteArray json;
  TVMByteArray constants = {NULL, 0};
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 1, 3));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_bytes(in, 0, &json));
  if (in->count > 1 && !tvmrt__arg_is_null(in, 1)) {
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_bytes(in, 1, &constants));
    /* A caller's bytes may be unaligned; devices rely on the alignment in libraries. */
    q->constants = tvmrt__aligned_alloc(TVMRT_CONSTANT_ALIGN_BYTES, constants.size + 1);
    if (q->constants == NULL) return tvmrt__fail_memory(constants.size);
    memcpy(q->constants, constants.data, constants.size);
  }
  TVMRT_RETURN_IF_ERROR(
      tvmrt__region_set_read(json.data, json.size, q->constants, constants.size, &q->set));
  if (q->set.num_regions == 0)
    return tvmrt__fail_value("%s: the text contains no region.", in->callee);
  *out_region = &q->set.regions[0].region;
  q->answers = tvmrt__calloc((size_t)(*out_region)->num_nodes, sizeof(*q->answers));
  return q->answers == NULL ? -1 : 0;
}

/* Frees everything, also after a failure: unset fields are zero. */
static int end_query(query* q, int rc, TVMValue* out, int* out_code) {
  tvmrt__device_put(q->device);
  tvmrt__region_set_free(&q->set);
  tvmrt__aligned_free(q->constants);
  free(q->answers);
  return tvmrt__ret_buf(rc, kTVMStr, &q->text, out, out_code);
}

/* A number for each node, in the order of the query. */
static int write_answers(query* q, const tvmrt_region* region) {
  int32_t i;
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(&q->text, "["));
  for (i = 0; i < region->num_nodes; ++i) {
    TVMRT_RETURN_IF_ERROR(
        tvmrt__buf_printf(&q->text, "%s%d", i == 0 ? "" : ", ", (int)q->answers[i]));
  }
  return tvmrt__buf_puts(&q->text, "]");
}

/* () -> JSON {"name", "version", "layout", "async", "any_size", "own_split", "ops", "dtypes",
 * "precisions", "chips"}; for a device with memory also "memory": [type, number, alignment] */
TVMRT_NATIVE(describe) {
  query q;
  int rc = begin_query(&q, resource_handle);
  (void)args;
  (void)type_codes;
  (void)num_args;
  if (rc == 0) rc = write_description(q.device, &q.text);
  return end_query(&q, rc, out, out_code);
}

/* Only the reason; the caller knows device and region. */
static int query_evaluation(query* q, const tvmrt_region* region) {
  const tvmrt_device_allocator* slots = q->device->allocator;
  const char* reason;
  if (slots == NULL || slots->evaluation == NULL) return 0;
  /* Clear earlier errors, since the device may fail without a text. */
  tvmrt__forget_error();
  if (slots->evaluation(q->device, region) == 0) return 0;
  reason = TVMGetLastError();
  return tvmrt__buf_puts(&q->text, reason[0] == '\0' ? "it returned no error text." : reason);
}

/* (JSON, constants) -> JSON {"reason": "" if the device accepts the region, "node": the index of
 * the node that is the reason, or -1} */
TVMRT_NATIVE(judge) {
  query q;
  const tvmrt_region* region = NULL;
  tvmrt_args in = {"device judge", args, type_codes, num_args};
  tvmrt_buf reply = {NULL, 0, 0};
  int rc = begin_query(&q, resource_handle);
  if (rc == 0) rc = read_query(&q, &in, &region);
  if (rc == 0) rc = query_evaluation(&q, region);
  if (rc == 0) rc = tvmrt__buf_puts(&reply, "{\"reason\": ");
  if (rc == 0) rc = tvmrt__json_write_string(&reply, q.text.data == NULL ? "" : q.text.data);
  if (rc == 0) {
    const int32_t node = region == NULL ? -1 : region->failed_node;
    const bool is_node = node >= 0 && node < region->num_nodes;
    rc = tvmrt__buf_printf(&reply, ", \"node\": %d}", is_node ? (int)node : -1);
  }
  tvmrt__buf_free(&q.text);
  q.text = reply;
  return end_query(&q, rc, out, out_code);
}

/* (JSON of the graph as a region) -> JSON list: a group per node, -1 for the CPU */
TVMRT_NATIVE(split_graph) {
  query q;
  const tvmrt_region* graph = NULL;
  tvmrt_args in = {"device split_graph", args, type_codes, num_args};
  int rc = begin_query(&q, resource_handle);
  if (rc == 0) rc = read_query(&q, &in, &graph);
  if (rc == 0) {
    const tvmrt_device_optimizer* slots = q.device->optimizer;
    const bool own = slots != NULL && slots->split_graph != NULL;
    tvmrt__forget_error();
    rc = own ? slots->split_graph(q.device, graph, q.answers)
             : tvmrt__split_graph_by_describe(q.device, graph, q.answers);
    if (rc != 0) rc = tvmrt__slot_failed(q.device, "split_graph", graph);
  }
  if (rc == 0) rc = write_answers(&q, graph);
  return end_query(&q, rc, out, out_code);
}

/* Without the slot all answers stay 0: no node is computed in reduced precision. */
static int query_precision(query* q, const tvmrt_args* in, const tvmrt_region* region) {
  const tvmrt_device_optimizer* slots = q->device->optimizer;
  const char* precision;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 3, 3));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(in, 2, &precision));
  if (slots == NULL || slots->optimize_graph == NULL) return 0; /* no reduced precision */
  tvmrt__forget_error();
  if (slots->optimize_graph(q->device, region, precision, q->answers) == 0) return 0;
  return tvmrt__slot_failed(q->device, "optimize_graph", region);
}

/* (JSON, constants, precision) -> JSON list: 1 for the nodes that compute in that precision */
TVMRT_NATIVE(optimize_graph) {
  query q;
  const tvmrt_region* region = NULL;
  tvmrt_args in = {"device optimize_graph", args, type_codes, num_args};
  int rc = begin_query(&q, resource_handle);
  if (rc == 0) rc = read_query(&q, &in, &region);
  if (rc == 0) rc = query_precision(&q, &in, region);
  if (rc == 0) rc = write_answers(&q, region);
  return end_query(&q, rc, out, out_code);
}

static int write_blob(void* sink, const void* data, size_t num_bytes) {
  return tvmrt__buf_append(sink, data, num_bytes);
}

/* A device without the slot writes nothing. */
static int query_blob(query* q, const tvmrt_args* in, const tvmrt_region* region) {
  const tvmrt_device_optimizer* slots = q->device->optimizer;
  const char* chip;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 3, 3));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(in, 2, &chip));
  if (slots == NULL || slots->prepare == NULL) return 0;
  tvmrt__forget_error();
  if (slots->prepare(q->device, region, chip, write_blob, &q->text) == 0) return 0;
  return tvmrt__slot_failed(q->device, "prepare", region);
}

/* (JSON, constants, chip) -> bytes of the region for the chip */
TVMRT_NATIVE(prepare) {
  query q;
  const tvmrt_region* region = NULL;
  tvmrt_args in = {"device prepare", args, type_codes, num_args};
  tvmrt_buf blob = {NULL, 0, 0};
  int rc = begin_query(&q, resource_handle);
  if (rc == 0) rc = read_query(&q, &in, &region);
  if (rc == 0) rc = query_blob(&q, &in, region);
  blob = q.text;
  memset(&q.text, 0, sizeof(q.text));
  (void)end_query(&q, -1, out, out_code);
  return tvmrt__ret_buf(rc, kTVMBytes, &blob, out, out_code);
}

#define SLOTS(X)                      \
  X("describe", describe)             \
  X("judge", judge)                   \
  X("split_graph", split_graph)       \
  X("optimize_graph", optimize_graph) \
  X("prepare", prepare)
const tvmrt_builtins tvmrt__device_slot_functions = TVMRT_BUILTINS(SLOTS);
