/* What an ahead-of-time network with workspace calls needs: the calls, and a board's allocator made of
 * the library's stack allocator. */
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/crt/stack_allocator.h>
#include <tvm/runtime/platform.h>

#include "report.h"

static uint8_t pool[1024];
static tvm_workspace_t workspace;

tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void** out_ptr) {
  (void)dev;
  return StackMemoryManager_Allocate(&workspace, (int32_t)num_bytes, out_ptr);
}

tvm_crt_error_t TVMPlatformMemoryFree(void* ptr, DLDevice dev) {
  (void)dev;
  return StackMemoryManager_Free(&workspace, ptr);
}

int main(void) {
  void* block;
  uint32_t before;
  uint32_t after;
  if (StackMemoryManager_Init(&workspace, pool, sizeof(pool)) != kTvmErrorNoError) return 1;
  before = count_now();
  block = TVMBackendAllocWorkspace(kDLCPU, 0, 100, kDLFloat, 32);
  if (TVMBackendFreeWorkspace(kDLCPU, 0, block) != 0) return 2;
  after = count_now();
  report("workspace allocate and free", count_between(before, after));
  return block == NULL;
}
