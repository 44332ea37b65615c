/*
 * The parts of the device "opencl".
 *
 *   context.c   the platform's device, one context for the process
 *   program.c   programs, built once and cached in the process and on disk
 *   memory.c    memory of kDLOpenCL tensors: allocation and copies
 *   border.c    the inputs and outputs of a run: in their place on the device, or copied
 *   image.c     operands that kernels of the user's take as images
 *   plan.c      a region as buffers and kernels
 *   opencl.c    the slots
 *
 * Functions return 0, or -1 with the error text set, unless they say more.
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

#include "programs.h"
#include "told.h"

/* -1 with a text that names the call and the error, unless the status is success. */
int opencl_check(cl_int status, const char* call);

/* Context --------------------------------------------------------------------------------------- */

typedef struct {
  cl_platform_id platform;
  cl_device_id device;
  cl_context context;
  cl_command_queue queue; /* for copies that belong to no region */
  char* identity;         /* name and versions of device and driver: part of the key of programs */
  bool is_unified;        /* it works in the host's memory, as processors do */
  program_list programs;
} opencl_context;

/*
 * The first GPU, else accelerator, else whatever there is; or the first whose name contains the text of
 * the environment variable TVMRT_OPENCL_DEVICE.
 */
int opencl_context_create(opencl_context** out);
void opencl_context_free(opencl_context* c);

/* Programs -------------------------------------------------------------------------------------- */

/*
 * A program for a source and its build options: from the process, from the folder on disk
 * (TVMRT_OPENCL_CACHE, else tvmrt/opencl in the user's cache; an empty variable turns it off), or built
 * now. Borrowed; lives as long as the context. Errors carry the compiler's log.
 */
int opencl_program(opencl_context* c, const program_text* text, cl_program* out);
/* The list of an empty context; programs_close() closes it. */
int opencl_programs_open(opencl_context* c);

/* Memory ---------------------------------------------------------------------------------------- */

/* Registers "device_api.opencl", by which the runtime's TVMDeviceAllocDataSpace and copies serve
 * tensors of kDLOpenCL. */
int opencl_memory_register(opencl_context* c);
/* The buffer in which an address of such a tensor lies, and the place in it; NULL if it is none. */
cl_mem opencl_memory_find(const void* address, size_t* out_offset);
/* Frees what nobody freed; the functions stay registered and fail from then on. */
void opencl_memory_close(void);

/* Regions --------------------------------------------------------------------------------------- */

typedef struct opencl_plan opencl_plan;

int opencl_plan_create(opencl_context* c, tvmrt_region* region, bool profile, opencl_plan** out);
/* Start a run; it ends by opencl_plan_wait(), or by opencl_plan_stop(), which waits and drops it. */
int opencl_plan_start(opencl_plan* p, tvmrt_region* region);
/* As the slot async_wait: TVMRT_DEVICE_BUSY if try_wait and the run has not ended. */
int opencl_plan_wait(opencl_plan* p, int try_wait);
void opencl_plan_stop(opencl_plan* p);
void opencl_plan_free(opencl_plan* p);

/* Profile: a line a kernel (region, node, kernel, calls, nanoseconds, with tabs between), of all regions that were
 * prepared with the option "profile"; owned by the caller (free()), NULL without memory. */
char* opencl_profile_text(void);

/* Bytes that runs of regions have copied: to the device, from it, within it. */
moved_bytes* opencl_moved(void);

#endif
