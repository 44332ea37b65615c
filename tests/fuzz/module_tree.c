/* The tree of modules in a library's `__tvm_dev_mblob`: loading, looking up, packing, loading again. */
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

/* Some trees cannot be saved, for example a module that both imports the library and is imported. */
static void check_round_trip(tvmrt_module* root) {
  tvmrt_buf packed = {NULL, 0, 0};
  if (fuzz_succeeded(tvmrt__mblob_pack(root, &packed))) {
    blob b = {packed.data, packed.size};
    tvmrt_module* again = NULL;
    FUZZ_REQUIRE(load(&b, &again) == 0);
    look_up(again);
    tvmrt__module_release(again);
  }
  tvmrt__buf_free(&packed);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  blob b = {data, size};
  tvmrt_module* root = NULL;
  if (size < 8 || !fuzz_succeeded(load(&b, &root))) return 0; /* size 0 would mean unknown */
  look_up(root);
  check_round_trip(root);
  tvmrt__module_release(root);
  return 0;
}
