/* Tensor memory on the device. A tensor's address is in a reserved, inaccessible range of the
 * process's address space. A list maps these ranges to buffers, so byte offsets work as on the
 * host.
 *
 * Handles are reference-counted by the driver, so a buffer in use by a run outlives its freed
 * block. The list of blocks has a lock; all functions are thread-safe. */
#include <stdint.h>
#include <sys/mman.h>

#include "memory_blocks.h"
#include "opencl.h"

static memory_blocks blocks = BLOCKS_INIT;
static opencl_context* owner; /* NULL while no device is registered */

/* The only device has number 0. */
static int device_exists(int device_id) { return device_id == 0 && owner != NULL; }

/* Free the buffer, if any, and the address range. */
static void free_block(const memory_block* b) {
  if (b->handle != NULL) clReleaseMemObject(b->handle);
  (void)munmap(b->address, b->bytes);
}

/* *out must be freed with release_block(). Accessing the address on the host would crash the
 * process. */
static int alloc_block(DLDevice dev, size_t bytes, size_t align, void** out) {
  memory_block b = {NULL, bytes == 0 ? 1 : bytes, NULL}; /* mmap and OpenCL reject empty blocks */
  cl_int status = CL_SUCCESS;
  (void)align; /* pages have a larger alignment than any request */
  *out = NULL;
  if (!device_exists(dev.device_id))
    return device_fail("there is no OpenCL device %d", dev.device_id);
  b.address = mmap(NULL, b.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (b.address == MAP_FAILED)
    return device_fail("no device addresses are left for %zu bytes", bytes);
  b.handle = clCreateBuffer(owner->context, CL_MEM_READ_WRITE, b.bytes, NULL, &status);
  if (opencl_check(status, "clCreateBuffer") != 0 || blocks_add(&blocks, &b) != 0) {
    free_block(&b);
    return -1;
  }
  *out = b.address;
  return 0;
}

/* Only start addresses of blocks are accepted. */
static int release_block(DLDevice dev, void* address) {
  memory_block found;
  (void)dev;
  if (address == NULL || !blocks_take(&blocks, address, &found)) {
    return device_fail("the address does not belong to the OpenCL device");
  }
  free_block(&found);
  return 0;
}

/* Borrowed: the tensor keeps the block alive. */
cl_mem opencl_memory_find(const void* address, size_t* out_offset) {
  memory_block found;
  if (!blocks_find(&blocks, address, &found)) return NULL;
  *out_offset = (size_t)((const char*)address - found.address);
  return found.handle;
}

/* Complete on return, since there are no streams. All copies of the process share one queue and are
 * sequential. */
static int copy(DLDevice from_dev, const void* from, DLDevice to_dev, void* to, size_t bytes,
                TVMStreamHandle stream) {
  size_t from_offset = 0, to_offset = 0;
  cl_mem source = from_dev.device_type == kDLOpenCL ? opencl_memory_find(from, &from_offset) : NULL;
  cl_mem target = to_dev.device_type == kDLOpenCL ? opencl_memory_find(to, &to_offset) : NULL;
  cl_int status;
  (void)stream;
  if (owner == NULL) return device_fail("the OpenCL device is unregistered");
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
    return device_fail("neither address of the copy belongs to the OpenCL device");
  }
  return opencl_check(status, "copying");
}

/* Waits for the queue of copies; each region has its own queue, which the runtime waits for. */
static int synchronize(DLDevice dev, TVMStreamHandle stream) {
  (void)dev;
  (void)stream;
  return owner == NULL ? 0 : opencl_check(clFinish(owner->queue), "clFinish");
}

static const tvmrt_memory_device api = {.struct_bytes = sizeof(tvmrt_memory_device),
                                        .name = "opencl",
                                        .exists = device_exists,
                                        .alloc = alloc_block,
                                        .free = release_block,
                                        .copy = copy,
                                        .stream_sync = synchronize};

/* Allocation is possible afterwards; the context stays the device's. */
int opencl_memory_register(opencl_context* c) {
  owner = c;
  return register_memory_api("device_api.opencl", &api);
}

/* Blocks still in use lose their memory; freeing them later fails with an unknown address. */
void opencl_memory_close(void) {
  memory_block b;
  while (blocks_take(&blocks, NULL, &b)) free_block(&b);
  owner = NULL;
}
