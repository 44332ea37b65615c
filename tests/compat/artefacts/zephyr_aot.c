/* A Zephyr application as TVM's demo of networks compiled ahead is built: the platform's functions of the
 * C runtime over Zephyr's, a workspace of the stack allocator, and one run. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/logging.h>
#include <tvm/runtime/crt/platform.h>
#include <tvm/runtime/crt/stack_allocator.h>
#include <tvmgen_default.h>
#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>

#define WORKSPACE_SIZE (16 * 1024)

static uint8_t g_aot_memory[WORKSPACE_SIZE];
static tvm_workspace_t app_workspace;
static uint32_t started;

size_t TVMPlatformFormatMessage(char* out_buf, size_t out_buf_size_bytes, const char* fmt,
                                va_list args) {
  return (size_t)vsnprintf(out_buf, out_buf_size_bytes, fmt, args);
}

void TVMLogf(const char* msg, ...) {
  char buffer[256];
  va_list args;
  va_start(args, msg);
  TVMPlatformFormatMessage(buffer, sizeof(buffer), msg, args);
  va_end(args);
  printk("%s", buffer);
}

void TVMPlatformAbort(tvm_crt_error_t error) {
  TVMLogf("TVMPlatformAbort: %08x\n", error);
  k_panic();
}

tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void** out_ptr) {
  (void)dev;
  return StackMemoryManager_Allocate(&app_workspace, (int32_t)num_bytes, out_ptr);
}

tvm_crt_error_t TVMPlatformMemoryFree(void* ptr, DLDevice dev) {
  (void)dev;
  return StackMemoryManager_Free(&app_workspace, ptr);
}

tvm_crt_error_t TVMPlatformTimerStart(void) {
  started = k_cycle_get_32();
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMPlatformTimerStop(double* elapsed_time_seconds) {
  *elapsed_time_seconds = (double)(k_cycle_get_32() - started) / 1e6;
  return kTvmErrorNoError;
}

static float input_data[6] = {0, 1, 2, 3, 4, 5};
static float output_data[6];

int main(void) {
  struct tvmgen_default_inputs inputs = {.x = input_data};
  struct tvmgen_default_outputs outputs = {.output = output_data};
  double elapsed_time = 0;
  int ret_val;
  StackMemoryManager_Init(&app_workspace, g_aot_memory, WORKSPACE_SIZE);
  TVMPlatformTimerStart();
  ret_val = tvmgen_default_run(&inputs, &outputs);
  TVMPlatformTimerStop(&elapsed_time);
  if (ret_val != 0) TVMLogf("Error: %d\n", ret_val);
  for (int i = 0; i < 6; i++) TVMLogf("%.7g ", (double)output_data[i]);
  return elapsed_time < 0;
}
