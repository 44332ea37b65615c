/* Workspace calls with the library's own platform functions, as documented for the firmware
   libraries. */
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/platform.h>

static uint8_t memory[256];

int main(void) {
  void* block;
  tvmrt_workspace_init(memory, sizeof(memory));
  block = TVMBackendAllocWorkspace(kDLCPU, 0, 100, kDLFloat, 32);
  return block == NULL || TVMBackendFreeWorkspace(kDLCPU, 0, block) != 0;
}
