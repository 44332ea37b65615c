/* Calls a network compiled ahead as the executor of TVM's own C runtime does: a tensor for each input,
 * output and workspace pool of the metadata, all passed as arguments. Prints the first output. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/metadata.h>

int32_t tvmgen_default_run(void* args, void* codes, int count, void* out, void* code, void* self);
int32_t tvmgen_default_get_c_metadata(void* args, void* codes, int count, TVMValue* out, int* code,
                                      void* self);

static DLTensor tensor_of(const TVMTensorInfo* info) {
  DLTensor tensor = {NULL, {kDLCPU, 0}, (int32_t)info->num_shape, info->dtype, NULL, NULL, 0};
  size_t bytes = (size_t)(info->dtype.bits + 7) / 8;
  int64_t i;
  tensor.shape = (int64_t*)(uintptr_t)info->shape;
  for (i = 0; i < info->num_shape; ++i) bytes *= (size_t)info->shape[i];
  tensor.data = aligned_alloc(64, (bytes + 63) / 64 * 64);
  return tensor;
}

int main(void) {
  const float x[6] = {1, -2, 3, 0.5f, 100, -7};
  const TVMMetadata* m;
  DLTensor tensors[8];
  TVMValue values[8], out;
  int codes[8], code = kTVMNullptr, count = 0, i, rc;
  if (tvmgen_default_get_c_metadata(NULL, NULL, 0, &out, &code, NULL) != 0) return 1;
  m = (const TVMMetadata*)out.v_handle;
  for (i = 0; i < m->num_inputs; ++i) tensors[count++] = tensor_of(&m->inputs[i]);
  for (i = 0; i < m->num_outputs; ++i) tensors[count++] = tensor_of(&m->outputs[i]);
  for (i = 0; i < m->num_workspace_pools; ++i) tensors[count++] = tensor_of(&m->workspace_pools[i]);
  for (i = 0; i < count; ++i) {
    values[i].v_handle = &tensors[i];
    codes[i] = kTVMDLTensorHandle;
  }
  memcpy(tensors[0].data, x, sizeof(x));
  if (tvmgen_default_run(values, codes, 1, &out, &code, NULL) == 0) return 2;
  rc = tvmgen_default_run(values, codes, count, &out, &code, NULL);
  if (rc != 0) return printf("code 0x%04x\n", (unsigned)rc);
  for (i = 0; i < 6; ++i) printf("%g ", ((const float*)tensors[1].data)[i]);
  printf("of %d arguments\n", count);
  return 0;
}
