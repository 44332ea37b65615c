/* Global functions for modules of any kind.
 *
 * Used by front ends; the names are TVM's. Arguments are borrowed for the call, results are new
 * references. */
#include "../base/stream.h"
#include "module.h"

/* Read the module argument of a function, borrowed. */
static int read_module(const tvmrt_args* in, int min_args, int max_args, tvmrt_module** out) {
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, min_args, max_args));
  return tvmrt__arg_module(in, 0, out);
}

/* (module) -> the name of its kind. */
TVMRT_NATIVE(get_type_key) {
  tvmrt_module* mod;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(read_module(&in, 1, 1, &mod));
  return tvmrt__ret_str(out, out_code, mod->type->key);
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

/* (module) -> number. */
TVMRT_NATIVE(imports_size) {
  tvmrt_module* mod;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(read_module(&in, 1, 1, &mod));
  return tvmrt__ret_int(out, out_code, (int64_t)mod->num_imports);
}

/* (module, number) -> the import. */
TVMRT_NATIVE(get_import) {
  tvmrt_module* mod;
  int64_t index;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(read_module(&in, 2, 2, &mod));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 1, &index));
  if (index < 0 || (uint64_t)index >= mod->num_imports) {
    return tvmrt__fail("IndexError: %s: module '%s' has %zu import%s, there is no import %lld.",
                       in.callee, mod->type->key, mod->num_imports,
                       mod->num_imports == 1 ? "" : "s", (long long)index);
  }
  tvmrt__retain(&mod->imports[index]->base);
  return tvmrt__ret_object(out, out_code, &mod->imports[index]->base);
}

/* To release imports at a certain time: the module is then as if created without imports. */
TVMRT_NATIVE(clear_imports) {
  tvmrt_module* mod;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(read_module(&in, 1, 1, &mod));
  tvmrt__module_clear_imports(mod);
  return 0;
}

/* Reads (module, name, query_imports). */
static int look_up(const tvmrt_args* in, tvmrt_func** f) {
  tvmrt_module* mod;
  const char* name;
  int64_t query_imports = 0;
  TVMRT_RETURN_IF_ERROR(read_module(in, 2, 3, &mod));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(in, 1, &name));
  if (in->count == 3) TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, 2, &query_imports));
  return tvmrt__module_get(mod, name, query_imports != 0, f);
}

/* (module, name [, query imports]) -> function, or nothing if there is none. */
TVMRT_NATIVE(get_function) {
  tvmrt_func* f;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(look_up(&in, &f));
  return f == NULL ? 0 : tvmrt__ret_object(out, out_code, &f->base);
}

/* As get_function(), but returns 1 or 0 and releases the function. */
TVMRT_NATIVE(implements_function) {
  tvmrt_func* f;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(look_up(&in, &f));
  if (f != NULL) tvmrt__release(&f->base);
  return tvmrt__ret_int(out, out_code, f != NULL);
}

/* (module) -> bits of TVMRT_MODULE_*. */
TVMRT_NATIVE(get_property_mask) {
  tvmrt_module* mod;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(read_module(&in, 1, 1, &mod));
  return tvmrt__ret_int(out, out_code, mod->type->properties);
}

/* (module) -> 1 or 0: for front ends that do not know the mask. */
TVMRT_NATIVE(is_dso_exportable) {
  tvmrt_module* mod;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(read_module(&in, 1, 1, &mod));
  return tvmrt__ret_int(out, out_code, (mod->type->properties & TVMRT_MODULE_EXPORTABLE) != 0);
}

/* Writes the kind's source if it has one, else its serialised payload. The file is replaced
 * atomically. */
static int write_module(tvmrt_module* mod, const char* path, const char* format) {
  tvmrt_buf bytes = {NULL, 0, 0};
  int rc;
  if (mod->type->source != NULL) {
    rc = mod->type->source(mod, format, &bytes);
  } else if (mod->type->save != NULL) {
    rc = mod->type->save(mod, &bytes);
  } else {
    rc = tvmrt__fail_value("a module of kind '%s' cannot be saved to a file.", mod->type->key);
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

#define FUNCTIONS(X)                                         \
  X("runtime.ModuleGetTypeKey", get_type_key)                \
  X("runtime.ModuleGetSource", get_source)                   \
  X("runtime.ModuleGetFormat", get_format)                   \
  X("runtime.ModuleImportsSize", imports_size)               \
  X("runtime.ModuleGetImport", get_import)                   \
  X("runtime.ModuleClearImports", clear_imports)             \
  X("runtime.ModuleGetFunction", get_function)               \
  X("tvm.rpc.server.ModuleGetFunction", get_function)        \
  X("runtime.ModuleImplementsFunction", implements_function) \
  X("runtime.ModuleGetPropertyMask", get_property_mask)      \
  X("runtime.ModuleIsDSOExportable", is_dso_exportable)      \
  X("runtime.ModuleSaveToFile", save_to_file)
const tvmrt_builtins tvmrt__module_builtins = TVMRT_BUILTINS(FUNCTIONS);
