/*
 * Memory of tensors on the device. The address of such a tensor is a range of the process's address
 * space that cannot be touched; a list says which buffer stands for it, so that addresses inside (byte
 * offsets) work as on the host.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <tvm/runtime/memory_device.h>

#include "opencl.h"

typedef struct block {
  char* address;
  size_t bytes;
  cl_mem buffer;
  struct block* next;
} block;

static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;
static block* blocks;
static opencl_context* owner; /* NULL while no device is registered */

static int exists(int device_id) { return device_id == 0 && owner != NULL; }

static void free_block(block* b) {
  clReleaseMemObject(b->buffer);
  (void)munmap(b->address, b->bytes);
  free(b);
}

static int alloc_block(DLDevice dev, size_t bytes, size_t align, void** out) {
  block* b = calloc(1, sizeof(*b));
  cl_int status = CL_SUCCESS;
  (void)align; /* pages are aligned to more than anybody asks for */
  *out = NULL;
  if (b == NULL) return opencl_fail("out of memory");
  if (!exists(dev.device_id)) {
    free(b);
    return opencl_fail("there is no OpenCL device %d", dev.device_id);
  }
  b->bytes = bytes == 0 ? 1 : bytes; /* neither mmap nor OpenCL has anything of no bytes */
  b->address = mmap(NULL, b->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (b->address == MAP_FAILED) {
    free(b);
    return opencl_fail("no addresses are left for %zu bytes", bytes);
  }
  b->buffer = clCreateBuffer(owner->context, CL_MEM_READ_WRITE, b->bytes, NULL, &status);
  if (opencl_check(status, "clCreateBuffer") != 0) {
    (void)munmap(b->address, b->bytes);
    free(b);
    return -1;
  }
  (void)pthread_mutex_lock(&blocks_lock);
  b->next = blocks;
  blocks = b;
  (void)pthread_mutex_unlock(&blocks_lock);
  *out = b->address;
  return 0;
}

static int release_block(DLDevice dev, void* address) {
  block **at, *found = NULL;
  (void)dev;
  (void)pthread_mutex_lock(&blocks_lock);
  for (at = &blocks; *at != NULL; at = &(*at)->next) {
    if ((*at)->address != address) continue;
    found = *at;
    *at = found->next;
    break;
  }
  (void)pthread_mutex_unlock(&blocks_lock);
  if (found == NULL) return opencl_fail("the address is none of the OpenCL device's");
  free_block(found);
  return 0;
}

cl_mem opencl_memory_find(const void* address, size_t* out_offset) {
  uintptr_t place = (uintptr_t)address;
  cl_mem found = NULL;
  const block* b;
  (void)pthread_mutex_lock(&blocks_lock);
  for (b = blocks; b != NULL && found == NULL; b = b->next) {
    uintptr_t begin = (uintptr_t)b->address;
    if (place < begin || place - begin >= b->bytes) continue;
    found = b->buffer;
    *out_offset = place - begin;
  }
  (void)pthread_mutex_unlock(&blocks_lock);
  return found;
}

static int copy(DLDevice from_dev, const void* from, DLDevice to_dev, void* to, size_t bytes,
                TVMStreamHandle stream) {
  size_t from_offset = 0, to_offset = 0;
  cl_mem source = from_dev.device_type == kDLOpenCL ? opencl_memory_find(from, &from_offset) : NULL;
  cl_mem target = to_dev.device_type == kDLOpenCL ? opencl_memory_find(to, &to_offset) : NULL;
  cl_int status;
  (void)stream;
  if (owner == NULL) return opencl_fail("the OpenCL device is unregistered");
  if (source != NULL && target != NULL) {
    status = clEnqueueCopyBuffer(owner->queue, source, target, from_offset, to_offset, bytes, 0,
                                 NULL, NULL);
    /* which does not wait by itself, as writing and reading below do */
    if (status == CL_SUCCESS) status = clFinish(owner->queue);
  } else if (target != NULL) {
    status =
        clEnqueueWriteBuffer(owner->queue, target, CL_TRUE, to_offset, bytes, from, 0, NULL, NULL);
  } else if (source != NULL) {
    status =
        clEnqueueReadBuffer(owner->queue, source, CL_TRUE, from_offset, bytes, to, 0, NULL, NULL);
  } else {
    return opencl_fail("neither address of the copy is the OpenCL device's");
  }
  return opencl_check(status, "copying");
}

static int synchronize(DLDevice dev, TVMStreamHandle stream) {
  (void)dev;
  (void)stream;
  return owner == NULL ? 0 : opencl_check(clFinish(owner->queue), "clFinish");
}

static const tvmrt_memory_device api = {.struct_bytes = sizeof(tvmrt_memory_device),
                                        .name = "opencl",
                                        .exists = exists,
                                        .alloc = alloc_block,
                                        .free = release_block,
                                        .copy = copy,
                                        .stream_sync = synchronize};

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

int opencl_memory_register(opencl_context* c) {
  TVMFunctionHandle function = NULL;
  int rc;
  owner = c;
  if (TVMFuncCreateFromCFunc(give_api, NULL, NULL, &function) != 0) return -1;
  rc = TVMFuncRegisterGlobal("device_api.opencl", function, 1);
  (void)TVMFuncFree(function);
  return rc;
}

void opencl_memory_close(void) {
  (void)pthread_mutex_lock(&blocks_lock);
  while (blocks != NULL) {
    block* b = blocks;
    blocks = b->next;
    free_block(b);
  }
  (void)pthread_mutex_unlock(&blocks_lock);
  owner = NULL;
}
