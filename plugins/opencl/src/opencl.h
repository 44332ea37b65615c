/*
 * Parts of the device "opencl". Each calls only those above it.
 *
 *   errors.c         error texts
 *   programs.c       programs, built once per process
 *   context.c        the platform's device; one context for the process
 *   memory.c         memory of kDLOpenCL tensors: allocation and copies
 *   kernel_node.c    attributes of kernel nodes
 *   images.c         operands that user kernels take as images
 *   buffers.c        buffers of a region's tensors, copies of inputs and outputs
 *   plan.c           a region as buffers and kernels
 *   opencl.c         the slots
 *
 * Functions return 0, or -1 with the error text set, unless stated otherwise.
 */
#ifndef TVMRT_PLUGINS_OPENCL_OPENCL_H_
#define TVMRT_PLUGINS_OPENCL_OPENCL_H_

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/device.h>

/* Errors ---------------------------------------------------------------------------------------- */

/* Set the error text; return -1. */
int opencl_fail(const char* format, ...);
/* Return -1 with an error text for the call, unless the status is success. */
int opencl_check(cl_int status, const char* call);

/* Programs -------------------------------------------------------------------------------------- */

/* A program to build: its source and options, and the operator's name for errors. */
typedef struct {
  const char* op_name;
  const char* source;
  const char* options;
} program_source;

typedef struct opencl_context {
  cl_platform_id platform;
  cl_device_id device;
  cl_context context;
  cl_command_queue queue;   /* for copies outside regions */
  struct program* programs; /* built so far */
} opencl_context;

/*
 * Get a program for a source and its build options, which is built once per process. Borrowed; lives
 * as long as the context. Errors contain the compiler's log. Thread-safe.
 */
int opencl_program(opencl_context* c, const program_source* text, cl_program* out);
void opencl_programs_free(opencl_context* c);

/* Context --------------------------------------------------------------------------------------- */

/*
 * Choose the first GPU, else accelerator, else any device; or the first device whose name contains
 * the value of the environment variable TVMRT_OPENCL_DEVICE.
 */
int opencl_context_create(opencl_context** out);
void opencl_context_free(opencl_context* c);

/* Memory ---------------------------------------------------------------------------------------- */

/* Register "device_api.opencl", with which the runtime allocates and copies kDLOpenCL tensors. */
int opencl_memory_register(opencl_context* c);
/* Return the buffer that contains a tensor's address, and the offset in it; NULL if none. */
cl_mem opencl_memory_find(const void* address, size_t* out_offset);
/* Free all remaining blocks; the functions stay registered and fail from then on. */
void opencl_memory_close(void);

/* Regions --------------------------------------------------------------------------------------- */

typedef struct opencl_plan opencl_plan;

int opencl_plan_create(opencl_context* c, tvmrt_region* region, opencl_plan** out);
/* Run the region. On return, also with an error, the caller's memory is no longer used. */
int opencl_plan_run(const opencl_plan* p, tvmrt_region* region);
void opencl_plan_free(opencl_plan* p);

#endif
