/* Backend library: workspaces, from the board's allocator or by default from provided memory.
 *
 * Two layers: generated code calls TVMBackendAllocWorkspace(), which calls
 * TVMPlatformMemoryAllocate(). A board may override the latter, since the definitions below are
 * weak. The default allocates from the block that tvmrt_workspace_init() received, which the
 * program owns. The peak use is recorded, since it shows the program how much memory to provide. */
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/crt/stack_allocator.h>
#include <tvm/runtime/platform.h>

#include "error_slot.h"

/* Zero before the first call: an allocator without memory, whose allocations fail with an error. */
static tvm_workspace_t arena;
static size_t peak_bytes;

void tvmrt_workspace_init(void* memory, size_t num_bytes) {
  peak_bytes = 0;
  if (memory == NULL) num_bytes = 0;
  /* A block too small for its alignment gives an empty allocator, whose allocations fail. */
  (void)StackMemoryManager_Init(&arena, (uint8_t*)memory, num_bytes);
}

size_t tvmrt_workspace_peak_bytes(void) { return peak_bytes; }

TVMRT_REPLACEABLE tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev,
                                                            void** out_ptr) {
  tvm_crt_error_t rc;
  /* sizes of the stack allocator are int32_t, as in TVM's header */
  if (dev.device_type != kDLCPU || num_bytes > INT32_MAX) return kTvmErrorPlatformNoMemory;
  rc = StackMemoryManager_Allocate(&arena, (int32_t)num_bytes, out_ptr);
  if (rc == kTvmErrorNoError) {
    size_t used = (size_t)(arena.next_alloc - arena.workspace);
    if (used > peak_bytes) peak_bytes = used;
  }
  return rc;
}

TVMRT_REPLACEABLE tvm_crt_error_t TVMPlatformMemoryFree(void* ptr, DLDevice dev) {
  (void)dev;
  return StackMemoryManager_Free(&arena, ptr);
}

static DLDevice make_device(int device_type, int device_id) {
  DLDevice dev;
  dev.device_type = (DLDeviceType)device_type;
  dev.device_id = device_id;
  return dev;
}

void* TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes, int dtype_code_hint,
                               int dtype_bits_hint) {
  void* ptr = NULL;
  (void)dtype_code_hint;
  (void)dtype_bits_hint;
  if (nbytes <= SIZE_MAX &&
      TVMPlatformMemoryAllocate((size_t)nbytes, make_device(device_type, device_id), &ptr) ==
          kTvmErrorNoError) {
    return ptr;
  }
  (void)tvmrt__report(kTvmErrorPlatformNoMemory);
  return NULL;
}

int TVMBackendFreeWorkspace(int device_type, int device_id, void* ptr) {
  if (ptr == NULL) return 0;
  if (TVMPlatformMemoryFree(ptr, make_device(device_type, device_id)) == kTvmErrorNoError) return 0;
  (void)tvmrt__report(kTvmErrorPlatformStackAllocBadFree);
  return -1;
}
