/*
 * Parts of the device "opencl".
 *
 *   context.c   the platform's device, one context for the process
 *   program.c   programs, built once and cached in the process and on disk
 *   memory.c    memory of kDLOpenCL tensors: allocation and copies
 *   boundary.c    inputs and outputs of a run: used in place on the device, or copied
 *   image.c     operands that user kernels take as images
 *   plan.c      a region as buffers and kernels
 *   opencl.c    the slots
 *
 * Functions return 0, or -1 with the error text set, unless stated otherwise.
 */
#ifndef TVMRT_DEVICES_OPENCL_OPENCL_H_
#define TVMRT_DEVICES_OPENCL_OPENCL_H_

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/device.h>

#include "program_cache.h"
#include "registration.h"

/* Return -1 with an error text for the call, unless the status is success. */
int opencl_check(cl_int status, const char* call);

/* Context --------------------------------------------------------------------------------------- */

typedef struct {
  cl_platform_id platform;
  cl_device_id device;
  cl_context context;
  cl_command_queue queue; /* for copies outside regions */
  char* identity;         /* name and versions of device and driver: part of the key of programs */
  bool is_unified;        /* it works in the host's memory, as CPUs do */
  program_cache programs;
} opencl_context;

/*
 * Choose the first GPU, else accelerator, else any device; or the first device whose name contains
 * the value of the environment variable TVMRT_OPENCL_DEVICE.
 */
int opencl_context_create(opencl_context** out);
void opencl_context_free(opencl_context* c);

/* Programs -------------------------------------------------------------------------------------- */

/*
 * Get a program for a source and its build options: from the process, from the folder on disk
 * (TVMRT_OPENCL_CACHE, else tvmrt/opencl in the user's cache; an empty variable turns it off), or
 * built now. Borrowed; lives as long as the context. Errors contain the compiler's log.
 */
int opencl_program(opencl_context* c, const program_source* text, cl_program* out);
/* Open the list of a new context; program_cache_close() closes it. */
int opencl_program_cache_open(opencl_context* c);

/* Memory ---------------------------------------------------------------------------------------- */

/* Register "device_api.opencl", with which the runtime allocates and copies kDLOpenCL tensors. */
int opencl_memory_register(opencl_context* c);
/* Return the buffer that contains a tensor's address, and the offset in it; NULL if none. */
cl_mem opencl_memory_find(const void* address, size_t* out_offset);
/* Free all remaining blocks; the functions stay registered and fail from then on. */
void opencl_memory_close(void);

/* Regions --------------------------------------------------------------------------------------- */

typedef struct opencl_plan opencl_plan;

int opencl_plan_create(opencl_context* c, tvmrt_region* region, bool profile, opencl_plan** out);
/* Start a run; end it with opencl_plan_wait(), or opencl_plan_stop(), which waits and discards. */
int opencl_plan_start(opencl_plan* p, tvmrt_region* region);
/* As the slot async_wait: TVMRT_DEVICE_BUSY if try_wait is set and the run continues. */
int opencl_plan_wait(opencl_plan* p, int try_wait);
void opencl_plan_stop(opencl_plan* p);
void opencl_plan_free(opencl_plan* p);

/* Profile: one line per kernel (region, node, kernel, calls, nanoseconds, separated by tabs) of all
 * regions prepared with the option "profile". The caller calls free(); NULL if out of memory. */
char* opencl_profile_text(void);

/* Bytes copied by runs of regions: to the device, from it, within it. */
moved_bytes* opencl_moved(void);

#endif
