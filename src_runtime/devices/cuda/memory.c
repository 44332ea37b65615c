/* Memory of tensors on the GPU: their addresses are the driver's.
 *
 * Addresses are the driver's and are never read here. The list of blocks has a lock of its own, as
 * tensors are made and freed on any thread; streams are the caller's. All functions outlive the
 * device: once it is gone they fail. */
#include <stdint.h>

#include "../shared/blocks.h"
#include "cuda.h"

/* What is allocated, so that an address that outlives the device is not given to the driver
 * again. */
static memory_blocks blocks = BLOCKS_INIT;
static cuda_context* owner; /* NULL while no device is registered */

/* One GPU serves the process, and is number 0. */
static int exists(int device_id) { return device_id == 0 && owner != NULL; }

/* The sentence for whoever holds a tensor longer than its device. */
static int enter(void) {
  if (owner == NULL) return device_fail("the device cuda is unregistered");
  return cuda_enter(owner);
}

/* *out is the tensor's, until release_block(). A block of no bytes takes one, so that its address
 * is its own. */
static int alloc_block(DLDevice dev, size_t bytes, size_t align, void** out) {
  CUdeviceptr address = 0;
  memory_block b = {NULL, bytes, NULL};
  int rc;
  (void)align; /* the driver's allocations suit any type and any align that tensors have */
  *out = NULL;
  if (!exists(dev.device_id)) return device_fail("there is no CUDA device %d", dev.device_id);
  if (enter() != 0) return -1;
  rc = cuda_check(owner, owner->driver.cuMemAlloc_v2(&address, bytes == 0 ? 1 : bytes),
                  "cuMemAlloc");
  b.address = (char*)(uintptr_t)address;
  if (rc == 0 && blocks_add(&blocks, &b) != 0) {
    (void)owner->driver.cuMemFree_v2(address);
    rc = -1;
  }
  cuda_leave(owner);
  if (rc == 0) *out = b.address;
  return rc;
}

/* Taken off the list first: of two threads that free one address the second is told. */
static int release_block(DLDevice dev, void* address) {
  memory_block found;
  int rc;
  (void)dev;
  if (address == NULL || !blocks_take(&blocks, address, &found)) {
    return device_fail("the address is none of the CUDA device's");
  }
  if (enter() != 0) return -1;
  rc = cuda_check(owner, owner->driver.cuMemFree_v2((CUdeviceptr)(uintptr_t)address), "cuMemFree");
  cuda_leave(owner);
  return rc;
}

/* Without a stream the copy is over when this returns; with one it is in that stream's order, and
 * host memory must stay until it is waited for. */
static int copy(DLDevice from_dev, const void* from, DLDevice to_dev, void* to, size_t bytes,
                TVMStreamHandle stream) {
  const CUdeviceptr source = (CUdeviceptr)(uintptr_t)from, target = (CUdeviceptr)(uintptr_t)to;
  CUstream queue;
  int rc = enter();
  if (rc != 0) return -1;
  queue = stream == NULL ? owner->stream : (CUstream)stream;
  if (bytes == 0) {
    rc = 0;
  } else if (from_dev.device_type == kDLCUDA && to_dev.device_type == kDLCUDA) {
    rc = owner->driver.cuMemcpyDtoDAsync_v2(target, source, bytes, queue);
  } else if (to_dev.device_type == kDLCUDA) {
    rc = owner->driver.cuMemcpyHtoDAsync_v2(target, from, bytes, queue);
  } else {
    rc = owner->driver.cuMemcpyDtoHAsync_v2(to, source, bytes, queue);
  }
  if (rc == CUDA_SUCCESS && stream == NULL) rc = owner->driver.cuStreamSynchronize(queue);
  rc = cuda_check(owner, rc, "copying");
  cuda_leave(owner);
  return rc;
}

/* The caller's, to be freed by free_stream(). */
static int create_stream(DLDevice dev, TVMStreamHandle* out) {
  CUstream made = NULL;
  int rc = enter();
  (void)dev;
  *out = NULL;
  if (rc != 0) return -1;
  rc = cuda_check(owner, owner->driver.cuStreamCreate(&made, CU_STREAM_NON_BLOCKING),
                  "cuStreamCreate");
  cuda_leave(owner);
  if (rc == 0) *out = (TVMStreamHandle)made;
  return rc;
}

/* What is queued on it is still done: the driver ends the stream behind that. */
static int free_stream(DLDevice dev, TVMStreamHandle stream) {
  int rc = enter();
  (void)dev;
  if (rc != 0) return -1;
  rc = cuda_check(owner, owner->driver.cuStreamDestroy_v2((CUstream)stream), "cuStreamDestroy");
  cuda_leave(owner);
  return rc;
}

/* A device that is gone has nothing left to wait for. Errors of kernels that ran on the stream
 * are told here. */
static int synchronize(DLDevice dev, TVMStreamHandle stream) {
  int rc;
  (void)dev;
  if (owner == NULL) return 0;
  if (enter() != 0) return -1;
  rc = owner->driver.cuStreamSynchronize(stream == NULL ? owner->stream : (CUstream)stream);
  rc = cuda_check(owner, rc, "cuStreamSynchronize");
  cuda_leave(owner);
  return rc;
}

/* What is queued on `dst` from now on begins when all of `src` so far has ended; the host waits for
 * nothing. */
static int wait_for_stream(DLDevice dev, TVMStreamHandle src, TVMStreamHandle dst) {
  CUevent event = NULL;
  const cuda_driver* d;
  int rc = enter();
  (void)dev;
  if (rc != 0) return -1;
  d = &owner->driver;
  rc = cuda_check(owner, d->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  if (rc == 0) {
    rc = d->cuEventRecord(event, src == NULL ? owner->stream : (CUstream)src);
    if (rc == CUDA_SUCCESS) {
      rc = d->cuStreamWaitEvent(dst == NULL ? owner->stream : (CUstream)dst, event, 0);
    }
    rc = cuda_check(owner, rc, "ordering streams");
    (void)d->cuEventDestroy_v2(event); /* the driver keeps it as long as somebody waits */
  }
  cuda_leave(owner);
  return rc;
}

static const tvmrt_memory_device api = {.struct_bytes = sizeof(tvmrt_memory_device),
                                        .name = "cuda",
                                        .exists = exists,
                                        .alloc = alloc_block,
                                        .free = release_block,
                                        .copy = copy,
                                        .stream_create = create_stream,
                                        .stream_free = free_stream,
                                        .stream_sync = synchronize,
                                        .stream_wait = wait_for_stream};

/* Before a tensor can be asked for: the struct is static, and its functions look for the owner each
 * time. */
int cuda_memory_register(cuda_context* c) {
  owner = c;
  return told_register_memory("device_api.cuda", &api);
}

/* Blocks that are still held lose their memory: who frees them later is told that the address is
 * none. */
void cuda_memory_close(void) {
  const bool entered = owner != NULL && cuda_enter(owner) == 0;
  memory_block b;
  while (blocks_take(&blocks, NULL, &b)) {
    if (entered) (void)owner->driver.cuMemFree_v2((CUdeviceptr)(uintptr_t)b.address);
  }
  if (entered) cuda_leave(owner);
  owner = NULL;
}
