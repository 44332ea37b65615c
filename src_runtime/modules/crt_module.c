/* Modules for the function tables of firmware images.
 *
 * For programs that link code generated for firmware with this library: its tables become ordinary
 * modules. The table is static data of the program, so nothing is copied or freed; several modules
 * may use one table. */
#include <tvm/runtime/crt/module.h>

#include "module.h"

/* Small, since the program owns all data. */
typedef struct crt_module {
  tvmrt_module base;
  const TVMModule* table; /* static */
} crt_module;

/* The table's functions receive the table as their resource, as in a firmware runtime. */
static int crt_find(tvmrt_module* self, const char* name, tvmrt_lookup_result* out) {
  const TVMFuncRegistry* registry = ((crt_module*)self)->table->registry;
  tvm_function_index_t index;
  if (TVMFuncRegistry_Lookup(registry, name, &index) != kTvmErrorNoError) return 0;
  if (TVMFuncRegistry_GetByIndex(registry, index, &out->fn) != kTvmErrorNoError) return 0;
  out->kind = TVMRT_FUNC_LIBRARY;
  out->resource = (void*)(uintptr_t)registry;
  return 0;
}

static const tvmrt_module_type crt_type = {
    .key = "c_module",
    .properties = TVMRT_MODULE_RUNNABLE,
    .find = crt_find,
};

/* The caller owns the handle. The table must outlive the module. */
int TVMModCreateFromCModule(const TVMModule* mod, TVMModuleHandle* out_handle) {
  crt_module* m;
  *out_handle = NULL;
  if (mod == NULL || mod->registry == NULL) {
    return tvmrt__fail("TVMModCreateFromCModule: the module or its table is NULL.");
  }
  m = tvmrt__module_new(&crt_type, sizeof(*m));
  if (m == NULL) return -1;
  m->table = mod;
  *out_handle = m;
  return 0;
}
