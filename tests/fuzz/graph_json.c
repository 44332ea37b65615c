/* Graph JSON: accepted graphs make an executor whose operators stay within their tensors. */
#include "executors/graph.h"
#include "fuzz.h"

enum { MAX_STORAGE_BYTES = 1 << 20 };

/* An operator that writes every byte of its tensors; the sanitizer knows where they end. */
TVMRT_NATIVE(touch_all) {
  int i;
  (void)resource_handle;
  (void)out;
  for (i = 0; i < num_args; ++i) {
    const DLTensor* t = args[i].v_handle;
    uint64_t bytes;
    FUZZ_REQUIRE(type_codes[i] == kTVMDLTensorHandle);
    FUZZ_REQUIRE(tvmrt__tensor_bytes(t, &bytes) == 0);
    FUZZ_REQUIRE(t->data != NULL && tvmrt__is_compact(t));
    memset(tvmrt__tensor_data(t), 1, (size_t)bytes);
  }
  *out_code = kTVMNullptr;
  return 0;
}

/* A library that has every operator. */
static int find_any(tvmrt_module* self, const char* name, tvmrt_lookup_result* out) {
  (void)self;
  if (name[0] == '_') return 0; /* the optional functions of old libraries */
  out->fn = touch_all;
  out->kind = TVMRT_FUNC_LIBRARY;
  return 0;
}

static const tvmrt_module_type any_type = {.key = "any", .find = find_any};

static uint64_t storage_bytes(const tvmrt_graph* g) {
  uint64_t sum = 0;
  size_t i;
  for (i = 0; i < g->num_entries && sum <= MAX_STORAGE_BYTES; ++i) {
    sum += g->entries[i].bytes > MAX_STORAGE_BYTES ? MAX_STORAGE_BYTES + 1 : g->entries[i].bytes;
  }
  return sum;
}

/* Every index of the parsed graph is valid. */
static void check_graph(const tvmrt_graph* g) {
  size_t i;
  for (i = 0; i < g->num_nodes; ++i) {
    const tvmrt_graph_node* n = &g->nodes[i];
    FUZZ_REQUIRE(n->name != NULL);
    FUZZ_REQUIRE(n->num_inputs == 0 || n->first_input + n->num_inputs <= g->num_inputs);
    FUZZ_REQUIRE(n->first_entry + n->num_outputs <= g->num_entries);
  }
  for (i = 0; i < g->num_inputs; ++i) FUZZ_REQUIRE(g->inputs[i] < g->num_entries);
  for (i = 0; i < g->num_heads; ++i) FUZZ_REQUIRE(g->heads[i] < g->num_entries);
  for (i = 0; i < g->num_arg_nodes; ++i) FUZZ_REQUIRE(g->arg_nodes[i] < g->num_nodes);
  for (i = 0; i < g->num_entries; ++i) {
    const tvmrt_graph_entry* e = &g->entries[i];
    FUZZ_REQUIRE(e->first_dim + (size_t)e->ndim <= g->num_dims);
    FUZZ_REQUIRE(e->storage_id < g->num_storages);
    FUZZ_REQUIRE(tvmrt__graph_node_of(g, i) < g->num_nodes);
  }
}

static void call_with_index(tvmrt_module* mod, const char* name, size_t index) {
  TVMFunctionHandle f = NULL;
  TVMValue arg;
  TVMValue ret;
  int code = kTVMArgInt;
  int ret_code = kTVMNullptr;
  arg.v_int64 = (int64_t)index;
  FUZZ_REQUIRE(TVMModGetFunction(mod, name, 0, &f) == 0 && f != NULL);
  if (fuzz_succeeded(TVMFuncCall(f, &arg, &code, 1, &ret, &ret_code))) {
    tvmrt__release(tvmrt__value_object(&ret, ret_code));
  }
  FUZZ_REQUIRE(TVMFuncFree(f) == 0);
}

static void use(tvmrt_module* mod, const tvmrt_graph* g) {
  size_t i;
  (void)fuzz_succeeded(tvmrt__graph_run((tvmrt_graph_executor*)mod));
  for (i = 0; i < g->num_heads; ++i) call_with_index(mod, "get_output", i);
  for (i = 0; i < g->num_arg_nodes; ++i) call_with_index(mod, "get_input", i);
  for (i = 0; i < g->num_nodes; ++i) call_with_index(mod, "get_node_output", i);
}

/* A parameter "w" of float32 [2, 3], as in the seeds. */
static void make_params(tvmrt_params* params) {
  static const int64_t shape[] = {2, 3};
  tvmrt_tensor* w =
      tvmrt__tensor_alloc(shape, 2, (DLDataType){kDLFloat, 32, 1}, (DLDevice){kDLCPU, 0});
  FUZZ_REQUIRE(w != NULL);
  memset(w->dl.data, 0, 24);
  memset(params, 0, sizeof(*params));
  FUZZ_REQUIRE(tvmrt__params_add(params, "w", w) == 0);
  tvmrt__tensor_release(w);
}

static void check_executor(const char* json, size_t size, const tvmrt_graph* g) {
  static const DLDevice devices[] = {{kDLCPU, 0}};
  tvmrt_module* library = tvmrt__module_new(&any_type, sizeof(*library));
  tvmrt_module* mod = NULL;
  tvmrt_params params;
  FUZZ_REQUIRE(library != NULL);
  make_params(&params);
  if (fuzz_succeeded(
          tvmrt__graph_executor_new(json, size, library, devices, 1, &params, NULL, &mod))) {
    use(mod, g);
    tvmrt__module_release(mod);
  }
  tvmrt__params_free(&params);
  tvmrt__module_release(library);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const char* json = (const char*)data;
  tvmrt_graph g;
  if (!fuzz_succeeded(tvmrt__graph_parse(json, size, &g))) return 0;
  check_graph(&g);
  if (storage_bytes(&g) <= MAX_STORAGE_BYTES) check_executor(json, size, &g);
  tvmrt__graph_free(&g);
  return 0;
}
