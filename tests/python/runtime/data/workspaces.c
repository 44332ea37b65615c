/* A network for the graph executor whose operators take workspaces in unusual orders. It states two pages
 * for a run: further blocks are the thread's. Outputs are 1 if all blocks had memory of their own. */
#include <stdint.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>

enum { PAGE = 4096, BLOCKS = 12 };

TVM_DLL int32_t get_run_needs(TVMValue* args, int* codes, int count, TVMValue* out, int* out_code,
                              void* resource) {
  static const uint64_t needs[] = {2 * PAGE, 1};
  (void)args, (void)codes, (void)count, (void)resource;
  out->v_handle = (void*)(uintptr_t)needs;
  *out_code = kTVMOpaqueHandle;
  return 0;
}

static int is_filled(const unsigned char* block, int value) {
  int i;
  for (i = 0; i < PAGE && block[i] == value; ++i) continue;
  return i == PAGE;
}

/* Blocks in three rounds; each round releases them in another order. */
static int use_blocks(int count, int step) {
  unsigned char* blocks[BLOCKS];
  int good = 1;
  int i;
  for (i = 0; i < count; ++i) {
    blocks[i] = TVMBackendAllocWorkspace(kDLCPU, 0, PAGE, kDLUInt, 8);
    if (blocks[i] == NULL || (uintptr_t)blocks[i] % 64 != 0) return 0;
    memset(blocks[i], i + 1, PAGE);
  }
  for (i = 0; i < count; ++i) good = good && is_filled(blocks[i], i + 1);
  for (i = 0; i < count; ++i) {
    const int at = (i + 1) * step % (count + 1) - 1; /* each once: count + 1 is a prime */
    good = good && TVMBackendFreeWorkspace(kDLCPU, 0, blocks[at]) == 0;
    good = good && TVMBackendFreeWorkspace(kDLCPU, 0, blocks[at]) != 0; /* a second time */
  }
  return good;
}

static void fill(TVMValue value, int64_t count, int good) {
  DLTensor* t = value.v_handle;
  int64_t i;
  for (i = 0; i < count; ++i) ((float*)t->data)[i] = (float)good;
}

TVM_DLL int32_t tvmgen_default_scale_add(TVMValue* args, int* codes, int count, TVMValue* out,
                                         int* out_code, void* resource) {
  (void)codes, (void)count, (void)out, (void)out_code, (void)resource;
  fill(args[2], 6, use_blocks(2, 1) && use_blocks(2, 2) && use_blocks(4, 3));
  return 0;
}

TVM_DLL int32_t tvmgen_default_sum(TVMValue* args, int* codes, int count, TVMValue* out,
                                   int* out_code, void* resource) {
  (void)codes, (void)count, (void)out, (void)out_code, (void)resource;
  fill(args[1], 2, use_blocks(12, 5) && use_blocks(1, 1) && use_blocks(12, 12));
  return 0;
}
