/* Out of memory on a board: the n-th request fails, or the caller-provided memory has any size
   from 0 up. Each failure returns a documented code, writes nothing outside, frees everything,
   and the next attempt succeeds with enough memory. */
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/aot_executor_module.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/graph_executor_module.h>
#include <tvm/runtime/crt/page_allocator.h>
#include <tvm/runtime/crt/stack_allocator.h>

#include "firmware_graph.h"
#include "firmware_net.h"

const TVMModule* TVMSystemLibEntryPoint(void) { return &wide_module; }

/* ---- caller-provided memory between guards ---- */

enum { GUARD_BYTES = 32, ARENA_SIZE = 4096, FILL = 0xa5 };

static _Alignas(16) uint8_t arena[GUARD_BYTES + ARENA_SIZE + GUARD_BYTES];

/* `available` bytes, `skip` beyond alignment; all else is guarded. */
static uint8_t* set_arena(size_t skip, size_t available) {
  assert_true(skip + available <= ARENA_SIZE);
  memset(arena, FILL, sizeof(arena));
  return arena + GUARD_BYTES + skip;
}

static void assert_guarded(size_t skip, size_t available) {
  for (size_t i = 0; i < sizeof(arena); ++i) {
    if (i - GUARD_BYTES - skip < available) continue;
    if (arena[i] != FILL) fail_msg("room %zu at %zu: byte %zu is written", available, skip, i);
  }
}

static void assert_inside(const void* block, size_t bytes, size_t skip, size_t available) {
  const size_t at = (size_t)((const uint8_t*)block - arena);
  assert_true(at >= GUARD_BYTES + skip && at + bytes <= GUARD_BYTES + skip + available);
  assert_int_equal((uintptr_t)block % 16, 0);
}

/* ---- the board's allocator, which replaces the library's ---- */

static tvm_workspace_t board;
static long allowed; /* requests until the one that fails; negative: none fails */
static int forever;  /* whether all after it fail too */
static int failed;
static int taken;

tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void** out_ptr) {
  tvm_crt_error_t rc;
  (void)dev;
  if (allowed == 0) {
    failed = 1;
    if (!forever) allowed = -1;
    return kTvmErrorPlatformNoMemory;
  }
  if (allowed > 0) --allowed;
  rc = StackMemoryManager_Allocate_Body(&board, (int32_t)num_bytes, out_ptr, 1);
  failed |= rc != kTvmErrorNoError;
  taken += rc == kTvmErrorNoError;
  return rc;
}

/* Blocks are freed in reverse order, once each. */
tvm_crt_error_t TVMPlatformMemoryFree(void* ptr, DLDevice dev) {
  (void)dev;
  --taken;
  assert_int_equal(StackMemoryManager_Free_Body(&board, ptr, 1), kTvmErrorNoError);
  return kTvmErrorNoError;
}

/* ---- what programs do ---- */

static const DLDevice cpu = {kDLCPU, 0};
static const char* const names[] = {"w\xc3\xa4"};

static int use_graph(void) {
  static _Alignas(8) uint8_t blob[256];
  const uint32_t size = write_params(blob, names, 1); /* misaligned data, which is copied */
  TVMGraphExecutor* ex;
  DLTensor in = tensor_of(x);
  float y[6];
  DLTensor out = tensor_of(y);
  int rc = TVMGraphExecutor_Create(json, (void*)(uintptr_t)&wide_module, NULL, &ex);
  if (rc != 0) {
    assert_null(ex);
    return rc;
  }
  rc = TVMGraphExecutor_LoadParams(ex, (char*)blob, size);
  if (rc == 0) rc = TVMGraphExecutor_SetInput(ex, "x", &in);
  if (rc == 0) rc = TVMGraphExecutor_Run(ex);
  if (rc == 0) rc = TVMGraphExecutor_GetOutput(ex, 1, &out);
  if (rc == 0) assert_float_equal(y[5], 132, 0);
  assert_int_equal(TVMGraphExecutor_Release(&ex), 0);
  return rc;
}

/* As generated code: workspaces are freed on every exit path. */
static int workspace_run(TVMValue* args, int* codes, int num_args, TVMValue* out, int* out_code,
                         void* resource) {
  float* sum = TVMBackendAllocWorkspace(kDLCPU, 0, 24, kDLFloat, 32);
  float* twice;
  (void)codes, (void)num_args, (void)out, (void)out_code, (void)resource;
  if (sum == NULL) return -1;
  twice = TVMBackendAllocWorkspace(kDLCPU, 0, 24, kDLFloat, 32);
  if (twice == NULL) {
    assert_int_equal(TVMBackendFreeWorkspace(kDLCPU, 0, sum), 0);
    return -1;
  }
  for (int i = 0; i < 6; ++i) sum[i] = floats(args[0])[i] + 1;
  for (int i = 0; i < 6; ++i) twice[i] = 2 * sum[i];
  memcpy(floats(args[1]), twice, 24);
  assert_int_equal(TVMBackendFreeWorkspace(kDLCPU, 0, twice), 0);
  assert_int_equal(TVMBackendFreeWorkspace(kDLCPU, 0, sum), 0);
  return 0;
}

static const TVMCPackedFunc workspace_functions[] = {net_metadata, workspace_run};
static const TVMFuncRegistry workspace_table = {"\002tvmgen_net_get_c_metadata\0tvmgen_net_run",
                                                workspace_functions};
static const TVMModule workspace_module = {&workspace_table};

static int use_net(const TVMModule* module) {
  TVMAotExecutor* ex;
  int rc = TVMAotExecutor_Create((void*)(uintptr_t)module, cpu, &ex, "net");
  if (rc != 0) {
    assert_null(ex);
    return rc;
  }
  memcpy(ex->args[0].dl_tensor.data, x, sizeof(x));
  rc = TVMAotExecutor_Run(ex);
  if (rc == -1) { /* the network's own: what went wrong is the library's text */
    assert_non_null(strstr(TVMGetLastError(), "emory"));
    rc = kTvmErrorPlatformNoMemory;
  }
  if (rc == 0) assert_float_equal(floats((TVMValue){.v_handle = &ex->args[1].dl_tensor})[5], 14, 0);
  assert_int_equal(TVMAotExecutor_Release(ex, cpu), 0);
  return rc;
}

static int use_net_with_workspaces(void) { return use_net(&workspace_module); }
static int use_net_with_pools(void) { return use_net(&main_module); }

static int use_arrays(void) {
  static const int64_t shape[] = {2, 3};
  TVMArrayHandle t;
  void* raw = NULL;
  int rc = TVMArrayAlloc(shape, 2, kDLFloat, 32, 1, kDLCPU, 0, &t);
  if (rc != 0) {
    assert_null(t);
    return rc;
  }
  memset(t->data, 0, 24);
  rc = TVMDeviceAllocDataSpace(cpu, 50, 16, t->dtype, &raw);
  if (rc == 0) memset(raw, 0, 50);
  if (rc == 0) assert_int_equal(TVMDeviceFreeDataSpace(cpu, raw), 0);
  assert_int_equal(TVMArrayFree(t), 0);
  return rc;
}

typedef struct scenario {
  const char* name;
  int (*use)(void);
} scenario;

static const scenario scenarios[] = {
    {"graph", use_graph},
    {"network with workspaces", use_net_with_workspaces},
    {"network with pools", use_net_with_pools},
    {"arrays", use_arrays},
};
enum { NUM_SCENARIOS = sizeof(scenarios) / sizeof(scenarios[0]) };

/* ---- requests that fail ---- */

/* Returns whether it succeeded; it may fail only if a request did. */
static int attempt(const scenario* s) {
  int rc;
  failed = 0;
  rc = s->use();
  if (rc != 0 && (rc != kTvmErrorPlatformNoMemory || !failed)) {
    fail_msg("%s: code 0x%04x, failed %d", s->name, (unsigned)rc, failed);
  }
  assert_int_equal(rc == 0, !failed);
  assert_int_equal(taken, 0);
  assert_ptr_equal(board.next_alloc, board.workspace);
  return rc == 0;
}

static void test_each_request_fails(void** state) {
  (void)state;
  for (int i = 0; i < NUM_SCENARIOS; ++i) {
    long count = 0;
    assert_int_equal(StackMemoryManager_Init(&board, set_arena(0, ARENA_SIZE), ARENA_SIZE), 0);
    for (forever = 0; forever < 2; ++forever) {
      for (long n = 0;; ++n) {
        allowed = n;
        if (attempt(&scenarios[i])) break;
        allowed = -1;
        assert_true(attempt(&scenarios[i]));
        ++count;
      }
    }
    allowed = -1;
    print_message("%s: %ld requests failed\n", scenarios[i].name, count);
  }
}

static void test_any_memory_size(void** state) {
  (void)state;
  allowed = -1;
  for (int i = 0; i < NUM_SCENARIOS; ++i) {
    long refused = 0;
    for (size_t skip = 0; skip < 16; skip += 5) {
      size_t available;
      for (available = 0; available < ARENA_SIZE - 16; ++available) {
        (void)StackMemoryManager_Init(&board, set_arena(skip, available), available);
        const int is_enough = attempt(&scenarios[i]);
        assert_guarded(skip, available);
        if (is_enough) break;
        ++refused;
      }
      assert_true(available < ARENA_SIZE - 16);
      (void)StackMemoryManager_Init(&board, set_arena(skip, available + 1), available + 1);
      assert_true(attempt(&scenarios[i])); /* more than enough is enough */
    }
    print_message("%s: %ld sizes refused\n", scenarios[i].name, refused);
  }
}

/* The executor's own memory: see also test_firmware_graph.c, which knows the sizes. */
static void test_any_arena_size(void** state) {
  TVMGraphExecutor* ex;
  size_t used;
  (void)state;
  for (size_t available = 0; available <= ARENA_BYTES; ++available) {
    const int rc = tvmrt_graph_create(json, strlen(json), &wide_module, set_arena(0, available),
                                      available, &ex, &used);
    assert_int_equal(rc, available < ARENA_BYTES ? kTvmErrorPlatformNoMemory : kTvmErrorNoError);
    assert_int_equal(ex == NULL, rc != 0);
    assert_true(available < used || rc == 0);
    assert_guarded(0, available);
  }
  print_message("arena: %zu sizes refused\n", (size_t)ARENA_BYTES);
}

/* ---- the allocators ---- */

static int fill_stack(size_t skip, size_t available, uint8_t checks) {
  tvm_workspace_t ws;
  void* blocks[64];
  int count = 0;
  const tvm_crt_error_t rc = StackMemoryManager_Init(&ws, set_arena(skip, available), available);
  assert_true(rc == kTvmErrorNoError || rc == kTvmErrorPlatformNoMemory);
  for (int32_t bytes = 0; count < 64; bytes = (bytes + 7) % 50) {
    if (StackMemoryManager_Allocate_Body(&ws, bytes, &blocks[count], checks) != kTvmErrorNoError) {
      assert_null(blocks[count]);
      break;
    }
    if (bytes > 0) assert_inside(blocks[count], (size_t)bytes, skip, available);
    memset(blocks[count], count, (size_t)bytes);
    ++count;
  }
  for (int i = count; i-- > 0;) {
    assert_int_equal(StackMemoryManager_Free_Body(&ws, blocks[i], checks), kTvmErrorNoError);
  }
  assert_guarded(skip, available);
  return count;
}

static void test_stack_allocator_of_any_size(void** state) {
  (void)state;
  for (size_t skip = 0; skip < 16; ++skip) {
    int most[2] = {0, 0};
    for (size_t available = 0; available < 400; ++available) {
      for (uint8_t checks = 0; checks < 2; ++checks) {
        const int count = fill_stack(skip, available, checks);
        assert_true(count >= most[checks]); /* more room, no fewer blocks */
        most[checks] = count;
      }
    }
    assert_true(most[1] > 4 && most[0] > most[1]);
  }
}

static int fill_pages(size_t skip, size_t available) {
  MemoryManagerInterface* m;
  void* blocks[64];
  int count = 0;
  tvm_crt_error_t rc = PageMemoryManagerCreate(&m, set_arena(skip, available), available, 5);
  if (rc != kTvmErrorNoError) {
    assert_int_equal(rc, kTvmErrorPlatformNoMemory);
    assert_null(m);
    assert_guarded(skip, available);
    return 0;
  }
  for (size_t bytes = 1; count < 64; bytes = (bytes + 20) % 70) {
    blocks[count] = &m;
    rc = m->Allocate(m, bytes, cpu, &blocks[count]);
    if (rc != kTvmErrorNoError) break;
    assert_inside(blocks[count], bytes, skip, available);
    memset(blocks[count++], 0xff, bytes);
  }
  assert_int_equal(rc, kTvmErrorPlatformNoMemory);
  assert_ptr_equal(blocks[count], &m);
  assert_int_equal(m->Free(m, &count, cpu), kTvmErrorPlatformStackAllocBadFree);
  for (int i = 0; i < count; ++i) assert_int_equal(m->Free(m, blocks[i], cpu), kTvmErrorNoError);
  assert_int_equal(m->vleak_size, 0);
  assert_guarded(skip, available);
  return count;
}

static void test_page_allocator_of_any_size(void** state) {
  (void)state;
  for (size_t skip = 0; skip < 16; ++skip) {
    int most = 0;
    for (size_t available = 0; available < 600; ++available) {
      const int count = fill_pages(skip, available);
      assert_true(count >= most);
      most = count;
    }
    assert_true(most > 4);
  }
}

/* ---- executors as modules, one instance each ---- */

/* Fails as often as requests do, and then makes the one. */
static long create_module(const char* name, TVMValue* args, int* codes, int count) {
  TVMFunctionHandle f;
  TVMValue ret;
  int code;
  long n = 0;
  assert_int_equal(TVMFuncGetGlobal(name, &f), 0);
  assert_non_null(f);
  forever = 1;
  for (;; ++n) {
    const int before = taken;
    int rc;
    allowed = n;
    failed = 0;
    rc = TVMFuncCall(f, args, codes, count, &ret, &code);
    if (!failed) {
      assert_int_equal(rc, 0);
      assert_non_null(ret.v_handle);
      break;
    }
    assert_int_equal(rc, kTvmErrorPlatformNoMemory);
    assert_int_equal(taken, before);
  }
  allowed = -1;
  assert_int_equal(call_of(ret.v_handle, "get_num_inputs", NULL, NULL, 0, &ret), 0);
  return n;
}

static void test_modules_are_created_when_memory_suffices(void** state) {
  static _Alignas(8) uint8_t table[200];
  TVMValue args[4] = {{.v_str = json}, {.v_handle = (void*)(uintptr_t)&wide_module}};
  int codes[4] = {kTVMStr, kTVMModuleHandle, kTVMArgInt, kTVMArgInt};
  TVMValue net_args[3] = {{.v_handle = (void*)(uintptr_t)&main_module}, {.v_device = cpu}};
  int net_codes[3] = {kTVMModuleHandle, kDLDevice, kTVMStr};
  long n;
  (void)state;
  args[2].v_int64 = kDLCPU;
  args[3].v_int64 = 0;
  net_args[2].v_str = "net";
  assert_int_equal(StackMemoryManager_Init(&board, set_arena(0, ARENA_SIZE), ARENA_SIZE), 0);
  assert_int_equal(tvmrt_globals_init(table, sizeof(table)), 0);
  assert_int_equal(TVMGraphExecutorModule_Register(), 0);
  assert_int_equal(TVMAotExecutorModule_Register(), 0);
  n = create_module("tvm.graph_executor.create", args, codes, 4);
  n += create_module("tvm.aot_executor.create", net_args, net_codes, 3);
  print_message("modules: %ld requests failed\n", n);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_each_request_fails),
      cmocka_unit_test(test_any_memory_size),
      cmocka_unit_test(test_any_arena_size),
      cmocka_unit_test(test_stack_allocator_of_any_size),
      cmocka_unit_test(test_page_allocator_of_any_size),
      cmocka_unit_test(test_modules_are_created_when_memory_suffices),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
