/* Mock OpenCL for the fuzz target of its regions: one device with heap memory; programs build
   unless they contain "#error"; kernels write one byte to each buffer. Programs are not cached
   on disk. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "fuzz.h"

enum { MAX_ARGUMENTS = 64, MAX_BUFFER_BYTES = 1 << 24 };

struct _cl_mem {
  size_t bytes;
  unsigned char* data;
  int extra_references;
};

struct _cl_program {
  char* source;
};

struct _cl_kernel {
  cl_uint arguments;
  cl_mem buffers[MAX_ARGUMENTS];
};

static __attribute__((constructor)) void keep_nothing(void) {
  FUZZ_REQUIRE(setenv("TVMRT_OPENCL_CACHE", "", 1) == 0);
}

static int some_object;
static cl_int fill(const void* value, size_t size, size_t capacity, void* out, size_t* out_size) {
  if (out_size != NULL) *out_size = size;
  if (out == NULL) return CL_SUCCESS;
  if (capacity < size) return CL_INVALID_VALUE;
  memcpy(out, value, size);
  return CL_SUCCESS;
}

cl_int clGetPlatformIDs(cl_uint capacity, cl_platform_id* out, cl_uint* count) {
  if (capacity > 0 && out != NULL) out[0] = (cl_platform_id)(void*)&some_object;
  if (count != NULL) *count = 1;
  return CL_SUCCESS;
}

cl_int clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint capacity,
                      cl_device_id* out, cl_uint* count) {
  (void)platform, (void)type;
  if (capacity > 0 && out != NULL) out[0] = (cl_device_id)(void*)&some_object;
  if (count != NULL) *count = 1;
  return CL_SUCCESS;
}

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t capacity, void* out,
                       size_t* size) {
  cl_device_type type = CL_DEVICE_TYPE_GPU;
  (void)device;
  if (what == CL_DEVICE_TYPE) return fill(&type, sizeof(type), capacity, out, size);
  return fill("pretended", 10, capacity, out, size);
}

cl_context clCreateContext(const cl_context_properties* properties, cl_uint count,
                           const cl_device_id* devices,
                           void(CL_CALLBACK* notify)(const char*, const void*, size_t, void*),
                           void* data, cl_int* status) {
  (void)properties, (void)count, (void)devices, (void)notify, (void)data;
  *status = CL_SUCCESS;
  return (cl_context)(void*)&some_object;
}

cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id device,
                                      cl_command_queue_properties properties, cl_int* status) {
  (void)context, (void)device, (void)properties;
  *status = CL_SUCCESS;
  return (cl_command_queue)(void*)&some_object;
}

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void* host,
                      cl_int* status) {
  cl_mem made;
  (void)context;
  *status = CL_MEM_OBJECT_ALLOCATION_FAILURE;
  if (bytes > MAX_BUFFER_BYTES) return NULL;
  made = malloc(sizeof(*made));
  FUZZ_REQUIRE(made != NULL && bytes > 0);
  made->bytes = bytes;
  made->extra_references = 0;
  made->data = calloc(1, bytes);
  FUZZ_REQUIRE(made->data != NULL);
  if (flags & CL_MEM_COPY_HOST_PTR) memcpy(made->data, host, bytes);
  *status = CL_SUCCESS;
  return made;
}

/* Tensors of fuzzed regions are in host memory. */
cl_mem clCreateSubBuffer(cl_mem buffer, cl_mem_flags flags, cl_buffer_create_type type,
                         const void* region, cl_int* status) {
  (void)buffer, (void)flags, (void)type, (void)region;
  *status = CL_MISALIGNED_SUB_BUFFER_OFFSET;
  return NULL;
}

/* Images are not supported, either. */
cl_mem clCreateImage(cl_context context, cl_mem_flags flags, const cl_image_format* format,
                     const cl_image_desc* desc, void* host, cl_int* status) {
  (void)context, (void)flags, (void)format, (void)desc, (void)host;
  *status = CL_IMAGE_FORMAT_NOT_SUPPORTED;
  return NULL;
}

cl_int clEnqueueCopyBufferToImage(cl_command_queue queue, cl_mem from, cl_mem to, size_t offset,
                                  const size_t* origin, const size_t* extents, cl_uint count,
                                  const cl_event* waits, cl_event* event) {
  (void)queue, (void)from, (void)to, (void)offset, (void)origin, (void)extents, (void)count;
  (void)waits, (void)event;
  return CL_INVALID_MEM_OBJECT;
}

cl_int clEnqueueCopyImageToBuffer(cl_command_queue queue, cl_mem from, cl_mem to,
                                  const size_t* origin, const size_t* extents, size_t offset,
                                  cl_uint count, const cl_event* waits, cl_event* event) {
  return clEnqueueCopyBufferToImage(queue, from, to, offset, origin, extents, count, waits, event);
}

cl_int clRetainMemObject(cl_mem buffer) {
  ++buffer->extra_references;
  return CL_SUCCESS;
}

cl_int clReleaseMemObject(cl_mem buffer) {
  if (buffer->extra_references-- > 0) return CL_SUCCESS;
  free(buffer->data);
  free(buffer);
  return CL_SUCCESS;
}

static cl_event event_of(cl_event* out) {
  if (out != NULL) *out = (cl_event)(void*)&some_object;
  return (cl_event)(void*)&some_object;
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset,
                            size_t bytes, const void* from, cl_uint count, const cl_event* waits,
                            cl_event* event) {
  (void)queue, (void)blocking, (void)count, (void)waits, (void)event_of(event);
  FUZZ_REQUIRE(offset <= buffer->bytes && bytes <= buffer->bytes - offset);
  memcpy(buffer->data + offset, from, bytes);
  return CL_SUCCESS;
}

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset,
                           size_t bytes, void* to, cl_uint count, const cl_event* waits,
                           cl_event* event) {
  (void)queue, (void)blocking, (void)count, (void)waits, (void)event_of(event);
  FUZZ_REQUIRE(offset <= buffer->bytes && bytes <= buffer->bytes - offset);
  memcpy(to, buffer->data + offset, bytes);
  return CL_SUCCESS;
}

cl_int clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint count, const cl_event* waits,
                                   cl_event* event) {
  (void)queue, (void)count, (void)waits, (void)event_of(event);
  return CL_SUCCESS;
}

cl_int clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset,
                           size_t to_offset, size_t bytes, cl_uint count, const cl_event* waits,
                           cl_event* event) {
  return clEnqueueWriteBuffer(queue, to, CL_TRUE, to_offset, bytes, from->data + from_offset, count,
                              waits, event);
}

cl_program clCreateProgramWithSource(cl_context context, cl_uint count, const char** texts,
                                     const size_t* sizes, cl_int* status) {
  cl_program made = malloc(sizeof(*made));
  (void)context;
  FUZZ_REQUIRE(made != NULL && count == 1);
  made->source = sizes == NULL ? strdup(texts[0]) : strndup(texts[0], sizes[0]);
  FUZZ_REQUIRE(made->source != NULL);
  *status = CL_SUCCESS;
  return made;
}

cl_program clCreateProgramWithBinary(cl_context context, cl_uint count, const cl_device_id* devices,
                                     const size_t* sizes, const unsigned char** bytes,
                                     cl_int* statuses, cl_int* status) {
  (void)context, (void)count, (void)devices, (void)sizes, (void)bytes, (void)statuses;
  *status = CL_INVALID_BINARY;
  return NULL;
}

cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id* devices,
                      const char* options, void(CL_CALLBACK* notify)(cl_program, void*),
                      void* data) {
  (void)count, (void)devices, (void)options, (void)notify, (void)data;
  return strstr(program->source, "#error") == NULL ? CL_SUCCESS : CL_BUILD_PROGRAM_FAILURE;
}

cl_int clGetProgramBuildInfo(cl_program program, cl_device_id device, cl_program_build_info what,
                             size_t capacity, void* out, size_t* size) {
  (void)program, (void)device, (void)what;
  return fill("an #error stands in it", 23, capacity, out, size);
}

cl_int clGetProgramInfo(cl_program program, cl_program_info what, size_t capacity, void* out,
                        size_t* size) {
  size_t none = 0;
  (void)program;
  if (what != CL_PROGRAM_BINARY_SIZES) return CL_INVALID_VALUE;
  return fill(&none, sizeof(none), capacity, out, size);
}

cl_int clReleaseProgram(cl_program program) {
  free(program->source);
  free(program);
  return CL_SUCCESS;
}

/* Parameters between the function's name and the next parenthesis. */
static cl_uint count_parameters(const char* at) {
  cl_uint count = 1;
  for (; *at != '\0' && *at != ')'; ++at) count += *at == ',';
  return count;
}

cl_kernel clCreateKernel(cl_program program, const char* name, cl_int* status) {
  const char* at = strstr(program->source, name);
  cl_kernel made;
  *status = CL_INVALID_KERNEL_NAME;
  if (at == NULL || name[0] == '\0') return NULL;
  made = calloc(1, sizeof(*made));
  FUZZ_REQUIRE(made != NULL);
  made->arguments = count_parameters(at);
  *status = CL_SUCCESS;
  return made;
}

cl_int clGetKernelInfo(cl_kernel kernel, cl_kernel_info what, size_t capacity, void* out,
                       size_t* size) {
  if (what != CL_KERNEL_NUM_ARGS) return CL_INVALID_VALUE;
  return fill(&kernel->arguments, sizeof(kernel->arguments), capacity, out, size);
}

cl_int clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void* value) {
  if (index >= kernel->arguments) return CL_INVALID_ARG_INDEX;
  if (size == sizeof(cl_mem) && index < MAX_ARGUMENTS) {
    memcpy(&kernel->buffers[index], value, size);
  }
  return CL_SUCCESS;
}

cl_int clReleaseKernel(cl_kernel kernel) {
  free(kernel);
  return CL_SUCCESS;
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const size_t* offset, const size_t* global, const size_t* local,
                              cl_uint count, const cl_event* waits, cl_event* event) {
  cl_uint i;
  (void)queue, (void)offset, (void)local, (void)count, (void)waits, (void)event_of(event);
  if (dimensions < 1 || dimensions > 3) return CL_INVALID_WORK_DIMENSION;
  for (i = 0; i < dimensions; ++i) FUZZ_REQUIRE(global[i] > 0);
  for (i = 0; i < MAX_ARGUMENTS; ++i) {
    if (kernel->buffers[i] != NULL) kernel->buffers[i]->data[kernel->buffers[i]->bytes - 1] = 1;
  }
  return CL_SUCCESS;
}

cl_int clGetEventInfo(cl_event event, cl_event_info what, size_t capacity, void* out,
                      size_t* size) {
  cl_int done = CL_COMPLETE;
  (void)event, (void)what;
  return fill(&done, sizeof(done), capacity, out, size);
}

cl_int clGetEventProfilingInfo(cl_event event, cl_profiling_info what, size_t capacity, void* out,
                               size_t* size) {
  cl_ulong at = what;
  (void)event;
  return fill(&at, sizeof(at), capacity, out, size);
}

cl_int clWaitForEvents(cl_uint count, const cl_event* events) {
  (void)count, (void)events;
  return CL_SUCCESS;
}

#define FINISHES(name, type) \
  cl_int name(type object) { \
    (void)object;            \
    return CL_SUCCESS;       \
  }
FINISHES(clFinish, cl_command_queue)
FINISHES(clFlush, cl_command_queue)
FINISHES(clReleaseCommandQueue, cl_command_queue)
FINISHES(clReleaseContext, cl_context)
FINISHES(clReleaseEvent, cl_event)
