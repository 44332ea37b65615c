/* OpenCL programs.
 *
 * Implements the callbacks of the list of programs (programs.h): building from source, loading
 * binaries, releasing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl.h"

#define MAX_LOG_BYTES 2500 /* of the compiler's log in an error */

static const program_store disk = {"TVMRT_OPENCL_CACHE", "opencl", "clbin"};

/* Returns NULL without an error if the driver rejects the binary, such as another driver's; the
 * program is then built from source. */
static void* load(void* context, const program_text* text, const void* bytes, size_t size) {
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
static int build_error(const opencl_context* c, const char* who, cl_program program,
                       cl_int status) {
  char log[MAX_LOG_BYTES] = "";
  char* whole;
  size_t size = 0;
  (void)clGetProgramBuildInfo(program, c->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
  whole = size == 0 ? NULL : calloc(1, size + 1);
  if (whole != NULL) {
    (void)clGetProgramBuildInfo(program, c->device, CL_PROGRAM_BUILD_LOG, size, whole, NULL);
    (void)snprintf(log, sizeof(log), "%s", whole);
  }
  free(whole);
  return device_fail("the OpenCL source of %s does not compile (%d):\n%s", who, (int)status, log);
}

/* The binary is optional: a program without one works as well. */
static void* build(void* context, const program_text* text, void** out_bytes, size_t* out_size) {
  const opencl_context* c = context;
  const char* source = text->source;
  cl_int status;
  cl_program program = clCreateProgramWithSource(c->context, 1, &source, NULL, &status);
  if (opencl_check(status, "clCreateProgramWithSource") != 0) return NULL;
  status = clBuildProgram(program, 1, &c->device, text->options, NULL, NULL);
  if (status != CL_SUCCESS) {
    (void)build_error(c, text->who, program, status);
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
int opencl_programs_open(opencl_context* c) {
  static const program_maker maker = {load, build, release};
  return programs_open(&c->programs, &maker, &disk, c);
}

/* *out is borrowed from the list. The driver's version is part of the key, since binaries are valid
 * only for it. */
int opencl_program(opencl_context* c, const program_text* text, cl_program* out) {
  const char* const key[] = {c->identity, text->options, text->source, NULL};
  *out = programs_get(&c->programs, text, key);
  return *out == NULL ? -1 : 0;
}
