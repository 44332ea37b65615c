/* Firmware runtime: the one device, its memory, and its one stream, which is synchronous.
 *
 * Programs and remote clients use these functions by TVM's names. All work is done when a call
 * returns, so streams are NULL and synchronisation does nothing. */
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/platform.h>

#include "../../../src_backend/mem_functions.h"
#include "dtype.h"

/* Owned by the caller until TVMDeviceFreeDataSpace(). `alignment` is a power of two, or 0 for
 * none. */
int TVMDeviceAllocDataSpace(DLDevice dev, size_t nbytes, size_t alignment, DLDataType type_hint,
                            void** out_data) {
  /* A board's allocator has no argument for the alignment, and frees only the address it returned:
   * a misaligned block is rejected, not moved. */
  tvm_crt_error_t rc = TVMPlatformMemoryAllocate(nbytes, dev, out_data);
  (void)type_hint;
  if (rc != kTvmErrorNoError || alignment == 0) return rc;
  if (((uintptr_t)*out_data & (alignment - 1)) == 0) return rc;
  (void)TVMPlatformMemoryFree(*out_data, dev);
  *out_data = NULL;
  return kTvmErrorPlatformNoMemory;
}

/* NULL is ignored here, so that boards' allocators need not handle it. */
int TVMDeviceFreeDataSpace(DLDevice dev, void* ptr) {
  return ptr == NULL ? kTvmErrorNoError : TVMPlatformMemoryFree(ptr, dev);
}

/* For tensors of programs: unlike tvmrt__graph_bytes() this detects no overflow. */
static size_t bytes_of(const DLTensor* tensor) {
  size_t bytes = ((size_t)tensor->dtype.bits * tensor->dtype.lanes + 7) / 8;
  int32_t i;
  for (i = 0; i < tensor->ndim; ++i) bytes *= (size_t)tensor->shape[i];
  return tvmrt__packed_bytes(tensor->dtype, bytes);
}

/* Compares sizes in bytes, not shapes or types. Both tensors must be contiguous. An error if they
 * overlap: memmove() would be more code on boards. */
int TVMDeviceCopyDataFromTo(DLTensor* from, DLTensor* to, TVMStreamHandle stream) {
  const uintptr_t source = (uintptr_t)from->data + (uintptr_t)from->byte_offset;
  const uintptr_t target = (uintptr_t)to->data + (uintptr_t)to->byte_offset;
  const size_t bytes = bytes_of(from);
  (void)stream;
  if (bytes != bytes_of(to) || target - source < bytes || source - target < bytes) {
    return kTvmErrorFunctionCallInvalidArg;
  }
  memcpy((uint8_t*)to->data + to->byte_offset, (const uint8_t*)from->data + from->byte_offset,
         bytes);
  return kTvmErrorNoError;
}

/* NULL is the stream of all calls: work is done in the order of the calls. */
int TVMStreamCreate(int device_type, int device_id, TVMStreamHandle* out) {
  (void)device_type, (void)device_id;
  *out = NULL;
  return kTvmErrorNoError;
}

int TVMStreamFree(int device_type, int device_id, TVMStreamHandle stream) {
  (void)device_type, (void)device_id, (void)stream;
  return kTvmErrorNoError;
}

int TVMSetStream(int device_type, int device_id, TVMStreamHandle stream) {
  (void)device_type, (void)device_id, (void)stream;
  return kTvmErrorNoError;
}

int TVMSynchronize(int device_type, int device_id, TVMStreamHandle stream) {
  (void)device_type, (void)device_id, (void)stream;
  return kTvmErrorNoError;
}

int TVMStreamStreamSynchronize(int device_type, int device_id, TVMStreamHandle src,
                               TVMStreamHandle dst) {
  (void)device_type, (void)device_id, (void)src, (void)dst;
  return kTvmErrorNoError;
}
