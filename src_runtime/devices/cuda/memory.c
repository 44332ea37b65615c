/* Memory of tensors on the GPU: their addresses are the driver's. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <tvm/runtime/memory_device.h>

#include "cuda.h"

typedef struct block {
  CUdeviceptr address;
  struct block* next;
} block;

/* What is allocated, so that an address that outlives the device is not given to the driver again. */
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;
static block* blocks;
static cuda_context* owner; /* NULL while no device is registered */

static int exists(int device_id) { return device_id == 0 && owner != NULL; }

static int enter(void) {
  if (owner == NULL) return cuda_fail("the device cuda is unregistered");
  return cuda_enter(owner);
}

static int alloc_block(DLDevice dev, size_t bytes, size_t align, void** out) {
  block* b;
  int rc;
  (void)align; /* the driver's allocations suit any type and any align that tensors have */
  *out = NULL;
  if (!exists(dev.device_id)) return cuda_fail("there is no CUDA device %d", dev.device_id);
  b = calloc(1, sizeof(*b));
  if (b == NULL) return cuda_fail("out of memory");
  rc = enter();
  if (rc == 0) {
    rc = cuda_check(owner, owner->driver.cuMemAlloc_v2(&b->address, bytes == 0 ? 1 : bytes),
                    "cuMemAlloc");
    cuda_leave(owner);
  }
  if (rc != 0) {
    free(b);
    return -1;
  }
  (void)pthread_mutex_lock(&blocks_lock);
  b->next = blocks;
  blocks = b;
  (void)pthread_mutex_unlock(&blocks_lock);
  *out = (void*)(uintptr_t)b->address;
  return 0;
}

static int release_block(DLDevice dev, void* address) {
  block **at, *found = NULL;
  int rc;
  (void)dev;
  (void)pthread_mutex_lock(&blocks_lock);
  for (at = &blocks; *at != NULL; at = &(*at)->next) {
    if ((*at)->address != (CUdeviceptr)(uintptr_t)address) continue;
    found = *at;
    *at = found->next;
    break;
  }
  (void)pthread_mutex_unlock(&blocks_lock);
  if (found == NULL) return cuda_fail("the address is none of the CUDA device's");
  rc = enter();
  if (rc == 0) {
    rc = cuda_check(owner, owner->driver.cuMemFree_v2(found->address), "cuMemFree");
    cuda_leave(owner);
  }
  free(found);
  return rc;
}

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

static int free_stream(DLDevice dev, TVMStreamHandle stream) {
  int rc = enter();
  (void)dev;
  if (rc != 0) return -1;
  rc = cuda_check(owner, owner->driver.cuStreamDestroy_v2((CUstream)stream), "cuStreamDestroy");
  cuda_leave(owner);
  return rc;
}

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

static int give_api(TVMValue* args, int* type_codes, int num_args, TVMRetValueHandle ret,
                    void* resource) {
  TVMValue value;
  int code = kTVMOpaqueHandle;
  (void)args;
  (void)type_codes;
  (void)num_args;
  (void)resource;
  value.v_handle = (void*)(uintptr_t)&api;
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

int cuda_memory_register(cuda_context* c) {
  TVMFunctionHandle function = NULL;
  int rc;
  owner = c;
  if (TVMFuncCreateFromCFunc(give_api, NULL, NULL, &function) != 0) return -1;
  rc = TVMFuncRegisterGlobal("device_api.cuda", function, 1);
  (void)TVMFuncFree(function);
  return rc;
}

void cuda_memory_close(void) {
  const bool entered = owner != NULL && cuda_enter(owner) == 0;
  (void)pthread_mutex_lock(&blocks_lock);
  while (blocks != NULL) {
    block* b = blocks;
    blocks = b->next;
    if (entered) (void)owner->driver.cuMemFree_v2(b->address);
    free(b);
  }
  (void)pthread_mutex_unlock(&blocks_lock);
  if (entered) cuda_leave(owner);
  owner = NULL;
}
