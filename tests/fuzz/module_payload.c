/* Payloads of the module kinds that the runtime reads itself; what is read is saved and read again. */
#include "fuzz.h"
#include "modules/module.h"

static const char* const kinds[] = {
    "GraphExecutorFactory",
    "AotExecutorFactory",
    "const_loader",
};

/* Ask for what these kinds offer, in a tree where nothing else answers. */
static void look_up(tvmrt_module* mod) {
  static const char* const names[] = {"default", "get_graph_json", "get_const_var_ndarray", "ext_0",
                                      ""};
  size_t i;
  for (i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
    TVMFunctionHandle f = NULL;
    if (!fuzz_succeeded(TVMModGetFunction(mod, names[i], 1, &f))) continue;
    FUZZ_REQUIRE(TVMFuncFree(f) == 0);
  }
}

/* Tensors of vector types are read but not written, neither are modules of constants. */
static void check_round_trip(const char* kind, tvmrt_module* mod) {
  tvmrt_buf first = {NULL, 0, 0};
  tvmrt_buf second = {NULL, 0, 0};
  tvmrt_module* again = NULL;
  tvmrt_reader in;
  if (mod->type->save == NULL) return;
  if (fuzz_succeeded(mod->type->save(mod, &first))) {
    tvmrt__reader_init(&in, "the saved module", first.data, first.size);
    FUZZ_REQUIRE(tvmrt__read_kind(&in, kind, &again) == 0);
    FUZZ_REQUIRE(tvmrt__reader_left(&in) == 0);
    FUZZ_REQUIRE(again->type->save(again, &second) == 0);
    FUZZ_REQUIRE(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
    tvmrt__module_release(again);
  }
  tvmrt__buf_free(&first);
  tvmrt__buf_free(&second);
}

/* The first byte chooses the kind. */
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tvmrt_module* mod = NULL;
  tvmrt_reader in;
  const char* kind;
  if (size == 0) return 0;
  kind = kinds[data[0] % (sizeof(kinds) / sizeof(kinds[0]))];
  tvmrt__reader_init(&in, "the payload", data + 1, size - 1);
  if (!fuzz_succeeded(tvmrt__read_kind(&in, kind, &mod))) return 0;
  look_up(mod);
  check_round_trip(kind, mod);
  tvmrt__module_release(mod);
  return 0;
}
