/*
 * The program of an image that answers remote calls over the serial line: tvmrt compile writes it
 * around a network for -o OUT.elf. It has the network's module, its executor and a clock to offer.
 */
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/aot_executor_module.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/microtvm_rpc_server.h>
#include <tvm/runtime/crt/page_allocator.h>
#include <tvm/runtime/crt/platform.h>

#include "boards/board.h"
#include "boards/uart.h"

/* Of the linker script; the heap is between the variables and the stack. */
extern char bss_end[], stack_top[], STACK_BYTES[];

enum { PAGE_LOG2 = 8 };

static MemoryManagerInterface* heap;
static uint32_t started;

uint32_t tvmrt_platform_cycles(void);

tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void** out_ptr) {
  if (dev.device_type != kDLCPU) return kTvmErrorPlatformNoMemory;
  return heap->Allocate(heap, num_bytes, dev, out_ptr);
}

tvm_crt_error_t TVMPlatformMemoryFree(void* ptr, DLDevice dev) {
  return heap->Free(heap, ptr, dev);
}

/* One measurement may take as long as the counter needs to wrap: minutes. */
tvm_crt_error_t TVMPlatformTimerStart(void) {
  started = tvmrt_platform_cycles();
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMPlatformTimerStop(double* elapsed_time_seconds) {
  *elapsed_time_seconds = (double)(uint32_t)(tvmrt_platform_cycles() - started) / CLOCK_HZ;
  return kTvmErrorNoError;
}

/* () -> which image this is */
static int image(TVMValue* args, int* type_codes, int num_args, TVMValue* out, int* out_code,
                 void* resource_handle) {
  (void)args, (void)type_codes, (void)num_args, (void)resource_handle;
  out->v_str = IMAGE;
  *out_code = kTVMStr;
  return kTvmErrorNoError;
}

static ssize_t write_bytes(void* context, const uint8_t* data, size_t num_bytes) {
  (void)context;
  for (size_t i = 0; i < num_bytes; ++i) uart_write(data[i]);
  return (ssize_t)num_bytes;
}

static tvm_crt_error_t start(void) {
  static const TVMCPackedFunc image_function = image;
  const size_t heap_bytes = (size_t)(stack_top - (uintptr_t)STACK_BYTES - bss_end);
  tvm_crt_error_t rc = PageMemoryManagerCreate(&heap, (uint8_t*)bss_end, heap_bytes, PAGE_LOG2);
  if (rc == kTvmErrorNoError) rc = TVMInitializeRuntime();
  if (rc == kTvmErrorNoError) rc = TVMAotExecutorModule_Register();
  if (rc != kTvmErrorNoError) return rc;
  return (tvm_crt_error_t)TVMFuncRegisterGlobal("tvmrt.image",
                                                (TVMFunctionHandle)(uintptr_t)&image_function, 0);
}

int main(void) {
  microtvm_rpc_server_t server;
  tvm_crt_error_t rc = start();
  if (rc != kTvmErrorNoError) return (int)rc;
  uart_start();
  server = MicroTVMRpcServerInit(write_bytes, NULL);
  while (rc == kTvmErrorNoError) {
    uint8_t byte = uart_read();
    uint8_t* at = &byte;
    size_t left = 1;
    rc = MicroTVMRpcServerLoop(server, &at, &left);
  }
  return 0; /* the session is over: the next one finds the board as it was */
}
