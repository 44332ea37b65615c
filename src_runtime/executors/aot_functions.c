/* The AOT executor's functions, as its module offers them. */
#include <stdlib.h>
#include <string.h>

#include "../builtins.h"
#include "aot.h"

/* Names are compared as they are first, then sanitised as the compiler wrote them. */
static int find_by_sanitised(tvmrt_port* ports, size_t count, const char* kind,
                             const tvmrt_args* in, tvmrt_port** port) {
  const char* name;
  char* clean;
  size_t i;
  TVMRT_RETURN_IF_ERROR(tvmrt__port_of_arg(ports, count, kind, in, 0, port));
  if (*port != NULL) return 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(in, 0, &name));
  clean = tvmrt__sanitise_name(name);
  if (clean == NULL) return -1;
  for (i = 0; i < count && *port == NULL; ++i) {
    if (strcmp(ports[i].name, clean) == 0) *port = &ports[i];
  }
  free(clean);
  return 0;
}

static int find_port(tvmrt_port* ports, size_t count, const char* kind, const tvmrt_args* in,
                     tvmrt_port** port) {
  TVMRT_RETURN_IF_ERROR(find_by_sanitised(ports, count, kind, in, port));
  return *port != NULL ? 0 : tvmrt__port_unknown(ports, count, kind, in, 0);
}

/* Outputs go by "output<i>", or by the names that the network's author gave them. */
static int find_output(tvmrt_aot_executor* e, const tvmrt_args* in, tvmrt_port** port) {
  const char* name;
  size_t i;
  TVMRT_RETURN_IF_ERROR(find_by_sanitised(e->outputs, e->num_outputs, "output", in, port));
  if (*port != NULL) return 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(in, 0, &name));
  for (i = 0; e->info != NULL && i < e->num_outputs; ++i) {
    const char* hint = e->info->params[e->num_inputs + i].relay_name_hint;
    if (hint != NULL && strcmp(hint, name) == 0) {
      *port = &e->outputs[i];
      return 0;
    }
  }
  return tvmrt__port_unknown(e->outputs, e->num_outputs, "output", in, 0);
}

TVMRT_NATIVE(set_input) {
  tvmrt_aot_executor* e = resource_handle;
  tvmrt_port* port;
  DLTensor* from;
  TVMRT_ARGS("set_input");
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 2, 2));
  TVMRT_RETURN_IF_ERROR(find_port(e->inputs, e->num_inputs, "input", &in, &port));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_tensor(&in, 1, &from));
  TVMRT_RETURN_IF_ERROR(tvmrt__port_copy_in(port, "input", from));
  e->args[port - e->inputs].v_handle = &port->bound->dl;
  return 0;
}

TVMRT_NATIVE(set_input_zero_copy) {
  tvmrt_aot_executor* e = resource_handle;
  tvmrt_port* port;
  TVMRT_ARGS("set_input_zero_copy");
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 2, 2));
  TVMRT_RETURN_IF_ERROR(find_port(e->inputs, e->num_inputs, "input", &in, &port));
  TVMRT_RETURN_IF_ERROR(tvmrt__port_bind(port, "input", &in, 1));
  e->args[port - e->inputs].v_handle = &port->bound->dl;
  return 0;
}

TVMRT_NATIVE(set_output_zero_copy) {
  tvmrt_aot_executor* e = resource_handle;
  tvmrt_port* port;
  TVMRT_ARGS("set_output_zero_copy");
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 2, 2));
  TVMRT_RETURN_IF_ERROR(find_output(e, &in, &port));
  TVMRT_RETURN_IF_ERROR(tvmrt__port_bind(port, "output", &in, 1));
  e->args[e->num_inputs + (size_t)(port - e->outputs)].v_handle = &port->bound->dl;
  return 0;
}

TVMRT_NATIVE(get_output) {
  tvmrt_aot_executor* e = resource_handle;
  tvmrt_port* port;
  TVMRT_ARGS("get_output");
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 2));
  TVMRT_RETURN_IF_ERROR(find_output(e, &in, &port));
  return tvmrt__port_give(port, &in, out, out_code);
}

TVMRT_NATIVE(get_input) {
  tvmrt_aot_executor* e = resource_handle;
  tvmrt_port* port;
  TVMRT_ARGS("get_input");
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 2));
  TVMRT_RETURN_IF_ERROR(find_port(e->inputs, e->num_inputs, "input", &in, &port));
  TVMRT_RETURN_IF_ERROR(tvmrt__port_unshare(port));
  e->args[port - e->inputs].v_handle = &port->bound->dl;
  return tvmrt__port_give(port, &in, out, out_code);
}

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

TVMRT_NATIVE(get_input_index) {
  tvmrt_aot_executor* e = resource_handle;
  tvmrt_port* port;
  TVMRT_ARGS("get_input_index");
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 1));
  TVMRT_RETURN_IF_ERROR(find_port(e->inputs, e->num_inputs, "input", &in, &port));
  return tvmrt__ret_int(out, out_code, port - e->inputs);
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

TVMRT_NATIVE(get_input_info) {
  const tvmrt_aot_executor* e = resource_handle;
  TVMRT_ARGS("get_input_info");
  return tvmrt__port_info(e->inputs, e->num_inputs, NULL, out, out_code);
}

TVMRT_NATIVE(get_output_info) {
  const tvmrt_aot_executor* e = resource_handle;
  TVMRT_ARGS("get_output_info");
  return tvmrt__port_info(e->outputs, e->num_outputs, NULL, out, out_code);
}

TVMRT_NATIVE(run) {
  TVMRT_ARGS("run");
  return tvmrt__aot_run(resource_handle);
}

/* (bytes of a params file): inputs that have a name in it stand on its tensors. */
TVMRT_NATIVE(load_params) {
  TVMByteArray bytes;
  tvmrt_params params;
  int rc;
  TVMRT_ARGS("load_params");
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_bytes(&in, 0, &bytes));
  TVMRT_RETURN_IF_ERROR(tvmrt__params_load(bytes.data, bytes.size, &params));
  rc = tvmrt__aot_set_params(resource_handle, &params);
  tvmrt__params_free(&params);
  return rc;
}

TVMRT_NATIVE(profile) {
  tvmrt_buf text = {NULL, 0, 0};
  int rc;
  TVMRT_ARGS("profile");
  rc = tvmrt__aot_profile(resource_handle, &text);
  if (rc == 0) rc = tvmrt__ret_str(out, out_code, text.data);
  tvmrt__buf_free(&text);
  return rc;
}

#define METHODS(X) TVMRT_EXECUTOR_METHODS(X) X("profile", profile)
static const tvmrt_builtins own = TVMRT_BUILTINS(METHODS);

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

TVMRT_NATIVE(sanitise) {
  const char* name;
  char* clean;
  int rc;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 0, &name));
  clean = tvmrt__sanitise_name(name);
  rc = clean == NULL ? -1 : tvmrt__ret_str(out, out_code, clean);
  free(clean);
  return rc;
}

#define FUNCTIONS(X)                   \
  X("tvm.aot_executor.create", create) \
  X("runtime.SanitizeName", sanitise)
const tvmrt_builtins tvmrt__aot_builtins = TVMRT_BUILTINS(FUNCTIONS);
