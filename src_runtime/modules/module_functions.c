/* Global functions for modules of any kind.
 *
 * Used by front ends; the names are TVM's. Arguments are borrowed for the call, results are new
 * references. */
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

#define FUNCTIONS(X)                                  \
  X("runtime.ModuleGetTypeKey", get_type_key)         \
  X("runtime.ModuleImportsSize", imports_size)        \
  X("runtime.ModuleGetImport", get_import)            \
  X("runtime.ModuleClearImports", clear_imports)      \
  X("runtime.ModuleGetFunction", get_function)        \
  X("tvm.rpc.server.ModuleGetFunction", get_function) \
  X("runtime.ModuleImplementsFunction", implements_function)
const tvmrt_builtins tvmrt__module_builtins = TVMRT_BUILTINS(FUNCTIONS);
