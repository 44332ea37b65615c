/* Sizes and offsets of everything that crosses the ABI, for 64-bit and both kinds of 32-bit targets.
 * Compiled only; the numbers are those of compiled libraries of TVM 0.8 to 0.18. */
#include <stddef.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/metadata.h>

struct align_probe {
  char c;
  int64_t i;
};

#if UINTPTR_MAX > 0xffffffffu
#define PICK(lp64, ilp32, i386) lp64
#else
#define PICK(lp64, ilp32, i386) (offsetof(struct align_probe, i) == 8 ? (ilp32) : (i386))
#endif

#define SIZE(type, lp64, ilp32, i386) \
  _Static_assert(sizeof(type) == PICK(lp64, ilp32, i386), "size of " #type)
#define OFFSET(type, member, lp64, ilp32, i386) \
  _Static_assert(offsetof(type, member) == PICK(lp64, ilp32, i386), #type "." #member)

SIZE(TVMValue, 8, 8, 8);
SIZE(DLDataType, 4, 4, 4);
SIZE(DLDevice, 8, 8, 8);
SIZE(DLTensor, 48, 40, 36);
OFFSET(DLTensor, data, 0, 0, 0);
OFFSET(DLTensor, device, 8, 4, 4);
OFFSET(DLTensor, ndim, 16, 12, 12);
OFFSET(DLTensor, dtype, 20, 16, 16);
OFFSET(DLTensor, shape, 24, 20, 20);
OFFSET(DLTensor, strides, 32, 24, 24);
OFFSET(DLTensor, byte_offset, 40, 32, 28);
SIZE(DLManagedTensor, 64, 48, 44);
OFFSET(DLManagedTensor, manager_ctx, 48, 40, 36);
OFFSET(DLManagedTensor, deleter, 56, 44, 40);
SIZE(TVMByteArray, 16, 8, 8);
SIZE(TVMParallelGroupEnv, 16, 8, 8);
SIZE(struct TVMTensorInfo, 32, 24, 20);
OFFSET(struct TVMTensorInfo, num_shape, 16, 8, 8);
OFFSET(struct TVMTensorInfo, dtype, 24, 16, 16);
SIZE(struct TVMConstantInfo, 32, 32, 24);
OFFSET(struct TVMConstantInfo, byte_offset, 8, 8, 4);
OFFSET(struct TVMConstantInfo, data_bytes, 24, 24, 20);
SIZE(struct TVMMetadata, 80, 80, 60);
OFFSET(struct TVMMetadata, inputs, 8, 8, 8);
OFFSET(struct TVMMetadata, num_inputs, 16, 16, 12);
OFFSET(struct TVMMetadata, outputs, 24, 24, 20);
OFFSET(struct TVMMetadata, num_outputs, 32, 32, 24);
OFFSET(struct TVMMetadata, workspace_pools, 40, 40, 32);
OFFSET(struct TVMMetadata, num_workspace_pools, 48, 48, 36);
OFFSET(struct TVMMetadata, constant_pools, 56, 56, 44);
OFFSET(struct TVMMetadata, num_constant_pools, 64, 64, 48);
OFFSET(struct TVMMetadata, mod_name, 72, 72, 56);

_Static_assert(kTVMOpaqueHandle == 3 && kTVMDLTensorHandle == 7 && kTVMNDArrayHandle == 13 &&
                   kTVMArgBool == 15,
               "type codes");
