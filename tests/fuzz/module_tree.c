/* The tree of modules in a library's `__tvm_dev_mblob`: loading and looking up functions. */
#include "fuzz.h"
#include "modules/module.h"

/* The symbol `__tvm_dev_mblob` of a library that has no other. */
typedef struct blob {
  const void* data;
  size_t size;
} blob;

static void* find_symbol(void* ctx, const char* name, size_t* out_size) {
  const blob* b = ctx;
  if (strcmp(name, "__tvm_dev_mblob") != 0) return NULL;
  *out_size = b->size;
  return (void*)(uintptr_t)b->data;
}

static bool is_function(void* ctx, void* symbol) {
  (void)ctx;
  (void)symbol;
  return false;
}

static int load(blob* b, tvmrt_module** out) {
  const tvmrt_library_source source = {.symbol = find_symbol, .is_function = is_function, .ctx = b};
  return tvmrt__library_load(&source, out);
}

static void look_up(tvmrt_module* mod) {
  static const char* const names[] = {"default", "get_metadata", "get_graph_json", "ext_0", ""};
  size_t i;
  for (i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
    TVMFunctionHandle f = NULL;
    if (!fuzz_succeeded(TVMModGetFunction(mod, names[i], 1, &f))) continue;
    FUZZ_REQUIRE(TVMFuncFree(f) == 0);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  blob b = {data, size};
  tvmrt_module* root = NULL;
  if (size < 8 || !fuzz_succeeded(load(&b, &root))) return 0; /* size 0 would mean unknown */
  look_up(root);
  tvmrt__module_release(root);
  return 0;
}
