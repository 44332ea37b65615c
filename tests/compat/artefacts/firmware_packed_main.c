/* An application over the packed interface: finds what it can in the table of functions, runs the
 * network twice and prints the output. */
#include <stdio.h>
#include <string.h>
#include <tvm/runtime/crt/module.h>
#include <tvm/runtime/metadata.h>
#include <tvm/runtime/platform.h>

int32_t tvmgen_default_run(TVMValue* args, int* type_code, int num_args, TVMValue* out_value,
                           int* out_type_code, void* resource_handle);

static int find(const char* name, TVMCPackedFunc* out) {
  const TVMFuncRegistry* registry = TVMSystemLibEntryPoint()->registry;
  tvm_function_index_t index;
  if (TVMFuncRegistry_Lookup(registry, name, &index) != kTvmErrorNoError) return -1;
  return TVMFuncRegistry_GetByIndex(registry, index, out) == kTvmErrorNoError ? 0 : -1;
}

static void print_metadata(void) {
  TVMCPackedFunc get;
  TVMValue ret;
  int code = kTVMNullptr;
  const struct TVMMetadata* metadata;
  if (find("tvmgen_default_get_c_metadata", &get) != 0) return;
  if (get(NULL, NULL, 0, &ret, &code, NULL) != 0 || code != kTVMOpaqueHandle) return;
  metadata = ret.v_handle;
  printf("metadata %s %s %s\n", metadata->mod_name, metadata->inputs[0].name,
         metadata->outputs[0].name);
}

int main(void) {
  static uint8_t memory[256] __attribute__((aligned(16)));
  float x[6] = {1, 2, 3, 4, 5, 6};
  float z[6];
  int64_t shape[2] = {2, 3};
  DLTensor in = {x, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0};
  DLTensor out = {z, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0};
  TVMValue args[2], ret;
  /* main reads the codes of its pools too, so there is room for them */
  int codes[4] = {kTVMDLTensorHandle, kTVMDLTensorHandle, kTVMDLTensorHandle, kTVMDLTensorHandle};
  int code = kTVMNullptr;
  TVMCPackedFunc run = NULL, absent;
  int i;
#ifndef BOARD_ALLOCATES
  tvmrt_workspace_init(memory, sizeof(memory));
#else
  (void)memory;
#endif
  print_metadata();
  printf("%s\n", find("tvmgen_default_run", &run) == 0 ? "in the table" : "not in the table");
  if (run == NULL) run = (TVMCPackedFunc)tvmgen_default_run;
  if (find("tvmgen_default_fused_ad", &absent) == 0) return 3;
  if (TVMFuncRegistry_GetNumFuncs(TVMSystemLibEntryPoint()->registry) != NUM_FUNCTIONS) return 4;
  args[0].v_handle = &in;
  args[1].v_handle = &out;
  for (i = 0; i < 2; ++i) {
    memset(z, 0, sizeof(z));
    if (run(args, codes, 2, &ret, &code, NULL) != 0) {
      printf("%s\n", TVMGetLastError());
      return 1;
    }
  }
  for (i = 0; i < 6; ++i) printf("%g%s", z[i], i == 5 ? "\n" : " ");
  return 0;
}
