/*
 * The parts of the device "cuda".
 *
 *   api.c      NVIDIA's libraries, loaded at run time
 *   context.c  the GPU, one context for the process
 *   program.c  programs, built once and cached in the process and on disk
 *   memory.c   memory of kDLCUDA tensors: allocation, copies, streams
 *   plan.c     a region as kernels, products and places in the GPU's memory
 *   product.c  products by cuBLAS
 *   run.c      runs of a plan: copies in, kernels, copies out
 *   cuda.c     the slots
 *
 * Functions return 0, or -1 with the error text set, unless they say more. Those that call the driver
 * run between cuda_enter() and cuda_leave().
 */
#ifndef TVMRT_DEVICES_CUDA_CUDA_H_
#define TVMRT_DEVICES_CUDA_CUDA_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/device.h>

#include "../shared/programs.h"
#include "../shared/told.h"
#include "nvidia.h"

/* Libraries ------------------------------------------------------------------------------------- */

int cuda_driver_load(cuda_driver* out);
int cuda_compiler_load(cuda_compiler* out);
int cuda_products_load(cuda_products* out);

/* Context --------------------------------------------------------------------------------------- */

typedef struct {
  cuda_driver driver;
  cuda_compiler compiler;
  cuda_products products; /* loaded by the first plan that has one */
  bool has_products;
  int device;
  int capability; /* 90 of 9.0 */
  CUcontext context;
  CUstream stream;    /* for copies that belong to no region */
  char identity[512]; /* GPU and versions: part of the key of programs */
  program_list programs;
} cuda_context;

/* -1 with a text that names the call and the driver's error, unless the status is success. */
int cuda_check(const cuda_context* c, int status, const char* call);

/* GPU 0, as the driver counts: CUDA_VISIBLE_DEVICES says which that is. */
int cuda_context_create(cuda_context** out);
void cuda_context_free(cuda_context* c);
/* The context is the thread's current one between these. */
int cuda_enter(const cuda_context* c);
void cuda_leave(const cuda_context* c);

/* Programs -------------------------------------------------------------------------------------- */

/*
 * A program for a source and its build options, separated by blanks: from the process, from the folder
 * on disk (TVMRT_CUDA_CACHE, else tvmrt/cuda in the user's cache; an empty variable turns it off), or
 * built now. Borrowed; lives as long as the context. Errors carry the compiler's log.
 */
int cuda_program(cuda_context* c, const program_text* text, CUmodule* out);
/* The list of an empty context; programs_close() closes it. */
int cuda_programs_open(cuda_context* c);

/* Memory ---------------------------------------------------------------------------------------- */

/* Registers "device_api.cuda", by which the runtime's TVMDeviceAllocDataSpace and copies serve tensors
 * of kDLCUDA. */
int cuda_memory_register(cuda_context* c);
/* Frees what nobody freed; the functions stay registered and fail from then on. */
void cuda_memory_close(void);

/* Regions --------------------------------------------------------------------------------------- */

typedef struct cuda_plan cuda_plan;

/* `base` may be NULL: a plan of the same region whose weights the new one reads, which lives longer. */
int cuda_plan_create(cuda_context* c, tvmrt_region* region, const cuda_plan* base, cuda_plan** out);
/* Start a run; it ends by cuda_plan_wait(), or by cuda_plan_stop(), which waits and drops it. */
int cuda_plan_start(cuda_plan* p, tvmrt_region* region);
/* As the slot async_wait: TVMRT_DEVICE_BUSY if try_wait and the run has not ended. */
int cuda_plan_wait(cuda_plan* p, int try_wait);
void cuda_plan_stop(cuda_plan* p);
/* Enters the context by itself. */
void cuda_plan_free(cuda_plan* p);

/* Bytes that runs of regions have copied: to the GPU, from it, within it. */
moved_bytes* cuda_moved(void);

#endif
