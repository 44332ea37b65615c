/* Firmware runtime: tensors of the board's allocator, one block each.
 *
 * Head, shape and data in one block, in this order, each part at an aligned address. Boards align
 * their blocks as they like, so there is room for moving the beginning up, and the block's own
 * address is kept for giving it back. */
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/platform.h>

#include "tensor_bytes.h"

typedef struct owned_array {
  TVMNDArray array; /* first: handles are its address */
  void* block;      /* as the board gave it */
} owned_array;

/* *out is the caller's, until TVMArrayFree(), and NULL on failure. The data is not cleared. */
int TVMArrayAlloc(const tvm_index_t* shape, int ndim, int dtype_code, int dtype_bits,
                  int dtype_lanes, int device_type, int device_id, TVMArrayHandle* out) {
  DLTensor t;
  size_t head_bytes = TVMRT_GRAPH_ROUND_UP(sizeof(owned_array));
  size_t data_bytes;
  uint8_t* at;
  void* block;
  owned_array* owned;
  tvm_crt_error_t rc;
  int ok;
  int i;
  *out = NULL;
  t.data = NULL;
  t.strides = NULL;
  t.byte_offset = 0;
  t.device.device_type = (DLDeviceType)device_type;
  t.device.device_id = device_id;
  t.ndim = ndim;
  t.dtype.code = (uint8_t)dtype_code;
  t.dtype.bits = (uint8_t)dtype_bits;
  t.dtype.lanes = (uint16_t)dtype_lanes;
  t.shape = (int64_t*)(uintptr_t)shape;
  /* By the caller's shape, which is copied below: it may lie on a stack. */
  data_bytes = tvmrt__graph_bytes(&t, &ok);
  if (!ok || ndim < 0 || ndim > MOST_ITEMS) return kTvmErrorFunctionCallInvalidArg;
  rc = TVMPlatformMemoryAllocate(head_bytes + TVMRT_GRAPH_ROUND_UP((size_t)ndim * sizeof(*shape)) +
                                     data_bytes + TVMRT_GRAPH_ALIGN_BYTES - 1,
                                 t.device, &block);
  if (rc != kTvmErrorNoError) return rc;
  /* the next address that suits: as many bytes as are missing to a multiple */
  at = (uint8_t*)block + (-(uintptr_t)block & (TVMRT_GRAPH_ALIGN_BYTES - 1));
  owned = (owned_array*)(void*)at;
  t.shape = (int64_t*)(void*)(at + head_bytes);
  for (i = 0; i < ndim; ++i) t.shape[i] = shape[i];
  t.data = at + head_bytes + TVMRT_GRAPH_ROUND_UP((size_t)ndim * sizeof(*shape));
  owned->array.dl_tensor = t;
  owned->array.reference_count = 1;
  owned->block = block;
  *out = &owned->array.dl_tensor;
  return kTvmErrorNoError;
}

/* Only for what TVMArrayAlloc() made: other tensors have no block behind them. The board's stack
 * wants the last one first. */
int TVMArrayFree(TVMArrayHandle handle) {
  if (handle == NULL) return kTvmErrorNoError;
  return TVMPlatformMemoryFree(((owned_array*)(void*)handle)->block, handle->device);
}
