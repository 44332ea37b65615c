// A sketch as TVM's Arduino template has it: TVMInitialize() and TVMExecute() around the network, the
// platform's functions of the C runtime next to them.
#include <Arduino.h>
#include <stdio.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/platform.h>
#include <tvm/runtime/crt/stack_allocator.h>
#include <tvmgen_default.h>

static uint8_t g_crt_workspace[16 * 1024];
static tvm_workspace_t app_workspace;

extern "C" {

void TVMLogf(const char* format, ...) { (void)format; }

void TVMPlatformAbort(tvm_crt_error_t error) {
  (void)error;
  for (;;) delay(250);
}

tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void** out_ptr) {
  (void)dev;
  return StackMemoryManager_Allocate(&app_workspace, static_cast<int32_t>(num_bytes), out_ptr);
}

tvm_crt_error_t TVMPlatformMemoryFree(void* ptr, DLDevice dev) {
  (void)dev;
  return StackMemoryManager_Free(&app_workspace, ptr);
}

unsigned long g_utvm_start_time;

tvm_crt_error_t TVMPlatformTimerStart() {
  g_utvm_start_time = micros();
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMPlatformTimerStop(double* elapsed_time_seconds) {
  *elapsed_time_seconds = static_cast<double>(micros() - g_utvm_start_time) / 1e6;
  return kTvmErrorNoError;
}

}  // extern "C"

static void TVMInitialize() {
  StackMemoryManager_Init(&app_workspace, g_crt_workspace, sizeof(g_crt_workspace));
}

static void TVMExecute(void* input_data, void* output_data) {
  struct tvmgen_default_inputs inputs = {input_data};
  struct tvmgen_default_outputs outputs = {output_data};
  int ret_val = tvmgen_default_run(&inputs, &outputs);
  if (ret_val != 0) TVMPlatformAbort(kTvmErrorPlatformCheckFailure);
}

void setup() {
  TVMInitialize();
  Serial.begin(115200);
}

void loop() {
  static float input[6] = {0, 1, 2, 3, 4, 5};
  static float output[6];
  TVMExecute(input, output);
  for (int i = 0; i < 6; i++) {
    Serial.print(output[i], 7);
    Serial.print(" ");
  }
  delay(1000);
}
