/* Functions of every executor, as methods of its module.
 *
 * Names and arguments are those of TVM's executors. Methods (TVMRT_EXECUTOR_METHOD) take the
 * executor for the duration of the call and fail if another thread has taken it or a run is in
 * progress; constant properties are returned without taking it. A port is selected by index or
 * name; pointers to ports are valid as long as the executor. Differences between kinds are in their
 * tables. */
#include "executor.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "schedules.h"

/* A kind begins with its module type, and the executor's module points to that, which gives access
 * to the whole kind. */
static const tvmrt_executor_kind* kind_of(const tvmrt_executor* e) {
  return (const tvmrt_executor_kind*)e->module.type;
}

/* The library is retained until the end: it contains names and constants of ports. */
void* tvmrt__executor_new(const tvmrt_executor_kind* kind, size_t bytes, tvmrt_module* library) {
  tvmrt_executor* e = tvmrt__module_new(&kind->type, bytes);
  if (e == NULL) return NULL;
  tvmrt__retain(&library->base);
  e->module.library = library;
  e->inputs.kind = "input";
  e->outputs.kind = "output";
  return e;
}

/* Ports that were not reached are zero, or not allocated. */
static void free_side(tvmrt_ports* side) {
  size_t i;
  for (i = 0; side->items != NULL && i < side->count; ++i) tvmrt__port_free(&side->items[i]);
  free(side->items);
}

void tvmrt__executor_free_ports(tvmrt_executor* e) {
  tvmrt__reserve_free(&e->reserve);
  free_side(&e->inputs);
  free_side(&e->outputs);
}

int tvmrt__executor_prepare(tvmrt_executor* e, const char* network) {
  void* found;
  const uint64_t* needs;
  (void)tvmrt__num_threads();
  TVMRT_RETURN_IF_ERROR(
      tvmrt__network_pointer(e->module.library, network, "get_input_align", &found));
  /* libraries of other compilers do not state it */
  e->input_align = found == NULL ? TVMRT_FOREIGN_ALIGN_BYTES : *(const uint64_t*)found;
  TVMRT_RETURN_IF_ERROR(
      tvmrt__network_pointer(e->module.library, network, "get_run_needs", &found));
  needs = found;
  /* libraries of other compilers state none; their workspaces are the thread's */
  if (needs == NULL) return 0;
  e->is_single_threaded = needs[1] != 0;
  if (e->is_single_threaded) e->reserve.max_threads = 1;
  return tvmrt__reserve_alloc(&e->reserve, needs[0]);
}

/* Always -1. Waiting instead would deadlock a thread that calls the executor from a callback. */
int tvmrt__fail_taken(const char* callee) {
  return tvmrt__fail(
      "RuntimeError: %s: another call of this executor has not finished; use one executor per "
      "thread (they share the weights), or a lock.",
      callee);
}

/* The executor has a schedule and was taken; on failure it is released. */
int tvmrt__keep_if_idle(tvmrt_executor* e, const char* callee) {
  if (tvmrt__schedule_functions(e->schedule)->check_idle(e->schedule, callee) == 0) return 0;
  tvmrt__end_call(e);
  return -1;
}

/* ---- ports ---- */

/* *out is only set on success. Negative indices do not count from the end, unlike in Python. */
static int port_of_index(const tvmrt_ports* side, const tvmrt_args* in, int64_t index,
                         tvmrt_port** out) {
  if (index < 0 || (uint64_t)index >= side->count) {
    return tvmrt__fail("IndexError: %s: the network has %zu %ss, there is no %s %" PRId64 ".",
                       in->callee, side->count, side->kind, side->kind, index);
  }
  *out = &side->items[index];
  return 0;
}

tvmrt_port* tvmrt__port_named(const tvmrt_ports* side, const char* name) {
  size_t i;
  for (i = 0; i < side->count; ++i) {
    if (strcmp(side->items[i].name, name) == 0) return &side->items[i];
  }
  return NULL;
}

/* Argument 0: an index in the network's order, or a name. *out is NULL, with result 0, for an
 * unknown name, since TVM's functions report it in three different ways. */
static int find_or_none(tvmrt_executor* e, const tvmrt_ports* side, const tvmrt_args* in,
                        tvmrt_port** out) {
  const char* name;
  int64_t index;
  *out = NULL;
  if (in->codes[0] == kTVMArgInt) {
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, 0, &index));
    return port_of_index(side, in, index, out);
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(in, 0, &name));
  *out = tvmrt__port_named(side, name);
  return *out != NULL ? 0 : kind_of(e)->find(e, side, in->callee, name, out);
}

/* Always -1, with an error text. */
static int fail_unknown(const tvmrt_ports* side, const tvmrt_args* in) {
  tvmrt_buf list = {NULL, 0, 0};
  const char* name = "";
  size_t i;
  int rc = tvmrt__arg_str(in, 0, &name);
  /* So that the list is a text even if the network has no ports. */
  if (rc == 0) rc = tvmrt__buf_puts(&list, "");
  /* enough to recognise a typing error; networks have thousands of weights */
  for (i = 0; rc == 0 && i < side->count && list.size < 300; ++i) {
    /* lint: there are as many items as count says */
    rc = tvmrt__buf_printf(&list, "%s%s", i == 0 ? "" : ", ", side->items[i].name);
  }
  if (rc == 0 && i < side->count) rc = tvmrt__buf_puts(&list, " ...");
  if (rc == 0) {
    (void)tvmrt__fail_value("the network has no %s '%.60s'; it has: %.320s.", side->kind, name,
                            list.data);
  }
  tvmrt__buf_free(&list);
  return -1;
}

/* An unknown name is an error, which lists the existing names. */
static int find(tvmrt_executor* e, const tvmrt_ports* side, const tvmrt_args* in,
                tvmrt_port** out) {
  TVMRT_RETURN_IF_ERROR(find_or_none(e, side, in, out));
  return *out != NULL ? 0 : fail_unknown(side, in);
}

/* *out is NULL for unknown names if TVM's executor of this kind reports them without an error. */
static int find_input(tvmrt_executor* e, const tvmrt_args* in, tvmrt_port** out) {
  return kind_of(e)->answers_unknown_inputs ? find_or_none(e, &e->inputs, in, out)
                                            : find(e, &e->inputs, in, out);
}

/* Add a port to both maps under its name, which they copy; they own the values. */
static int add_info(tvmrt_map* shapes, tvmrt_map* dtypes, const tvmrt_port* port) {
  const DLTensor* t = &port->bound->dl;
  /* The maximum extents for dynamic dimensions. */
  const int64_t* shape = port->desc == NULL ? t->shape : port->desc->max;
  char text[TVMRT_DTYPE_TEXT_BYTES];
  tvmrt__dtype_to_text(t->dtype, text);
  TVMRT_RETURN_IF_ERROR(tvmrt__map_set_text(
      shapes, port->name, (tvmrt_object*)tvmrt__shape_new(shape, (size_t)t->ndim)));
  return tvmrt__map_set_text(dtypes, port->name,
                             (tvmrt_object*)tvmrt__string_new(text, strlen(text)));
}

/* {"shape": {name: ShapeTuple}, "dtype": {name: str}} of the ports that `skip` does not mark, with
 * maximum extents for dynamic dimensions. New maps each time, as the caller may keep them. */
static int return_info(const tvmrt_ports* side, const bool* skip, TVMValue* out, int* out_code) {
  /* This function owns the three maps until `info` is returned; a map retains its values. */
  tvmrt_map* info = tvmrt__map_new();
  tvmrt_map* shapes = tvmrt__map_new();
  tvmrt_map* dtypes = tvmrt__map_new();
  size_t i;
  int rc = info == NULL || shapes == NULL || dtypes == NULL ? -1 : 0;
  for (i = 0; rc == 0 && i < side->count; ++i) {
    if (skip == NULL || !skip[i]) rc = add_info(shapes, dtypes, &side->items[i]);
  }
  if (rc == 0) {
    tvmrt__retain(&shapes->base);
    rc = tvmrt__map_set_text(info, "shape", &shapes->base);
  }
  if (rc == 0) {
    tvmrt__retain(&dtypes->base);
    rc = tvmrt__map_set_text(info, "dtype", &dtypes->base);
  }
  tvmrt__release((tvmrt_object*)shapes);
  tvmrt__release((tvmrt_object*)dtypes);
  if (rc == 0) return tvmrt__ret_object(out, out_code, &info->base);
  tvmrt__release((tvmrt_object*)info);
  return rc;
}

int tvmrt__executor_renew_outputs(tvmrt_executor* e) {
  size_t i;
  for (i = 0; i < e->outputs.count; ++i) {
    tvmrt_port* port = &e->outputs.items[i];
    tvmrt_tensor* own;
    if (!port->is_taken || !tvmrt__port_is_held(port)) continue;
    own = tvmrt__port_other_own(port, port->desc == NULL ? port->own->dl.shape : port->desc->max);
    if (own == NULL) return -1;
    tvmrt__port_exchange_own(port, own);
    kind_of(e)->update(e, &e->outputs, port);
  }
  return 0;
}

/* ---- functions ---- */

#define METHOD(fn, name) TVMRT_EXECUTOR_METHOD(tvmrt_executor* e, fn, name)

/* For functions without a result. */
#define UNUSED_RESULT ((void)out, (void)out_code)

/* Copies. A shared parameter or a bound tensor is replaced by the port's own memory, so operators'
 * arguments may have to be updated. */
int tvmrt__executor_set_input(tvmrt_executor* e, const tvmrt_args* in) {
  tvmrt_port* port;
  DLTensor* from;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 2, 2));
  TVMRT_RETURN_IF_ERROR(find(e, &e->inputs, in, &port));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_tensor(in, 1, &from));
  TVMRT_RETURN_IF_ERROR(tvmrt__port_copy_in(port, "input", from));
  kind_of(e)->update(e, &e->inputs, port);
  return 0;
}

METHOD(set_input, "set_input") {
  UNUSED_RESULT;
  return tvmrt__executor_set_input(e, in);
}

/* The tensor must outlive the runs that use it, unless it is an NDArray, which is retained. */
static int bind_port(tvmrt_executor* e, const tvmrt_ports* side, const tvmrt_args* in) {
  const uint64_t align = side == &e->inputs ? e->input_align : TVMRT_FOREIGN_ALIGN_BYTES;
  tvmrt_port* port;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 2, 2));
  TVMRT_RETURN_IF_ERROR(find(e, side, in, &port));
  TVMRT_RETURN_IF_ERROR(tvmrt__port_bind(port, side->kind, in, 1, align));
  kind_of(e)->update(e, side, port);
  return 0;
}

METHOD(set_input_zero_copy, "set_input_zero_copy") {
  UNUSED_RESULT;
  return bind_port(e, &e->inputs, in);
}

/* Results are written directly to the caller's memory. An output that is also an input or another
 * output of a graph is copied after the run. */
METHOD(set_output_zero_copy, "set_output_zero_copy") {
  UNUSED_RESULT;
  return bind_port(e, &e->outputs, in);
}

/* (which) returns the tensor that the next run writes to; (which, tensor) copies the result into
 * the tensor. */
METHOD(get_output, "get_output") {
  tvmrt_port* port;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 1, 2));
  TVMRT_RETURN_IF_ERROR(find(e, &e->outputs, in, &port));
  return tvmrt__port_return(port, in, out, out_code);
}

/* (which) returns the result, which later runs do not change; without a copy, if the executor can
 * use other memory in later runs. */
METHOD(take_output, "take_output") {
  tvmrt_port* port;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 1, 1));
  TVMRT_RETURN_IF_ERROR(find(e, &e->outputs, in, &port));
  return tvmrt__port_take(port, out, out_code);
}

/* (output, input, output, input, ...) by index: each result becomes the value of the input. */
METHOD(feed_back, "feed_back") {
  int i;
  UNUSED_RESULT;
  for (i = 0; i + 1 < in->count; i += 2) {
    int64_t index;
    tvmrt_port* from;
    tvmrt_port* to;
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, i, &index));
    TVMRT_RETURN_IF_ERROR(port_of_index(&e->outputs, in, index, &from));
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, i + 1, &index));
    TVMRT_RETURN_IF_ERROR(port_of_index(&e->inputs, in, index, &to));
    TVMRT_RETURN_IF_ERROR(tvmrt__port_feed_back(from, to));
    kind_of(e)->update(e, &e->inputs, to);
  }
  return 0;
}

/* (which [, tensor]): a parameter that executors share is copied before it is returned, since the
 * caller may write to it. */
METHOD(get_input, "get_input") {
  tvmrt_port* port;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 1, 2));
  TVMRT_RETURN_IF_ERROR(find_input(e, in, &port));
  if (port == NULL) return 0; /* unknown: no value */
  TVMRT_RETURN_IF_ERROR(tvmrt__port_unshare(port));
  kind_of(e)->update(e, &e->inputs, port);
  return tvmrt__port_return(port, in, out, out_code);
}

/* Not a method, like those below: numbers and names are constant. */
TVMRT_NATIVE(get_num_inputs) {
  const tvmrt_executor* e = resource_handle;
  TVMRT_ARGS("get_num_inputs");
  return tvmrt__ret_int(out, out_code, (int64_t)e->inputs.count);
}

TVMRT_NATIVE(get_num_outputs) {
  const tvmrt_executor* e = resource_handle;
  TVMRT_ARGS("get_num_outputs");
  return tvmrt__ret_int(out, out_code, (int64_t)e->outputs.count);
}

/* () -> JSON text of the dynamic dimensions, see dims.h; nothing if there are none. */
TVMRT_NATIVE(get_dims) {
  const tvmrt_executor* e = resource_handle;
  TVMRT_ARGS("get_dims");
  return e->dims == NULL ? 0 : tvmrt__ret_str(out, out_code, e->dims->text);
}

TVMRT_NATIVE(get_input_index) {
  tvmrt_executor* e = resource_handle;
  tvmrt_port* port;
  TVMRT_ARGS("get_input_index");
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 1));
  TVMRT_RETURN_IF_ERROR(find_input(e, &in, &port));
  return tvmrt__ret_int(out, out_code, port == NULL ? -1 : port - e->inputs.items);
}

/* -1 without an error for an unknown name, as in TVM. */
TVMRT_NATIVE(get_output_index) {
  tvmrt_executor* e = resource_handle;
  tvmrt_port* port;
  TVMRT_ARGS("get_output_index");
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 1));
  TVMRT_RETURN_IF_ERROR(find_or_none(e, &e->outputs, &in, &port));
  return tvmrt__ret_int(out, out_code, port == NULL ? -1 : port - e->outputs.items);
}

/* (index) -> the port's name. By index only. */
static int return_name(const tvmrt_ports* side, const tvmrt_args* in, TVMValue* out,
                       int* out_code) {
  tvmrt_port* port;
  int64_t index;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 1, 1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, 0, &index));
  TVMRT_RETURN_IF_ERROR(port_of_index(side, in, index, &port));
  return tvmrt__ret_str(out, out_code, port->name);
}

TVMRT_NATIVE(get_input_name) {
  const tvmrt_executor* e = resource_handle;
  TVMRT_ARGS("get_input_name");
  return return_name(&e->inputs, &in, out, out_code);
}

TVMRT_NATIVE(get_output_name) {
  const tvmrt_executor* e = resource_handle;
  TVMRT_ARGS("get_output_name");
  return return_name(&e->outputs, &in, out, out_code);
}

/* A method, since setting an input may replace the tensor whose type is returned. Parameters are
 * omitted, as callers do not set them. */
METHOD(get_input_info, "get_input_info") {
  (void)in;
  return return_info(&e->inputs, e->is_param, out, out_code);
}

METHOD(get_output_info, "get_output_info") {
  (void)in;
  return return_info(&e->outputs, NULL, out, out_code);
}

TVMRT_NATIVE(run) { /* called often, so it reads no arguments */
  tvmrt_executor* e = resource_handle;
  int rc = tvmrt__begin_idle_call(e, "run");
  (void)args, (void)type_codes, (void)num_args, (void)out, (void)out_code;
  if (rc != 0) return rc;
  rc = kind_of(e)->run(e);
  tvmrt__end_call(e);
  return rc;
}

/* (): the next run starts from the initial state. */
METHOD(reset_state, "reset_state") {
  UNUSED_RESULT;
  (void)in;
  return kind_of(e)->reset_state(e);
}

/* (n): operators, and copies of tensors, use at most n threads, the caller's included; 0: as many
 * as the process may use. Networks that must stay on the caller's thread do. */
METHOD(set_num_threads, "set_num_threads") {
  int64_t count;
  UNUSED_RESULT;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 1, 1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, 0, &count));
  if (count < 0 || count > INT_MAX) {
    return tvmrt__fail_value("set_num_threads: %lld threads; give 1 or more, or 0 for no limit.",
                             (long long)count);
  }
  if (!e->is_single_threaded) e->reserve.max_threads = (int)count;
  return 0;
}

/* (bytes of a params file): names that are not inputs are skipped. */
METHOD(load_params, "load_params") {
  TVMByteArray bytes;
  tvmrt_params params;
  int rc;
  UNUSED_RESULT;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 1, 1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_bytes(in, 0, &bytes));
  TVMRT_RETURN_IF_ERROR(tvmrt__params_load(bytes.data, bytes.size, &params));
  rc = kind_of(e)->set_params(e, &params);
  tvmrt__params_free(&params);
  return rc;
}

static int return_profile(tvmrt_executor* e, bool as_report, TVMValue* out, int* out_code) {
  tvmrt_buf text = {NULL, 0, 0};
  return tvmrt__profile_return(kind_of(e)->profile(e, &text), &text, as_report, out, out_code);
}

/* (...) -> report. Collectors that TVM's callers may pass are ignored. */
METHOD(profile, "profile") {
  (void)in;
  return return_profile(e, true, out, out_code);
}

/* (...) -> JSON text, see profile.h: objects cannot be returned by remote calls. */
METHOD(profile_rpc, "profile_rpc") {
  (void)in;
  return return_profile(e, false, out, out_code);
}

#define METHODS(X)                                \
  X("set_input", set_input)                       \
  X("set_input_zero_copy", set_input_zero_copy)   \
  X("set_output_zero_copy", set_output_zero_copy) \
  X("get_output", get_output)                     \
  X("take_output", take_output)                   \
  X("feed_back", feed_back)                       \
  X("get_input", get_input)                       \
  X("get_num_inputs", get_num_inputs)             \
  X("get_num_outputs", get_num_outputs)           \
  X("get_input_index", get_input_index)           \
  X("get_output_index", get_output_index)         \
  X("get_input_name", get_input_name)             \
  X("get_output_name", get_output_name)           \
  X("get_input_info", get_input_info)             \
  X("get_output_info", get_output_info)           \
  X("get_dims", get_dims)                         \
  X("reset_state", reset_state)                   \
  X("set_num_threads", set_num_threads)           \
  X("run", run)                                   \
  X("load_params", load_params)                   \
  X("profile", profile)                           \
  X("profile_rpc", profile_rpc)
static const tvmrt_builtins common = TVMRT_BUILTINS(METHODS);

/* Callers look up functions by name once and keep them, so tables are searched linearly. */
int tvmrt__executor_find(tvmrt_module* self, const char* name, tvmrt_lookup_result* out) {
  const tvmrt_executor_kind* kind = kind_of((tvmrt_executor*)self);
  const tvmrt_builtins* const* own = kind->own;
  int rc = tvmrt__find_native(&common, name, out);
  for (; rc == 0 && out->fn == NULL && own != NULL && *own != NULL; ++own) {
    rc = tvmrt__find_native(*own, name, out);
  }
  if (rc == 0 && out->fn == NULL && kind->find_method != NULL) rc = kind->find_method(name, out);
  return rc;
}
