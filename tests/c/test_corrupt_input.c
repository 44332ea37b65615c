/* Damaged bytes: every reader reports an error or a valid result, never a crash or a huge
   allocation. */
#include <dlfcn.h>

#include "support.h"

/* A small valid graph over no operators: the input is the output. */
static const char graph_json[] =
    "{\"nodes\": [{\"op\": \"null\", \"name\": \"x\", \"inputs\": []},"
    " {\"op\": \"tvm_op\", \"name\": \"n\", \"inputs\": [[0, 0, 0]], \"attrs\": {\"func_name\":"
    " \"__nop\", \"num_inputs\": \"1\", \"num_outputs\": \"1\", \"flatten_data\": \"0\"}}],"
    " \"arg_nodes\": [0], \"heads\": [[1, 0, 0]], \"attrs\": {\"dltype\": [\"list_str\","
    " [\"float32\", \"float32\"]], \"storage_id\": [\"list_int\", [0, 0]], \"shape\":"
    " [\"list_shape\", [[2], [2]]]}, \"node_row_ptr\": [0, 1, 2]}";

static int create(TVMModuleHandle library, const char* json) {
  call c = {0};
  int rc;
  arg_str(&c, json);
  arg_handle(&c, kTVMModuleHandle, library);
  arg_int(&c, kDLCPU);
  arg_int(&c, 0);
  rc = call_global(&c, "tvm.graph_executor.create");
  if (rc == 0) {
    call run = {0};
    assert_ok(call_module(&run, c.ret.v_handle, "run"));
    TVMModFree(c.ret.v_handle);
  }
  return rc;
}

static TVMModuleHandle library;

static void test_valid_graph_is_accepted(void** state) {
  (void)state;
  assert_ok(create(library, graph_json));
}

static void test_truncated_graph_is_refused(void** state) {
  char* copy = strdup(graph_json);
  (void)state;
  for (size_t size = strlen(graph_json) - 1; size > 0; --size) {
    copy[size] = '\0';
    assert_fails(create(library, copy), "graph JSON is damaged");
  }
  free(copy);
}

static void test_changed_graph_does_not_crash(void** state) {
  static const char replacements[] = {'9', '-', '"', ']', '}', '[', ',', '\\', ' ', '\x80'};
  char* copy = strdup(graph_json);
  (void)state;
  for (size_t at = 0; at < strlen(graph_json); ++at) {
    for (size_t r = 0; r < sizeof(replacements); ++r) {
      copy[at] = replacements[r];
      (void)create(library, copy);
    }
    copy[at] = graph_json[at];
  }
  free(copy);
}

typedef struct replacement {
  const char* from;
  const char* to;
  const char* error;
} replacement;

static void test_inconsistent_graphs_are_named(void** state) {
  static const replacement cases[] = {
      {"[0, 0, 0]], \"attrs\"", "[5, 0, 0]], \"attrs\"", "does not exist or comes later"},
      {"[0, 0, 0]], \"attrs\"", "[1, 0, 0]], \"attrs\"", "does not exist or comes later"},
      {"[0, 0, 0]], \"attrs\"", "[0, 3, 0]], \"attrs\"", "does not exist or comes later"},
      {"\"arg_nodes\": [0]", "\"arg_nodes\": [1]", "arg_nodes"},
      {"[0, 1, 2]", "[0, 1, 0]", "node_row_ptr"},
      {"[0, 1, 2]", "[0, 1, 99999999999]", "node_row_ptr"},
      {"[0, 1, 2]", "[0, 1]", "node_row_ptr"},
      {"[0, 0]]", "[0, -7]]", "storage_id"},
      {"[0, 0]]", "[0, 4000000000]]", "storage_id"},
      {"[[2], [2]]", "[[2], [-2]]", "negative"},
      {"[[2], [2]]", "[[2], [4611686018427387904, 4]]", "more memory"},
      {"[[2], [2]]", "[[2], [99999999999999999999]]", "too large"},
      {"[[2], [2]]", "[[2], [3]]", "reshapes"},
      {"[[2], [2]]", "[[2]]", "one item for each entry"},
      {"\"float32\", \"float32\"", "\"float32\", \"flot32\"", "not a data type"},
      {"\"__nop\"", "\"absent\"", "Cannot find function 'absent'"},
      {"\"tvm_op\"", "\"relay\"", "unknown op 'relay'"},
      {"list_shape", "list_int", "instead of a 'list_shape'"},
      {"\"heads\"", "\"tails\"", "unknown key 'tails'"},
      {"\"num_inputs\": \"1\"", "\"num_inputs\": \"2\"", "has 1 input and says it has 2"},
      {"\"num_outputs\": \"1\"", "\"num_outputs\": \"x\"", "'x' is not a number"},
      {"\"inputs\": []}", "\"inputs\": [[0, 0, 0]]}", "does not exist or comes later"},
      {"\"arg_nodes\"", "\"nodes\": [], \"arg_nodes\"", "nodes is given twice"},
      {"\"tvm_op\"", "\"tvm_op", "damaged"},
      {"\"x\"", "\"\\ud800\\u0000\"", "graph JSON"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    char text[2048];
    const char* at = strstr(graph_json, cases[i].from);
    assert_non_null(at);
    (void)snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - graph_json), graph_json, cases[i].to,
                   at + strlen(cases[i].from));
    if (strcmp(cases[i].error, "graph JSON") == 0) {
      (void)create(library, text);
    } else {
      assert_fails(create(library, text), cases[i].error);
    }
  }
}

/* An input and one operator over bytes, in the order: operator, view, arg_nodes, shape of the result. */
static const char bytes_json[] =
    "{\"nodes\": [{\"op\": \"null\", \"name\": \"x\", \"inputs\": []},"
    " {\"op\": \"tvm_op\", \"name\": \"n\", \"inputs\": [[0, 0, 0]], \"attrs\": {\"func_name\":"
    " \"%s\", \"num_inputs\": \"1\", \"num_outputs\": \"1\", \"flatten_data\": \"0\", \"view\":"
    " \"%s\"}}], \"arg_nodes\": [%s], \"heads\": [[1, 0, 0]], \"attrs\": {\"dltype\": "
    "[\"list_str\","
    " [\"uint8\", \"uint8\"]], \"storage_id\": [\"list_int\", [0, 1]], \"shape\":"
    " [\"list_shape\", [[8], %s]]}, \"node_row_ptr\": [0, 1, 2]}";

static void test_copy_of_another_size_is_refused(void** state) {
  char json[1024];
  (void)state;
  (void)snprintf(json, sizeof(json), bytes_json, "__copy", "", "0", "[8]");
  assert_ok(create(library, json));
  (void)snprintf(json, sizeof(json), bytes_json, "__copy", "", "0", "[4096]");
  assert_fails(create(library, json), "copies 8 bytes to 4096");
}

/* Results of get_node_output for a view: offset, type, bits, extents, strides, over 8 bytes. */
static int get_view(const char* view, call* get) {
  char json[1024];
  call c = {0};
  int rc;
  (void)snprintf(json, sizeof(json), bytes_json, "__nop", view, "0", "[8]");
  arg_str(&c, json);
  arg_handle(&c, kTVMModuleHandle, library);
  arg_int(&c, kDLCPU);
  arg_int(&c, 0);
  assert_ok(call_global(&c, "tvm.graph_executor.create"));
  arg_int(get, 1);
  rc = call_module(get, c.ret.v_handle, "get_node_output");
  TVMModFree(c.ret.v_handle);
  return rc;
}

static void test_views_outside_of_their_storage_are_refused(void** state) {
  static const char* const outside[] = {
      "[0, 2, 32, 0, -5, 1, 1]",
      "[9, 1, 8, 1, 1]",
      "[-1, 1, 8, 1, 1]",
      "[0, 1, 8, 9, 1]",
      "[0, 1, 8, 2, 9]",
      "[0, 1, 8, 2, -1]",
      "[0, 2, 32, 3, 1]",
      "[0, 1, 8, 3, 9223372036854775807]",
      "[0, 1, 8, 9223372036854775807, 3]",
      "[4, 2, 32, 2, 1]",
  };
  static const char* const damaged[] = {"[0, 2]", "[0, 2, 32, 1]", "[0, 300, 8]", "[0, 1, 0]"};
  (void)state;
  for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); ++i) {
    call get = {0};
    assert_fails(get_view(outside[i], &get), "exceeds its storage");
  }
  for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); ++i) {
    call get = {0};
    assert_fails(get_view(damaged[i], &get), "not offset, type, bits");
  }
}

static void test_views_within_their_storage_are_read(void** state) {
  static const struct {
    const char* view;
    int64_t elements;
  } kCases[] = {
      {"[0, 1, 8, 8, 1]", 8},        {"[7, 1, 8, 8, -1]", 8}, {"[0, 2, 32, 2, 1]", 2},
      {"[3, 1, 8, 5, 0]", 5},        {"[0, 1, 8, 0, 5]", 0},  {"[8, 1, 8, 0, 1]", 0},
      {"[0, 1, 16, 2, 2, 2, 1]", 4}, {"[4, 2, 32]", 1},
  };
  (void)state;
  for (size_t i = 0; i < sizeof(kCases) / sizeof(kCases[0]); ++i) {
    call get = {0};
    const DLTensor* t;
    int64_t elements = 1;
    assert_ok(get_view(kCases[i].view, &get));
    t = get.ret.v_handle;
    for (int32_t d = 0; d < t->ndim; ++d) elements *= t->shape[d];
    assert_int_equal(elements, kCases[i].elements);
    TVMArrayFree(get.ret.v_handle);
  }
}

static void test_missing_nodes_are_reported(void** state) {
  static const struct {
    const char* function;
    const char* node; /* NULL: number 9 */
    int64_t output;
    const char* text;
  } kCases[] = {
      {"get_node_output", NULL, 0, "there is no node 9"},
      {"get_node_output", "none", 0, "has no node 'none'"},
      {"get_node_output", "n", 4, "has 1 output, there is no output 4"},
      {"execute_node", "none", -1, "has no node 'none'"},
  };
  call c = {0}, of_input = {0};
  (void)state;
  arg_str(&c, graph_json);
  arg_handle(&c, kTVMModuleHandle, library);
  arg_int(&c, kDLCPU);
  arg_int(&c, 0);
  assert_ok(call_global(&c, "tvm.graph_executor.create"));
  for (size_t i = 0; i < sizeof(kCases) / sizeof(kCases[0]); ++i) {
    call get = {0};
    if (kCases[i].node == NULL) arg_int(&get, 9);
    if (kCases[i].node != NULL) arg_str(&get, kCases[i].node);
    if (kCases[i].output >= 0) arg_int(&get, kCases[i].output);
    assert_fails(call_module(&get, c.ret.v_handle, kCases[i].function), kCases[i].text);
  }
  arg_str(&of_input, "x"); /* inputs do nothing */
  assert_ok(call_module(&of_input, c.ret.v_handle, "execute_node"));
  TVMModFree(c.ret.v_handle);
}

/* A parameter whose node is not an argument is not set, so its node needs memory of the graph. */
static void test_unused_parameter_has_memory(void** state) {
  static const int64_t shape[] = {8};
  DLTensor* x = NULL;
  char json[1024];
  call factory = {0};
  call executor = {0};
  call run = {0};
  (void)state;
  (void)snprintf(json, sizeof(json), bytes_json, "__copy", "", "", "[8]");
  assert_ok(TVMArrayAlloc(shape, 1, kDLUInt, 8, 1, kDLCPU, 0, &x));
  arg_str(&factory, json);
  arg_handle(&factory, kTVMModuleHandle, library);
  arg_str(&factory, "default");
  arg_str(&factory, "x");
  arg_handle(&factory, kTVMNDArrayHandle, x);
  assert_ok(call_global(&factory, "tvm.graph_executor_factory.create"));
  arg_cpu(&executor);
  assert_ok(call_module(&executor, factory.ret.v_handle, "default"));
  assert_ok(call_module(&run, executor.ret.v_handle, "run"));
  TVMModFree(executor.ret.v_handle);
  TVMModFree(factory.ret.v_handle);
  TVMArrayFree(x);
}

static void test_deep_json_needs_no_stack(void** state) {
  enum { DEPTH = 1000000 };
  char* text = malloc(DEPTH + 64);
  size_t used = (size_t)snprintf(text, 64, "{\"metadata\": ");
  (void)state;
  memset(text + used, '[', DEPTH);
  text[used + DEPTH] = '\0';
  assert_fails(create(library, text), "damaged");
  free(text);
}

/*
 * Module trees. A system library takes its blob from a registered address, without a symbol size, so
 * that each damaged copy is loaded under a prefix of its own; the length in front stays within the
 * copy.
 */
static int restore(const unsigned char* blob) {
  static int count;
  char prefix[32];
  char name[64];
  call c = {0};
  int rc;
  (void)snprintf(prefix, sizeof(prefix), "damage%d_", count++);
  (void)snprintf(name, sizeof(name), "%s__tvm_dev_mblob", prefix);
  assert_ok(TVMBackendRegisterSystemLibSymbol(name, (void*)(uintptr_t)blob));
  arg_str(&c, prefix);
  rc = call_global(&c, "runtime.SystemLib");
  if (rc == 0) TVMModFree(c.ret.v_handle);
  assert_ok(TVMBackendRegisterSystemLibSymbol(name, NULL));
  return rc;
}

/* A copy of the tree of a fixture library. */
static unsigned char* whole_blob(const char* variable, size_t* size) {
  void* file = dlopen(fixture(variable), RTLD_LAZY | RTLD_LOCAL);
  const void* written = dlsym(file, "__tvm_dev_mblob");
  unsigned char* copy;
  uint64_t length;
  assert_non_null(written);
  memcpy(&length, written, sizeof(length));
  *size = (size_t)length + 8;
  copy = malloc(*size);
  memcpy(copy, written, *size);
  assert_int_equal(dlclose(file), 0);
  return copy;
}

static void test_truncated_tree_is_refused(void** state) {
  size_t size;
  unsigned char* blob = whole_blob(*state, &size);
  assert_ok(restore(blob));
  for (size_t length = size - 9; length > 0; length -= length > 64 ? 3 : 1) {
    unsigned char* copy = malloc(length + 8);
    uint64_t stated = length;
    memcpy(copy, blob, length + 8);
    memcpy(copy, &stated, sizeof(stated));
    assert_fails(restore(copy), "damaged");
    free(copy);
  }
  free(blob);
}

static void test_changed_tree_does_not_crash(void** state) {
  static const unsigned char replacements[] = {0, 1, 0x7f, 0xff};
  size_t size;
  unsigned char* blob = whole_blob(*state, &size);
  for (size_t at = 8; at < size; ++at) {
    for (size_t r = 0; r < sizeof(replacements); ++r) {
      unsigned char old = blob[at];
      blob[at] = replacements[r];
      (void)restore(blob);
      blob[at] = old;
    }
  }
  free(blob);
}

static int open_library(void** state) {
  (void)state;
  library = load("FIXTURE_PLAIN");
  return 0;
}

static int close_library(void** state) {
  (void)state;
  return TVMModFree(library);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_valid_graph_is_accepted),
      cmocka_unit_test(test_truncated_graph_is_refused),
      cmocka_unit_test(test_changed_graph_does_not_crash),
      cmocka_unit_test(test_inconsistent_graphs_are_named),
      cmocka_unit_test(test_copy_of_another_size_is_refused),
      cmocka_unit_test(test_views_outside_of_their_storage_are_refused),
      cmocka_unit_test(test_views_within_their_storage_are_read),
      cmocka_unit_test(test_missing_nodes_are_reported),
      cmocka_unit_test(test_unused_parameter_has_memory),
      cmocka_unit_test(test_deep_json_needs_no_stack),
      cmocka_unit_test_prestate(test_truncated_tree_is_refused, (char[]){"FIXTURE_GRAPH"}),
      cmocka_unit_test_prestate(test_truncated_tree_is_refused, (char[]){"FIXTURE_AOT"}),
      cmocka_unit_test_prestate(test_changed_tree_does_not_crash, (char[]){"FIXTURE_GRAPH"}),
      cmocka_unit_test_prestate(test_changed_tree_does_not_crash, (char[]){"FIXTURE_AOT"}),
  };
  return cmocka_run_group_tests(tests, open_library, close_library);
}
