/* Global functions for the contents of modules: source, files, properties. */
#include "../base/stream.h"
#include "../modules/module.h"

/* Read the module argument of a function, borrowed. */
static int read_module(const tvmrt_args* in, int min_args, int max_args, tvmrt_module** out) {
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, min_args, max_args));
  return tvmrt__arg_module(in, 0, out);
}

/* A kind without source returns an empty text. */
static int source_of(const tvmrt_args* in, tvmrt_buf* text) {
  tvmrt_module* mod;
  const char* format = "";
  TVMRT_RETURN_IF_ERROR(read_module(in, 1, 2, &mod));
  if (in->count == 2) TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(in, 1, &format));
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(text, ""));
  return mod->type->source == NULL ? 0 : mod->type->source(mod, format, text);
}

/* (module [, format]) -> text. */
TVMRT_NATIVE(get_source) {
  tvmrt_buf text = {NULL, 0, 0};
  TVMRT_GLOBAL_ARGS;
  return tvmrt__ret_buf(source_of(&in, &text), kTVMStr, &text, out, out_code);
}

/* The file suffix of an exported source; "" if the kind has none. */
TVMRT_NATIVE(get_format) {
  tvmrt_module* mod;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(read_module(&in, 1, 1, &mod));
  return tvmrt__ret_str(out, out_code, mod->type->format == NULL ? "" : mod->type->format(mod));
}

/* (module) -> bits of TVMRT_MODULE_*. */
TVMRT_NATIVE(get_property_mask) {
  tvmrt_module* mod;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(read_module(&in, 1, 1, &mod));
  return tvmrt__ret_int(out, out_code, mod->type->properties);
}

/* The serialised payload, which the loader of the kind reads. */
static int append_payload(tvmrt_module* mod, tvmrt_buf* out) {
  if (mod->type->save != NULL) return mod->type->save(mod, out);
  return tvmrt__fail_value("a module of kind '%s' cannot be saved.", mod->type->key);
}

/* The caller frees the payload, also on failure. */
static int payload_of(const tvmrt_args* in, tvmrt_buf* payload) {
  tvmrt_module* mod;
  TVMRT_RETURN_IF_ERROR(read_module(in, 1, 1, &mod));
  return append_payload(mod, payload);
}

/* (module) -> bytes: what the compiler embeds in a library for a device's module. */
TVMRT_NATIVE(get_payload) {
  tvmrt_buf payload = {NULL, 0, 0};
  TVMRT_GLOBAL_ARGS;
  return tvmrt__ret_buf(payload_of(&in, &payload), kTVMBytes, &payload, out, out_code);
}

/* Writes the kind's source if it has one, else its serialised payload. The file is replaced
 * atomically. */
static int write_module(tvmrt_module* mod, const char* path, const char* format) {
  tvmrt_buf bytes = {NULL, 0, 0};
  int rc;
  if (mod->type->source != NULL) {
    rc = mod->type->source(mod, format, &bytes);
  } else {
    rc = append_payload(mod, &bytes);
  }
  if (rc == 0) rc = tvmrt__write_file(path, bytes.data, bytes.size);
  tvmrt__buf_free(&bytes);
  return rc;
}

/* (module, path [, format]) */
TVMRT_NATIVE(save_to_file) {
  tvmrt_module* mod;
  const char* path;
  const char* format = "";
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(read_module(&in, 2, 3, &mod));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 1, &path));
  if (num_args == 3) TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 2, &format));
  return write_module(mod, path, format);
}

#define FUNCTIONS(X)                                    \
  X("runtime.ModuleGetSource", get_source)              \
  X("runtime.ModuleGetFormat", get_format)              \
  X("runtime.ModuleGetPropertyMask", get_property_mask) \
  X("runtime.ModuleSaveToFile", save_to_file)           \
  X("tvmrt.ModulePayload", get_payload)
const tvmrt_builtins tvmrt__module_contents_builtins = TVMRT_BUILTINS(FUNCTIONS);
