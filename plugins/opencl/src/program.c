/* OpenCL programs.
 *
 * Implements the callbacks of the list of programs (program_cache.h): building from source, loading
 * binaries, releasing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl.h"

#define MAX_LOG_BYTES 2500 /* of the compiler's log in an error */

static const disk_cache disk = {"TVMRT_OPENCL_CACHE", "opencl", "clbin"};

/* Returns NULL without an error if the driver rejects the binary, such as another driver's; the
 * program is then built from source. */
static void* load(void* context, const program_source* text, const void* bytes, size_t size) {
  const opencl_context* c = context;
  const unsigned char* view = bytes;
  cl_int status = CL_SUCCESS, loaded = CL_SUCCESS;
  cl_program program =
      clCreateProgramWithBinary(c->context, 1, &c->device, &size, &view, &loaded, &status);
  if (status != CL_SUCCESS || loaded != CL_SUCCESS) return NULL;
  /* OpenCL requires building also for binaries */
  if (clBuildProgram(program, 1, &c->device, text->options, NULL, NULL) == CL_SUCCESS) {
    return program;
  }
  clReleaseProgram(program);
  return NULL;
}

/* NULL if there is none; the program is then built again next time. The caller frees it with
 * free(). */
static void* get_binary(cl_program program, size_t* out_size) {
  unsigned char* bytes;
  if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(*out_size), out_size, NULL) !=
          CL_SUCCESS ||
      *out_size == 0) {
    return NULL;
  }
  bytes = malloc(*out_size);
  if (bytes == NULL) return NULL;
  /* an array with a pointer per device of the program, here one */
  if (clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(bytes), &bytes, NULL) == CL_SUCCESS) {
    return bytes;
  }
  free(bytes);
  return NULL;
}

/* Returns -1. The error contains the beginning of the driver's log, where its first error is. The
 * caller releases the program. */
static int build_error(const opencl_context* c, const char* op_name, cl_program program,
                       cl_int status) {
  char log[MAX_LOG_BYTES] = "";
  char* full_log;
  size_t size = 0;
  (void)clGetProgramBuildInfo(program, c->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
  full_log = size == 0 ? NULL : calloc(1, size + 1);
  if (full_log != NULL) {
    (void)clGetProgramBuildInfo(program, c->device, CL_PROGRAM_BUILD_LOG, size, full_log, NULL);
    (void)snprintf(log, sizeof(log), "%s", full_log);
  }
  free(full_log);
  return device_fail("the OpenCL source of %s does not compile (%d):\n%s", op_name, (int)status,
                     log);
}

/* The binary is optional: a program without one works as well. */
static void* build(void* context, const program_source* text, void** out_bytes, size_t* out_size) {
  const opencl_context* c = context;
  const char* source = text->source;
  cl_int status;
  cl_program program = clCreateProgramWithSource(c->context, 1, &source, NULL, &status);
  if (opencl_check(status, "clCreateProgramWithSource") != 0) return NULL;
  status = clBuildProgram(program, 1, &c->device, text->options, NULL, NULL);
  if (status != CL_SUCCESS) {
    (void)build_error(c, text->op_name, program, status);
    clReleaseProgram(program);
    return NULL;
  }
  *out_bytes = get_binary(program, out_size);
  return program;
}

/* The context is not needed, since OpenCL objects retain theirs. */
static void release(void* context, void* program) {
  (void)context;
  clReleaseProgram(program);
}

/* The list keeps the programs in the process and on disk. */
int opencl_program_cache_open(opencl_context* c) {
  static const program_callbacks callbacks = {load, build, release};
  return program_cache_open(&c->programs, &callbacks, &disk, c);
}

/* *out is borrowed from the list. The driver's version is part of the key, since binaries are valid
 * only for it. */
int opencl_program(opencl_context* c, const program_source* text, cl_program* out) {
  const char* const key[] = {c->identity, text->options, text->source, NULL};
  *out = program_cache_get(&c->programs, text, key);
  return *out == NULL ? -1 : 0;
}
