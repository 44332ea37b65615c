/* Tensor memory on the device. A tensor's address is in a reserved, inaccessible range of the
 * process's address space. A list maps these ranges to buffers, so byte offsets work as on the
 * host.
 *
 * Handles are reference-counted by the driver, so a buffer in use by a run outlives its freed
 * block. The list has a lock, which is held only during a look-up, never during driver calls; all
 * functions are thread-safe. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <tvm/runtime/memory_device.h>

#include "opencl.h"

/* A linked list, since there are few blocks and look-ups are rare. */
typedef struct block {
  char* address;
  size_t bytes;
  cl_mem handle;
  struct block* next;
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block* blocks;
static opencl_context* owner; /* NULL while no device is registered */

/* The only device has number 0. */
static int device_exists(int device_id) { return device_id == 0 && owner != NULL; }

/* Free the buffer, if any, the address range, and the entry. */
static void free_block(block* b) {
  if (b->handle != NULL) clReleaseMemObject(b->handle);
  if (b->address != NULL) (void)munmap(b->address, b->bytes);
  free(b);
}

/* Reserve the addresses and create the buffer; on failure the caller frees the block. */
static int fill_block(block* b) {
  cl_int status = CL_SUCCESS;
  void* at = mmap(NULL, b->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    return opencl_fail("no device addresses are left for %zu bytes", b->bytes);
  }
  b->address = at;
  b->handle = clCreateBuffer(owner->context, CL_MEM_READ_WRITE, b->bytes, NULL, &status);
  return opencl_check(status, "clCreateBuffer");
}

/* *out must be freed with release_block(). Accessing the address on the host would crash the
 * process. */
static int alloc_block(DLDevice dev, size_t bytes, size_t align, void** out) {
  block* b;
  (void)align; /* pages have a larger alignment than any request */
  *out = NULL;
  if (!device_exists(dev.device_id)) {
    return opencl_fail("there is no OpenCL device %d", dev.device_id);
  }
  b = calloc(1, sizeof(*b));
  if (b == NULL) return opencl_fail("out of memory");
  b->bytes = bytes == 0 ? 1 : bytes; /* mmap and OpenCL reject empty blocks */
  if (fill_block(b) != 0) {
    free_block(b);
    return -1;
  }
  *out = b->address;
  (void)pthread_mutex_lock(&lock);
  b->next = blocks;
  blocks = b;
  (void)pthread_mutex_unlock(&lock);
  return 0;
}

/* Remove the block that begins at an address, or any block for NULL; NULL if there is none. */
static block* take_block(const void* address) {
  block **at, *found;
  (void)pthread_mutex_lock(&lock);
  at = &blocks;
  while (*at != NULL && address != NULL && (*at)->address != address) at = &(*at)->next;
  found = *at;
  if (found != NULL) *at = found->next;
  (void)pthread_mutex_unlock(&lock);
  return found;
}

/* Only start addresses of blocks are accepted. */
static int release_block(DLDevice dev, void* address) {
  block* found = address == NULL ? NULL : take_block(address);
  (void)dev;
  if (found == NULL) return opencl_fail("the address does not belong to the OpenCL device");
  free_block(found);
  return 0;
}

/* Also finds addresses inside a block, since tensors have byte offsets. Borrowed: the tensor keeps
 * the block alive. */
cl_mem opencl_memory_find(const void* address, size_t* out_offset) {
  const uintptr_t target = (uintptr_t)address;
  cl_mem found = NULL;
  const block* b;
  (void)pthread_mutex_lock(&lock);
  for (b = blocks; b != NULL && found == NULL; b = b->next) {
    const uintptr_t begin = (uintptr_t)b->address;
    if (target < begin || target - begin >= b->bytes) continue;
    *out_offset = (size_t)(target - begin);
    found = b->handle;
  }
  (void)pthread_mutex_unlock(&lock);
  return found;
}

/* Complete on return, so there is nothing to synchronise. All copies of the process share one queue and are
 * sequential. */
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
    /* unlike the blocking read and write below */
    if (status == CL_SUCCESS) status = clFinish(owner->queue);
  } else if (target != NULL) {
    status =
        clEnqueueWriteBuffer(owner->queue, target, CL_TRUE, to_offset, bytes, from, 0, NULL, NULL);
  } else if (source != NULL) {
    status =
        clEnqueueReadBuffer(owner->queue, source, CL_TRUE, from_offset, bytes, to, 0, NULL, NULL);
  } else {
    return opencl_fail("neither address of the copy belongs to the OpenCL device");
  }
  return opencl_check(status, "copying");
}

static const tvmrt_memory_device api = {.struct_bytes = sizeof(tvmrt_memory_device),
                                        .name = "opencl",
                                        .exists = device_exists,
                                        .alloc = alloc_block,
                                        .free = release_block,
                                        .copy = copy};

/* Returns the address of a struct, since packed functions cannot return structs. The cast removes
 * the const, which the reader restores. */
static int return_api(TVMValue* args, int* type_codes, int num_args, TVMRetValueHandle ret,
                      void* resource) {
  TVMValue value = {.v_handle = (void*)(uintptr_t)&api};
  int code = kTVMOpaqueHandle;
  (void)args;
  (void)type_codes;
  (void)num_args;
  (void)resource;
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

/* Allocation is possible afterwards; the context stays the device's. The registry retains the
 * function, and replaces that of an earlier registration. */
int opencl_memory_register(opencl_context* c) {
  TVMFunctionHandle handle = NULL;
  int rc;
  owner = c;
  if (TVMFuncCreateFromCFunc(return_api, NULL, NULL, &handle) != 0) return -1;
  rc = TVMFuncRegisterGlobal("device_api.opencl", handle, 1);
  (void)TVMFuncFree(handle);
  return rc;
}

/* Blocks still in use lose their memory; freeing them later fails with an unknown address. */
void opencl_memory_close(void) {
  block* b;
  while ((b = take_block(NULL)) != NULL) free_block(b);
  owner = NULL;
}
