/* The firmware library's graph executor, in caller-provided memory and over the board's
   allocator. */
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/graph_executor_module.h>

#include "firmware_graph.h"

static _Alignas(16) uint8_t arena[ARENA_BYTES + 16];

static TVMGraphExecutor* create(void) {
  TVMGraphExecutor* ex;
  size_t used;
  memset(arena, 0xa5, sizeof(arena));
  assert_int_equal(
      tvmrt_graph_create(json, strlen(json), &wide_module, arena, ARENA_BYTES, &ex, &used), 0);
  assert_int_equal(used, ARENA_BYTES);
  return ex;
}

static void assert_untouched(void) {
  for (int i = 0; i < 16; ++i) assert_int_equal(arena[ARENA_BYTES + i], 0xa5);
}

static void test_graph_runs_in_exactly_the_stated_memory(void** state) {
  static const char* const names[] = {"nobody's", "w\xc3\xa4"};
  static _Alignas(8) uint8_t blob[512];
  TVMGraphExecutor* ex = create();
  float y[6];
  DLTensor in = tensor_of(x);
  DLTensor out = tensor_of(y);
  uint32_t size = write_params(blob + 1, names, 2); /* 195 bytes come before the data */
  (void)state;
  assert_int_equal(TVMGraphExecutor_GetNumInputs(ex), 2);
  assert_int_equal(TVMGraphExecutor_GetNumOutputs(ex), 2);
  assert_int_equal(TVMGraphExecutor_GetInputIndex(ex, "w\xc3\xa4"), 1);
  assert_int_equal(TVMGraphExecutor_GetInputIndex(ex, "w"), -1);
  assert_int_equal(TVMGraphExecutor_Run(ex), kTvmErrorGraphInputNotSet);
  assert_int_equal(TVMGraphExecutor_SetInput(ex, "x", &in), 0);
  assert_int_equal(TVMGraphExecutor_Run(ex), kTvmErrorGraphInputNotSet);
  assert_int_equal(TVMGraphExecutor_LoadParams(ex, (char*)blob + 1, size), 0);
  assert_ptr_equal(tvmrt_graph_input(ex, 1)->data, blob + 1 + size - 24);
  assert_int_equal(TVMGraphExecutor_Run(ex), 0);
  assert_int_equal(TVMGraphExecutor_GetOutput(ex, 1, &out), 0);
  assert_float_equal(y[0], 22, 0);
  assert_float_equal(y[5], 132, 0);
  assert_float_equal(((float*)tvmrt_graph_output(ex, 0)->data)[5], 66, 0);
  assert_null(tvmrt_graph_output(ex, 2));
  assert_null(tvmrt_graph_input(ex, -1));
  assert_int_equal(TVMGraphExecutor_GetOutput(ex, 2, &out), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(TVMGraphExecutor_Release(&ex), 0);
  assert_null(ex);
  assert_untouched();
}

static void test_too_little_memory_returns_a_code_and_size(void** state) {
  TVMGraphExecutor* ex;
  size_t used;
  (void)state;
  for (size_t size = 0; size < ARENA_BYTES; ++size) {
    memset(arena, 0xa5, sizeof(arena));
    assert_int_equal(tvmrt_graph_create(json, strlen(json), &wide_module, arena, size, &ex, &used),
                     kTvmErrorPlatformNoMemory);
    assert_null(ex);
    assert_true(used > size && used <= ARENA_BYTES);
    if (size >= TVMRT_GRAPH_TABLE_BYTES(5, 2, 2, 5, 9, 4)) assert_int_equal(used, ARENA_BYTES);
    for (size_t i = size; i < sizeof(arena); ++i) assert_int_equal(arena[i], 0xa5);
  }
}

static void test_bad_memory_and_modules_get_a_code(void** state) {
  static const TVMModule empty = {NULL};
  TVMGraphExecutor* ex;
  size_t n = strlen(json);
  (void)state;
  assert_int_equal(tvmrt_graph_create(json, n, &wide_module, NULL, 4096, &ex, NULL),
                   kTvmErrorGraphArenaNull);
  assert_int_equal(tvmrt_graph_create(json, n, &wide_module, arena + 8, 4096, &ex, NULL),
                   kTvmErrorGraphArenaMisaligned);
  assert_int_equal(tvmrt_graph_create(json, n, NULL, arena, ARENA_BYTES, &ex, NULL),
                   kTvmErrorExecutorModuleBadContext);
  assert_int_equal(tvmrt_graph_create(json, n, &empty, arena, ARENA_BYTES, &ex, NULL),
                   kTvmErrorExecutorModuleBadContext);
  assert_int_equal(tvmrt_graph_create(NULL, 0, &wide_module, arena, ARENA_BYTES, &ex, NULL),
                   kTvmErrorGraphJsonDamaged);
}

static void test_bad_tensors_get_a_code(void** state) {
  int64_t five[] = {5};
  int64_t strides[] = {2};
  int64_t compact[] = {1};
  TVMGraphExecutor* ex = create();
  DLTensor t = tensor_of(x);
  (void)state;
  assert_int_equal(TVMGraphExecutor_SetInput(ex, "z", &t), kTvmErrorExecutorModuleNoSuchInput);
  assert_int_equal(TVMGraphExecutor_SetInput(ex, "x", NULL), kTvmErrorFunctionCallInvalidArg);
  t.byte_offset = 2;
  assert_int_equal(TVMGraphExecutor_SetInput(ex, "x", &t), kTvmErrorGraphTensorMisaligned);
  t.byte_offset = 0;
  t.strides = strides;
  assert_int_equal(TVMGraphExecutor_SetInput(ex, "x", &t), kTvmErrorGraphTensorMismatch);
  t.strides = compact;
  assert_int_equal(TVMGraphExecutor_SetInput(ex, "x", &t), 0);
  t.strides = NULL;
  t.dtype.code = kDLInt;
  assert_int_equal(TVMGraphExecutor_SetInput(ex, "x", &t), kTvmErrorGraphTensorMismatch);
  t.dtype.code = kDLFloat;
  t.shape = five;
  assert_int_equal(TVMGraphExecutor_SetInput(ex, "x", &t), kTvmErrorGraphTensorMismatch);
  assert_int_equal(TVMGraphExecutor_GetOutput(ex, 0, &t), kTvmErrorGraphTensorMismatch);
  t.data = NULL;
  assert_int_equal(TVMGraphExecutor_SetInput(ex, "x", &t), kTvmErrorFunctionCallInvalidArg);
}

#define BAD(name, second, ids, shape, rows, code) \
  { name, JSON(second, ids, shape, rows), code }
#define GOOD_IDS "[0, 1, 2, 3, 3]"
#define GOOD_ROWS "[0, 1, 2, 3, 4, 5]"

static const struct {
  const char* name;
  const char* json;
  int code;
} bad_graphs[] = {
    BAD("later node", "[2, 0, 0]", GOOD_IDS, "[2, 3]", GOOD_ROWS, kTvmErrorGraphInconsistent),
    BAD("no such output", "[1, 1, 0]", GOOD_IDS, "[2, 3]", GOOD_ROWS, kTvmErrorGraphInconsistent),
    BAD("one number", "[1]", GOOD_IDS, "[2, 3]", GOOD_ROWS, kTvmErrorGraphInconsistent),
    BAD("negative", "[-1, 0]", GOOD_IDS, "[2, 3]", GOOD_ROWS, kTvmErrorGraphJsonDamaged),
    BAD("reshape to an input's storage", "[1, 0]", "[0, 1, 2, 3, 1]", "[2, 4]", GOOD_ROWS,
        kTvmErrorGraphInconsistent),
    BAD("reshape between storages", "[1, 0]", "[0, 1, 2, 3, 4]", "[2, 3]", GOOD_ROWS,
        kTvmErrorGraphInconsistent),
    BAD("large id", "[1, 0]", "[0, 1, 2, 99999, 3]", "[2, 3]", GOOD_ROWS,
        kTvmErrorGraphInconsistent),
    BAD("few ids", "[1, 0]", "[0, 1, 2, 3]", "[2, 3]", GOOD_ROWS, kTvmErrorGraphInconsistent),
    BAD("huge shape", "[1, 0]", GOOD_IDS, "[2000000000, 2000000000, 4]", GOOD_ROWS,
        kTvmErrorGraphInconsistent),
    BAD("falling rows", "[1, 0]", GOOD_IDS, "[2, 3]", "[0, 2, 1, 3, 4, 5]",
        kTvmErrorGraphInconsistent),
    BAD("few rows", "[1, 0]", GOOD_IDS, "[2, 3]", "[0, 1, 2, 3, 5]", kTvmErrorGraphInconsistent),
    {"unknown function",
     "{\"nodes\": [{\"op\": \"tvm_op\", \"name\": \"n\", \"inputs\": [], \"attrs\": "
     "{\"func_name\": \"absent\"}}], \"arg_nodes\": [], \"heads\": [[0, 0]], \"attrs\": "
     "{\"dltype\": [\"\", [\"int8\"]], \"storage_id\": [\"\", [0]], \"shape\": [\"\", [[]]]}, "
     "\"node_row_ptr\": [0, 1]}",
     kTvmErrorFunctionNameNotFound},
    {"flat operators",
     "{\"nodes\": [{\"op\": \"tvm_op\", \"name\": \"n\", \"inputs\": [], \"attrs\": "
     "{\"func_name\": \"add\", \"flatten_data\": \"1\"}}], \"arg_nodes\": [], \"heads\": [[0, 0]], "
     "\"attrs\": {\"dltype\": [\"\", [\"int8\"]], \"storage_id\": [\"\", [0]], \"shape\": "
     "[\"\", [[]]]}, \"node_row_ptr\": [0, 1]}",
     kTvmErrorFunctionCallNotImplemented},
    {"no nodes", "{\"arg_nodes\": []}", kTvmErrorGraphJsonDamaged},
    {"deep", "{\"nodes\": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", kTvmErrorGraphJsonDamaged},
};

/* The sum shares the storage of the second input, which may be flash. */
static void test_inputs_are_not_written(void** state) {
  static const char graph[] = JSON("[1, 0, 0]", "[0, 1, 1, 3, 3]", "[2, 3]", "[0, 1, 2, 3, 4, 5]");
  static float w[6] = {1, 1, 1, 1, 1, 1};
  TVMGraphExecutor* ex;
  DLTensor first = tensor_of(x);
  DLTensor second = tensor_of(w);
  (void)state;
  assert_int_equal(
      tvmrt_graph_create(graph, strlen(graph), &wide_module, arena, ARENA_BYTES, &ex, NULL), 0);
  assert_int_equal(TVMGraphExecutor_SetInput(ex, "x", &first), 0);
  assert_int_equal(TVMGraphExecutor_SetInput(ex, "w\xc3\xa4", &second), 0);
  assert_int_equal(TVMGraphExecutor_Run(ex), 0);
  assert_float_equal(w[5], 1, 0);
  assert_float_equal(((float*)tvmrt_graph_output(ex, 1)->data)[5], 14, 0);
}

static void test_names_may_have_every_letter(void** state) {
  static const char* const kNames[][2] = {
      {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
      {"\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80"},
      {"\"\\u20AC\"", "\xe2\x82\xac"},
  };
  const char* at = strstr(json, "\"x\"");
  (void)state;
  assert_non_null(at);
  for (size_t i = 0; i < sizeof(kNames) / sizeof(kNames[0]); ++i) {
    static _Alignas(16) uint8_t memory[4096];
    char text[4096];
    TVMGraphExecutor* ex;
    (void)snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - json), json, kNames[i][0], at + 3);
    assert_int_equal(
        tvmrt_graph_create(text, strlen(text), &wide_module, memory, sizeof(memory), &ex, NULL), 0);
    assert_int_equal(TVMGraphExecutor_GetInputIndex(ex, kNames[i][1]), 0);
    assert_int_equal(TVMGraphExecutor_GetInputIndex(ex, "x"), -1);
  }
}

/* The graph with one part of its text replaced; the executor is NULL if it is refused. */
static int create_with(const char* from, const char* to, TVMGraphExecutor** out) {
  static _Alignas(16) uint8_t memory[4096];
  static char text[4096]; /* names stay in it */
  const char* at = strstr(json, from);
  assert_non_null(at);
  (void)snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - json), json, to, at + strlen(from));
  return tvmrt_graph_create(text, strlen(text), &wide_module, memory, sizeof(memory), out, NULL);
}

static void test_unknown_node_keys_are_ignored(void** state) {
  static const char* const kParts[][2] = {
      {"\"num_inputs\": \"2\"", "\"num_outputs\": \"1\""},
      {"\"name\": \"sum\"", "\"name\": \"sum\", \"control_deps\": [0, {\"a\": [1]}]"},
  };
  static float ones[6] = {1, 1, 1, 1, 1, 1};
  DLTensor in = tensor_of(x);
  DLTensor w = tensor_of(ones);
  (void)state;
  for (size_t i = 0; i < sizeof(kParts) / sizeof(kParts[0]); ++i) {
    TVMGraphExecutor* ex;
    assert_int_equal(create_with(kParts[i][0], kParts[i][1], &ex), 0);
    assert_int_equal(TVMGraphExecutor_SetInput(ex, "x", &in), 0);
    assert_int_equal(TVMGraphExecutor_SetInput(ex, "w\xc3\xa4", &w), 0);
    assert_int_equal(TVMGraphExecutor_Run(ex), 0);
    assert_float_equal(((float*)tvmrt_graph_output(ex, 1)->data)[5], 14, 0);
  }
}

static void test_nodes_that_contradict_the_graph_get_a_code(void** state) {
  static const char* const kParts[][2] = {
      {"\"num_inputs\": \"2\"", "\"num_outputs\": \"2\""},
      {"\"arg_nodes\": [0, 1]", "\"arg_nodes\": [0]"},
      {"\"arg_nodes\": [0, 1]", "\"arg_nodes\": [0, 0]"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof(kParts) / sizeof(kParts[0]); ++i) {
    TVMGraphExecutor* ex;
    assert_int_equal(create_with(kParts[i][0], kParts[i][1], &ex), kTvmErrorGraphInconsistent);
    assert_null(ex);
  }
}

static void test_incomplete_escape_is_refused(void** state) {
  TVMGraphExecutor* ex;
  (void)state;
  assert_int_equal(create_with("\"x\"", "\"\\u00g0\"", &ex), 0);
  assert_int_equal(TVMGraphExecutor_GetInputIndex(ex, "\\u00g0"), -1);
  assert_int_equal(TVMGraphExecutor_GetInputIndex(ex, ""), -1);
  assert_int_equal(TVMGraphExecutor_GetInputIndex(ex, "w\xc3\xa4"), 1);
}

static void test_bad_graphs_get_a_code(void** state) {
  TVMGraphExecutor* ex;
  (void)state;
  for (size_t i = 0; i < sizeof(bad_graphs) / sizeof(bad_graphs[0]); ++i) {
    static _Alignas(16) uint8_t memory[4096];
    int rc = tvmrt_graph_create(bad_graphs[i].json, strlen(bad_graphs[i].json), &wide_module,
                                memory, sizeof(memory), &ex, NULL);
    if (rc != bad_graphs[i].code) fail_msg("%s: 0x%04x", bad_graphs[i].name, (unsigned)rc);
    assert_null(ex);
  }
}

/* A list of `count` items, where item i is printed as i * factor. */
static void add_list(char** at, const char* item, int count, int factor) {
  for (int i = 0; i < count; ++i) {
    *at += sprintf(*at, "%s", i == 0 ? "[" : ", ");
    *at += sprintf(*at, item, i * factor);
  }
  *at += sprintf(*at, "]");
}

/* Row pointers that overflow 16 bits, so that the last one equals the number of entries again. */
static void test_row_pointers_do_not_overflow(void** state) {
  enum { NUM_ENTRIES = 256, NUM_NODES = 257 };
  static _Alignas(16) uint8_t memory[1 << 16];
  static char text[1 << 16];
  char* at = text;
  TVMGraphExecutor* ex;
  (void)state;
  at += sprintf(at, "{\"arg_nodes\": [], \"heads\": [[0, 0]], \"nodes\": ");
  add_list(&at,
           "{\"op\": \"tvm_op\", \"name\": \"n%d\", \"inputs\": [], "
           "\"attrs\": {\"func_name\": \"absent\"}}",
           NUM_NODES, 1);
  at += sprintf(at, ", \"node_row_ptr\": ");
  add_list(&at, "%d", NUM_NODES + 1, NUM_ENTRIES);
  at += sprintf(at, ", \"attrs\": {\"dltype\": [\"list_str\", ");
  add_list(&at, "\"int8\"%.0d", NUM_ENTRIES, 0);
  at += sprintf(at, "], \"storage_id\": [\"list_int\", ");
  add_list(&at, "%d", NUM_ENTRIES, 0);
  at += sprintf(at, "], \"shape\": [\"list_shape\", ");
  add_list(&at, "[%d]", NUM_ENTRIES, 1);
  (void)sprintf(at, "]}}");
  assert_int_equal(
      tvmrt_graph_create(text, strlen(text), &wide_module, memory, sizeof(memory), &ex, NULL),
      kTvmErrorGraphInconsistent);
  assert_null(ex);
}

/* A copy of exactly these bytes, so that tools see a read beyond them. */
static char* copy_of(const void* data, size_t size) {
  char* copy = malloc(size == 0 ? 1 : size);
  assert_non_null(copy);
  memcpy(copy, data, size);
  return copy;
}

static void test_truncated_graphs_are_refused(void** state) {
  (void)state;
  for (size_t size = 0; size < strlen(json); ++size) {
    TVMGraphExecutor* ex;
    char* part = copy_of(json, size);
    assert_int_equal(tvmrt_graph_create(part, size, &wide_module, arena, ARENA_BYTES, &ex, NULL),
                     kTvmErrorGraphJsonDamaged);
    free(part);
  }
}

static void test_damaged_params_get_a_code(void** state) {
  static const char* const names[] = {"w\xc3\xa4"};
  uint8_t blob[256];
  uint32_t size = write_params(blob, names, 1);
  (void)state;
  for (uint32_t part = 0; part < size; ++part) {
    TVMGraphExecutor* ex = create();
    char* copy = copy_of(blob, part);
    assert_int_equal(TVMGraphExecutor_LoadParams(ex, copy, part), kTvmErrorGraphParamsDamaged);
    free(copy);
  }
  TVMGraphExecutor* ex = create();
  assert_int_equal(TVMGraphExecutor_LoadParams(ex, NULL, 10), kTvmErrorGraphParamsDamaged);
  blob[size - 24 - 32 + 5] = 16; /* float16 */
  assert_int_equal(TVMGraphExecutor_LoadParams(ex, (char*)blob, size),
                   kTvmErrorGraphTensorMismatch);
}

static void test_misaligned_params_are_copied(void** state) {
  static const char* const names[] = {"w\xc3\xa4"};
  static _Alignas(16) uint8_t memory[ARENA_BYTES + TVMRT_GRAPH_ROUND_UP(24)];
  static _Alignas(8) uint8_t blob[256];
  uint32_t size = write_params(blob, names, 1); /* 99 bytes come before the data */
  TVMGraphExecutor* ex = create();
  DLTensor in = tensor_of(x);
  (void)state;
  assert_int_equal(TVMGraphExecutor_LoadParams(ex, (char*)blob, size), kTvmErrorPlatformNoMemory);
  assert_int_equal(
      tvmrt_graph_create(json, strlen(json), &narrow_module, memory, sizeof(memory), &ex, NULL), 0);
  assert_int_equal(TVMGraphExecutor_LoadParams(ex, (char*)blob, size), 0);
  memset(blob, 0, sizeof(blob));
  assert_int_equal(TVMGraphExecutor_SetInput(ex, "x", &in), 0);
  assert_int_equal(TVMGraphExecutor_Run(ex), 0);
  assert_float_equal(((float*)tvmrt_graph_output(ex, 1)->data)[5], 132, 0);
}

/* ---- the same over the board's allocator, and as a module ---- */

static void test_executor_in_board_memory(void** state) {
  static const char* const names[] = {"w\xc3\xa4"};
  static _Alignas(8) uint8_t blob[256];
  static uint8_t memory[ARENA_BYTES + 300];
  static const DLDevice gpu = {kDLCUDA, 0};
  uint32_t size = write_params(blob, names, 1);
  DLTensor in = tensor_of(x);
  TVMGraphExecutor* ex;
  void* all;
  (void)state;
  for (size_t room = 0; room < sizeof(memory); room += 16) {
    tvmrt_workspace_init(memory, room);
    int rc = TVMGraphExecutor_Create(json, (void*)(uintptr_t)&wide_module, NULL, &ex);
    if (rc == 0) rc = TVMGraphExecutor_LoadParams(ex, (char*)blob, size);
    if (rc != 0) assert_int_equal(rc, kTvmErrorPlatformNoMemory);
    if (rc == 0) rc = TVMGraphExecutor_SetInput(ex, "x", &in);
    if (rc == 0) assert_int_equal(TVMGraphExecutor_Run(ex), 0);
    assert_int_equal(TVMGraphExecutor_Release(&ex), 0);
    if (room < 32) continue;
    /* everything was freed */
    all = TVMBackendAllocWorkspace(kDLCPU, 0, room - 16, 0, 8);
    assert_non_null(all);
    if (rc == 0 && room + 16 >= sizeof(memory)) *state = all;
  }
  assert_non_null(*state); /* the last one was enough */
  assert_int_equal(TVMGraphExecutor_Create(json, (void*)(uintptr_t)&wide_module, &gpu, &ex),
                   kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(TVMGraphExecutor_Create(NULL, (void*)(uintptr_t)&wide_module, NULL, &ex),
                   kTvmErrorGraphJsonDamaged);
}

static void test_executor_as_a_module(void** state) {
  static const char* const names[] = {"w\xc3\xa4"};
  static _Alignas(8) uint8_t blob[256];
  static _Alignas(16) uint8_t memory[4096];
  TVMByteArray bytes = {(char*)blob, write_params(blob, names, 1)};
  float y[6];
  DLTensor in = tensor_of(x);
  DLTensor out = tensor_of(y);
  TVMValue args[4];
  int codes[4] = {kTVMStr, kTVMModuleHandle, kTVMArgInt, kTVMArgInt};
  TVMValue ret;
  int code;
  TVMFunctionHandle f;
  TVMModuleHandle mod;
  (void)state;
  tvmrt_workspace_init(memory, sizeof(memory));
  assert_int_equal(TVMInitializeRuntime(), 0);
  assert_int_equal(TVMGraphExecutorModule_Register(), 0);
  assert_int_equal(TVMGraphExecutorModule_Register(), kTvmErrorFunctionAlreadyDefined);
  assert_int_equal(TVMFuncGetGlobal("tvm.graph_executor.create", &f), 0);
  args[0].v_str = json;
  args[1].v_handle = (void*)(uintptr_t)&wide_module;
  args[2].v_int64 = kDLCUDA;
  args[3].v_int64 = 0;
  assert_int_equal(TVMFuncCall(f, args, codes, 4, &ret, &code), kTvmErrorExecutorModuleBadContext);
  args[2].v_int64 = kDLCPU;
  codes[3] = kTVMStr;
  assert_int_equal(TVMFuncCall(f, args, codes, 4, &ret, &code), kTvmErrorFunctionCallWrongArgType);
  codes[3] = kTVMArgInt;
  assert_int_equal(TVMFuncCall(f, args, codes, 4, &ret, &code), 0);
  mod = ret.v_handle;
  assert_int_equal(call_of(mod, "get_num_outputs", NULL, NULL, 0, &ret), 0);
  assert_int_equal(ret.v_int64, 2);
  assert_int_equal(call_of(mod, "get_input", args, codes, 0, &ret),
                   kTvmErrorFunctionCallNumArguments);
  assert_int_equal(call_of(mod, "get_input", &args[3], &codes[3], 1, &ret), 0);
  assert_int_equal(((DLTensor*)ret.v_handle)->ndim, 2);
  assert_int_equal(TVMFuncCall(f, args, codes, 4, &ret, &code),
                   kTvmErrorExecutorModuleAlreadyCreated);
  assert_int_equal(call_of(mod, "get_num_inputs", NULL, NULL, 0, &ret), 0);
  assert_int_equal(ret.v_int64, 2);
  args[0].v_handle = &bytes;
  codes[0] = kTVMBytes;
  assert_int_equal(call_of(mod, "load_params", args, codes, 0, &ret),
                   kTvmErrorFunctionCallNumArguments);
  assert_int_equal(call_of(mod, "load_params", args, codes, 1, &ret), 0);
  args[0].v_str = "x";
  codes[0] = kTVMStr;
  args[1].v_handle = &in;
  codes[1] = kTVMDLTensorHandle;
  assert_int_equal(call_of(mod, "set_input", args, codes, 2, &ret), 0);
  assert_int_equal(call_of(mod, "get_input_index", args, codes, 1, &ret), 0);
  assert_int_equal(ret.v_int64, 0);
  assert_int_equal(call_of(mod, "run", NULL, NULL, 0, &ret), 0);
  args[0].v_int64 = 1;
  codes[0] = kTVMArgInt;
  args[1].v_handle = &out;
  assert_int_equal(call_of(mod, "get_output", args, codes, 2, &ret), 0);
  assert_float_equal(y[5], 132, 0);
  assert_int_equal(call_of(mod, "get_output", args, codes, 1, &ret), 0);
  assert_float_equal(((float*)((DLTensor*)ret.v_handle)->data)[0], 22, 0);
  args[0].v_int64 = 7;
  assert_int_equal(call_of(mod, "get_output", args, codes, 1, &ret),
                   kTvmErrorExecutorModuleNoSuchInput);
  assert_int_equal(call_of(mod, "set_input", args, codes, 2, &ret),
                   kTvmErrorExecutorModuleNoSuchInput);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_graph_runs_in_exactly_the_stated_memory),
      cmocka_unit_test(test_too_little_memory_returns_a_code_and_size),
      cmocka_unit_test(test_bad_memory_and_modules_get_a_code),
      cmocka_unit_test(test_bad_tensors_get_a_code),
      cmocka_unit_test(test_inputs_are_not_written),
      cmocka_unit_test(test_names_may_have_every_letter),
      cmocka_unit_test(test_unknown_node_keys_are_ignored),
      cmocka_unit_test(test_nodes_that_contradict_the_graph_get_a_code),
      cmocka_unit_test(test_incomplete_escape_is_refused),
      cmocka_unit_test(test_bad_graphs_get_a_code),
      cmocka_unit_test(test_row_pointers_do_not_overflow),
      cmocka_unit_test(test_truncated_graphs_are_refused),
      cmocka_unit_test(test_damaged_params_get_a_code),
      cmocka_unit_test(test_misaligned_params_are_copied),
      cmocka_unit_test(test_executor_in_board_memory),
      cmocka_unit_test(test_executor_as_a_module),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
