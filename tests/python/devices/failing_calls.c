/*
 * Functions of a device's library that fail on demand, as a full or lost device makes them: loaded
 * with RTLD_GLOBAL before the plug-in, it is found before the library. Built with -DOPENCL or -DDNNL,
 * and -DLIBRARY, the file of the functions that do the work.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static char failing[64];
static int left; /* calls that succeed before */
static int code;

/* The call `name` number `after` from now on fails with `status`, once. */
void fail_call(const char* name, int after, int status) {
  strncpy(failing, name, sizeof(failing) - 1);
  left = after;
  code = status;
}

/* Whether it was reached. */
int has_failed(void) { return left < 0; }

static int fails(const char* name) {
  return strcmp(name, failing) == 0 && left >= 0 && left-- == 0;
}

static void* find(const char* name) {
  void* library = dlopen(LIBRARY, RTLD_LAZY);
  void* symbol = library != NULL ? dlsym(library, name) : NULL;
  if (symbol == NULL) abort();
  return symbol;
}

#define STATUS(type, name, parameters, arguments)      \
  type name parameters {                               \
    type(*real) parameters;                            \
    *(void**)(&real) = find(#name);                    \
    return fails(#name) ? (type)code : real arguments; \
  }

#ifdef OPENCL
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#define HANDLE(type, name, parameters, arguments) \
  type name parameters {                          \
    type(*real) parameters;                       \
    *(void**)(&real) = find(#name);               \
    if (!fails(#name)) return real arguments;     \
    *status = code;                               \
    return NULL;                                  \
  }

HANDLE(cl_context, clCreateContext,
       (const cl_context_properties* a, cl_uint b, const cl_device_id* c,
        void(CL_CALLBACK* d)(const char*, const void*, size_t, void*), void* e, cl_int* status),
       (a, b, c, d, e, status))
HANDLE(cl_command_queue, clCreateCommandQueue,
       (cl_context a, cl_device_id b, cl_command_queue_properties c, cl_int* status),
       (a, b, c, status))
HANDLE(cl_mem, clCreateBuffer, (cl_context a, cl_mem_flags b, size_t c, void* d, cl_int* status),
       (a, b, c, d, status))
HANDLE(cl_program, clCreateProgramWithSource,
       (cl_context a, cl_uint b, const char** c, const size_t* d, cl_int* status),
       (a, b, c, d, status))
HANDLE(cl_program, clCreateProgramWithBinary,
       (cl_context a, cl_uint b, const cl_device_id* c, const size_t* d, const unsigned char** e,
        cl_int* f, cl_int* status),
       (a, b, c, d, e, f, status))
HANDLE(cl_kernel, clCreateKernel, (cl_program a, const char* b, cl_int* status), (a, b, status))
STATUS(cl_int, clGetPlatformIDs, (cl_uint a, cl_platform_id* b, cl_uint* c), (a, b, c))
STATUS(cl_int, clGetDeviceIDs,
       (cl_platform_id a, cl_device_type b, cl_uint c, cl_device_id* d, cl_uint* e),
       (a, b, c, d, e))
STATUS(cl_int, clGetDeviceInfo, (cl_device_id a, cl_device_info b, size_t c, void* d, size_t* e),
       (a, b, c, d, e))
STATUS(cl_int, clBuildProgram,
       (cl_program a, cl_uint b, const cl_device_id* c, const char* d,
        void(CL_CALLBACK* e)(cl_program, void*), void* f),
       (a, b, c, d, e, f))
STATUS(cl_int, clGetProgramInfo, (cl_program a, cl_program_info b, size_t c, void* d, size_t* e),
       (a, b, c, d, e))
STATUS(cl_int, clGetKernelInfo, (cl_kernel a, cl_kernel_info b, size_t c, void* d, size_t* e),
       (a, b, c, d, e))
STATUS(cl_int, clSetKernelArg, (cl_kernel a, cl_uint b, size_t c, const void* d), (a, b, c, d))
STATUS(cl_int, clEnqueueNDRangeKernel,
       (cl_command_queue a, cl_kernel b, cl_uint c, const size_t* d, const size_t* e,
        const size_t* f, cl_uint g, const cl_event* h, cl_event* i),
       (a, b, c, d, e, f, g, h, i))
STATUS(cl_int, clEnqueueWriteBuffer,
       (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, const void* f, cl_uint g,
        const cl_event* h, cl_event* i),
       (a, b, c, d, e, f, g, h, i))
STATUS(cl_int, clEnqueueReadBuffer,
       (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, void* f, cl_uint g,
        const cl_event* h, cl_event* i),
       (a, b, c, d, e, f, g, h, i))
STATUS(cl_int, clFlush, (cl_command_queue a), (a))
STATUS(cl_int, clWaitForEvents, (cl_uint a, const cl_event* b), (a, b))
#endif

#ifdef DNNL
#include <oneapi/dnnl/dnnl.h>

STATUS(dnnl_status_t, dnnl_engine_create, (dnnl_engine_t * a, dnnl_engine_kind_t b, size_t c),
       (a, b, c))
STATUS(dnnl_status_t, dnnl_stream_create, (dnnl_stream_t * a, dnnl_engine_t b, unsigned c),
       (a, b, c))
STATUS(dnnl_status_t, dnnl_stream_wait, (dnnl_stream_t a), (a))
STATUS(dnnl_status_t, dnnl_primitive_create, (dnnl_primitive_t * a, const_dnnl_primitive_desc_t b),
       (a, b))
STATUS(dnnl_status_t, dnnl_primitive_execute,
       (const_dnnl_primitive_t a, dnnl_stream_t b, int c, const dnnl_exec_arg_t* d), (a, b, c, d))
STATUS(dnnl_status_t, dnnl_primitive_attr_create, (dnnl_primitive_attr_t * a), (a))
STATUS(dnnl_status_t, dnnl_primitive_attr_set_post_ops,
       (dnnl_primitive_attr_t a, const_dnnl_post_ops_t b), (a, b))
STATUS(dnnl_status_t, dnnl_primitive_attr_set_scratchpad_mode,
       (dnnl_primitive_attr_t a, dnnl_scratchpad_mode_t b), (a, b))
STATUS(dnnl_status_t, dnnl_post_ops_create, (dnnl_post_ops_t * a), (a))
STATUS(dnnl_status_t, dnnl_memory_set_data_handle, (dnnl_memory_t a, void* b), (a, b))
#if DNNL_VERSION_MAJOR == 2
STATUS(dnnl_status_t, dnnl_memory_create,
       (dnnl_memory_t * a, const dnnl_memory_desc_t* b, dnnl_engine_t c, void* d), (a, b, c, d))
STATUS(dnnl_status_t, dnnl_primitive_desc_create,
       (dnnl_primitive_desc_t * a, const_dnnl_op_desc_t b, const_dnnl_primitive_attr_t c,
        dnnl_engine_t d, const_dnnl_primitive_desc_t e),
       (a, b, c, d, e))
STATUS(dnnl_status_t, dnnl_memory_desc_init_by_strides,
       (dnnl_memory_desc_t * a, int b, const dnnl_dims_t c, dnnl_data_type_t d,
        const dnnl_dims_t e),
       (a, b, c, d, e))
STATUS(dnnl_status_t, dnnl_reorder_primitive_desc_create,
       (dnnl_primitive_desc_t * a, const dnnl_memory_desc_t* b, dnnl_engine_t c,
        const dnnl_memory_desc_t* d, dnnl_engine_t e, const_dnnl_primitive_attr_t f),
       (a, b, c, d, e, f))
#endif
#endif
