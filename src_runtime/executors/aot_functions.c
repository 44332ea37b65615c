/* The AOT executor's functions, as its module offers them.
 *
 * Each is called with the executor as its resource, whose module the caller holds. Functions that
 * change the executor or read what a run changes take it for the time of the call, by call_alone(),
 * and fail where another thread has it; those that look at what never changes do not. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "aot.h"
#include "profile.h"

/* A function of the executor's module, called alone. */
typedef int (*aot_method)(tvmrt_aot_executor* e, const tvmrt_args* in, TVMValue* out,
                          int* out_code);

/* `who` of the arguments names the call in the error of a thread that comes meanwhile. The
 * executor is let go on failure, too. */
static int call_alone(aot_method method, tvmrt_aot_executor* e, const tvmrt_args* in, TVMValue* out,
                      int* out_code) {
  int rc;
  TVMRT_RETURN_IF_ERROR(tvmrt__begin_call(&e->is_taken, in->who));
  rc = method(e, in, out, out_code);
  tvmrt__end_call(&e->is_taken);
  return rc;
}

/* The head of such a function. */
#define AOT_METHOD(fn, name)                                                                     \
  static int fn##_of(tvmrt_aot_executor* e, const tvmrt_args* in, TVMValue* out, int* out_code); \
  TVMRT_NATIVE(fn) {                                                                             \
    TVMRT_ARGS(name);                                                                            \
    return call_alone(fn##_of, resource_handle, &in, out, out_code);                             \
  }                                                                                              \
  static int fn##_of(tvmrt_aot_executor* e, const tvmrt_args* in, TVMValue* out, int* out_code)

/* For functions that return nothing. */
#define UNUSED_RESULT ((void)out, (void)out_code)

/* A number, a name of a port, or one as C spells it. *port NULL, and 0, where the name is nobody's;
 * a number out of range is an error. */
static int find_input_or_none(tvmrt_aot_executor* e, const tvmrt_args* in, tvmrt_port** port) {
  const char* name;
  TVMRT_RETURN_IF_ERROR(tvmrt__port_of_arg(e->inputs, e->num_inputs, "input", in, 0, port));
  if (*port != NULL) return 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(in, 0, &name));
  return tvmrt__aot_input_named(e, name, port);
}

/* As above, but a name that is nobody's is an error, which lists the names that there are. */
static int find_input(tvmrt_aot_executor* e, const tvmrt_args* in, tvmrt_port** port) {
  TVMRT_RETURN_IF_ERROR(find_input_or_none(e, in, port));
  return *port != NULL ? 0 : tvmrt__port_unknown(e->inputs, e->num_inputs, "input", in, 0);
}

/* As inputs: by number, by name, or by the name as C spells it. */
static int find_output_or_none(tvmrt_aot_executor* e, const tvmrt_args* in, tvmrt_port** port) {
  const char* name;
  TVMRT_RETURN_IF_ERROR(tvmrt__port_of_arg(e->outputs, e->num_outputs, "output", in, 0, port));
  if (*port != NULL) return 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(in, 0, &name));
  return tvmrt__aot_output_named(e, name, port);
}

/* As for inputs: an unknown name is an error that lists the others. */
static int find_output(tvmrt_aot_executor* e, const tvmrt_args* in, tvmrt_port** port) {
  TVMRT_RETURN_IF_ERROR(find_output_or_none(e, in, port));
  return *port != NULL ? 0 : tvmrt__port_unknown(e->outputs, e->num_outputs, "output", in, 0);
}

/* Copies. A shared parameter or a bound tensor gives way to memory of the port's own, so main's
 * argument may have to move. */
AOT_METHOD(set_input, "set_input") {
  tvmrt_port* port;
  DLTensor* from;
  UNUSED_RESULT;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 2, 2));
  TVMRT_RETURN_IF_ERROR(find_input(e, in, &port));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_tensor(in, 1, &from));
  TVMRT_RETURN_IF_ERROR(tvmrt__port_copy_in(port, "input", from));
  e->args[port - e->inputs].v_handle = &port->bound->dl;
  return 0;
}

/* The tensor must outlive the runs; what it has to be for that the port checks. */
AOT_METHOD(set_input_zero_copy, "set_input_zero_copy") {
  tvmrt_port* port;
  UNUSED_RESULT;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 2, 2));
  TVMRT_RETURN_IF_ERROR(find_input(e, in, &port));
  TVMRT_RETURN_IF_ERROR(tvmrt__port_bind(port, "input", in, 1));
  e->args[port - e->inputs].v_handle = &port->bound->dl;
  return 0;
}

/* The caller's memory takes the results directly; like an input's it must outlive the runs. */
AOT_METHOD(set_output_zero_copy, "set_output_zero_copy") {
  tvmrt_port* port;
  UNUSED_RESULT;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 2, 2));
  TVMRT_RETURN_IF_ERROR(find_output(e, in, &port));
  TVMRT_RETURN_IF_ERROR(tvmrt__port_bind(port, "output", in, 1));
  /* outputs stand behind the inputs in main's arguments */
  e->args[e->num_inputs + (size_t)(port - e->outputs)].v_handle = &port->bound->dl;
  return 0;
}

/* (which) gives the tensor that the next run writes to; (which, tensor) copies the result into
 * the tensor. */
AOT_METHOD(get_output, "get_output") {
  tvmrt_port* port;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 1, 2));
  TVMRT_RETURN_IF_ERROR(find_output(e, in, &port));
  return tvmrt__port_give(port, in, out, out_code);
}

/* (which [, tensor]): a parameter that executors share is copied before it is given out, since
 * who has it may write to it. */
AOT_METHOD(get_input, "get_input") {
  tvmrt_port* port;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 1, 2));
  TVMRT_RETURN_IF_ERROR(find_input(e, in, &port));
  TVMRT_RETURN_IF_ERROR(tvmrt__port_unshare(port)); /* users may write to what they get */
  e->args[port - e->inputs].v_handle = &port->bound->dl;
  return tvmrt__port_give(port, in, out, out_code);
}

/* Not called alone, like the three below: numbers and names stay what they were when it was
 * made. */
TVMRT_NATIVE(get_num_inputs) {
  const tvmrt_aot_executor* e = resource_handle;
  TVMRT_ARGS("get_num_inputs");
  return tvmrt__ret_int(out, out_code, (int64_t)e->num_inputs);
}

TVMRT_NATIVE(get_num_outputs) {
  const tvmrt_aot_executor* e = resource_handle;
  TVMRT_ARGS("get_num_outputs");
  return tvmrt__ret_int(out, out_code, (int64_t)e->num_outputs);
}

/* () -> JSON text of what runs choose, see dims.h; nothing where every extent is fixed. */
TVMRT_NATIVE(get_dims) {
  const tvmrt_aot_executor* e = resource_handle;
  TVMRT_ARGS("get_dims");
  return e->dims == NULL ? 0 : tvmrt__ret_str(out, out_code, e->dims->text);
}

/* An unknown name is an error here, with the names that there are. */
TVMRT_NATIVE(get_input_index) {
  tvmrt_aot_executor* e = resource_handle;
  tvmrt_port* port;
  TVMRT_ARGS("get_input_index");
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 1));
  TVMRT_RETURN_IF_ERROR(find_input(e, &in, &port));
  return tvmrt__ret_int(out, out_code, port - e->inputs);
}

/* -1 and no error for a name that is none, as TVM has it. */
TVMRT_NATIVE(get_output_index) {
  tvmrt_aot_executor* e = resource_handle;
  tvmrt_port* port;
  TVMRT_ARGS("get_output_index");
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 1));
  TVMRT_RETURN_IF_ERROR(find_output_or_none(e, &in, &port));
  return tvmrt__ret_int(out, out_code, port == NULL ? -1 : port - e->outputs);
}

TVMRT_NATIVE(get_input_name) {
  tvmrt_aot_executor* e = resource_handle;
  TVMRT_ARGS("get_input_name");
  return tvmrt__port_give_name(e->inputs, e->num_inputs, "input", &in, out, out_code);
}

TVMRT_NATIVE(get_output_name) {
  tvmrt_aot_executor* e = resource_handle;
  TVMRT_ARGS("get_output_name");
  return tvmrt__port_give_name(e->outputs, e->num_outputs, "output", &in, out, out_code);
}

/* Called alone, since setting an input may replace the tensor whose type is told. */
AOT_METHOD(get_input_info, "get_input_info") {
  (void)in;
  return tvmrt__port_info(e->inputs, e->num_inputs, NULL, out, out_code);
}

AOT_METHOD(get_output_info, "get_output_info") {
  (void)in;
  return tvmrt__port_info(e->outputs, e->num_outputs, NULL, out, out_code);
}

TVMRT_NATIVE(run) { /* the one that is called often: without a call in between */
  tvmrt_aot_executor* e = resource_handle;
  int rc = tvmrt__begin_call(&e->is_taken, "run");
  (void)args, (void)type_codes, (void)num_args, (void)out, (void)out_code;
  if (rc != 0) return rc;
  rc = tvmrt__aot_run(e);
  tvmrt__end_call(&e->is_taken);
  return rc;
}

/* (): the next run begins as the first one did. */
AOT_METHOD(reset_state, "reset_state") {
  UNUSED_RESULT;
  (void)in;
  return tvmrt__aot_reset_state(e);
}

/* (bytes of a params file): inputs that have a name in it stand on its tensors. */
AOT_METHOD(load_params, "load_params") {
  TVMByteArray bytes;
  tvmrt_params params;
  int rc;
  UNUSED_RESULT;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 1, 1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_bytes(in, 0, &bytes));
  TVMRT_RETURN_IF_ERROR(tvmrt__params_load(bytes.data, bytes.size, &params));
  rc = tvmrt__aot_set_params(e, &params);
  tvmrt__params_free(&params);
  return rc;
}

/* (...) -> report. Collectors that TVM's callers may pass are not used. */
AOT_METHOD(profile, "profile") {
  tvmrt_buf text = {NULL, 0, 0};
  (void)in;
  return tvmrt__profile_return(tvmrt__aot_profile(e, &text), &text, true, out, out_code);
}

/* (...) -> JSON text, see profile.h: an object would not come through a remote call. */
AOT_METHOD(profile_rpc, "profile_rpc") {
  tvmrt_buf text = {NULL, 0, 0};
  (void)in;
  return tvmrt__profile_return(tvmrt__aot_profile(e, &text), &text, false, out, out_code);
}

#define METHODS(X) TVMRT_EXECUTOR_METHODS(X) X("profile", profile) X("profile_rpc", profile_rpc)
static const tvmrt_builtins own = TVMRT_BUILTINS(METHODS);

/* Functions are found by name once and kept by callers: the table is searched from the front. */
int tvmrt__aot_find(tvmrt_module* self, const char* name, tvmrt_found* out) {
  (void)self;
  return tvmrt__find_native(&own, name, out);
}

/* (module, Device, name) */
TVMRT_NATIVE(create) {
  tvmrt_module* library;
  tvmrt_module* mod;
  DLDevice dev;
  const char* name;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 3, 3));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_module(&in, 0, &library));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_device(&in, 1, &dev));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 2, &name));
  TVMRT_RETURN_IF_ERROR(tvmrt__aot_executor_new(library, name, dev, NULL, &mod));
  return tvmrt__ret_object(out, out_code, &mod->base);
}

/* (name) -> the name with '_' for all that is no letter or digit, as TVM's compiler spells it in C.
 * Callers look for names of functions by it before they load anything, so it is the same for
 * both. */
TVMRT_NATIVE(sanitise) {
  const char* name;
  char* clean;
  char* p;
  int rc;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 0, &name));
  clean = tvmrt__strdup(name);
  for (p = clean; p != NULL && *p != '\0'; ++p) {
    if (!isalnum((unsigned char)*p)) *p = '_';
  }
  rc = clean == NULL ? -1 : tvmrt__ret_str(out, out_code, clean);
  free(clean);
  return rc;
}

#define FUNCTIONS(X)                   \
  X("tvm.aot_executor.create", create) \
  X("runtime.SanitizeName", sanitise)
const tvmrt_builtins tvmrt__aot_builtins = TVMRT_BUILTINS(FUNCTIONS);
