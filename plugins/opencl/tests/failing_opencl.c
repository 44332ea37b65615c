/* Functions of OpenCL that fail on demand. */
#include "failing_calls.h"

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
HANDLE(cl_kernel, clCreateKernel, (cl_program a, const char* b, cl_int* status), (a, b, status))
STATUS(cl_int, clBuildProgram,
       (cl_program a, cl_uint b, const cl_device_id* c, const char* d,
        void(CL_CALLBACK* e)(cl_program, void*), void* f),
       (a, b, c, d, e, f))
STATUS(cl_int, clSetKernelArg, (cl_kernel a, cl_uint b, size_t c, const void* d), (a, b, c, d))
STATUS(cl_int, clEnqueueNDRangeKernel,
       (cl_command_queue a, cl_kernel b, cl_uint c, const size_t* d, const size_t* e,
        const size_t* f, cl_uint g, const cl_event* h, cl_event* i),
       (a, b, c, d, e, f, g, h, i))
STATUS(cl_int, clEnqueueReadBuffer,
       (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, void* f, cl_uint g,
        const cl_event* h, cl_event* i),
       (a, b, c, d, e, f, g, h, i))
STATUS(cl_int, clWaitForEvents, (cl_uint a, const cl_event* b), (a, b))
