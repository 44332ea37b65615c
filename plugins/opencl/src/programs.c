/* OpenCL programs: a list of this process, over binaries on disk. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl.h"

#define MAX_LOG_BYTES 2500 /* of the compiler's log in an error */

/* Held also during compilation, so that a thread that wants the same program waits for it.
 * Compilations are therefore sequential, as most drivers require. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A program of this process; owned by the context's list. */
struct program {
  char* source;
  char* options;
  cl_program built;
  struct program* next;
};

/* Returns NULL without an error if the driver rejects the binary, such as another driver's; the
 * program is then built from source. */
static cl_program load(const opencl_context* c, const char* options, const void* bytes,
                       size_t size) {
  const unsigned char* view = bytes;
  cl_int status = CL_SUCCESS, loaded = CL_SUCCESS;
  cl_program program =
      clCreateProgramWithBinary(c->context, 1, &c->device, &size, &view, &loaded, &status);
  if (status != CL_SUCCESS || loaded != CL_SUCCESS) return NULL;
  /* OpenCL requires building also for binaries */
  if (clBuildProgram(program, 1, &c->device, options, NULL, NULL) == CL_SUCCESS) {
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
  return opencl_fail("the OpenCL source of %s does not compile (%d):\n%s", op_name, (int)status,
                     log);
}

static cl_program build(const opencl_context* c, const program_source* text) {
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
  return program;
}

/* Whole texts are compared, since hashes may collide. */
static cl_program find(const opencl_context* c, const program_source* text) {
  const struct program* p;
  for (p = c->programs; p != NULL; p = p->next) {
    if (strcmp(p->source, text->source) == 0 && strcmp(p->options, text->options) == 0) {
      return p->built;
    }
  }
  return NULL;
}

static void free_program(struct program* p) {
  clReleaseProgram(p->built);
  free(p->source);
  free(p->options);
  free(p);
}

/* Takes over the program, and releases it if out of memory. The texts are copied, since the list
 * outlives the nodes. */
static cl_program keep(opencl_context* c, const program_source* text, cl_program built) {
  struct program* p = calloc(1, sizeof(*p));
  if (p == NULL) {
    clReleaseProgram(built);
    (void)opencl_fail("out of memory");
    return NULL;
  }
  p->built = built;
  p->source = strdup(text->source);
  p->options = strdup(text->options);
  if (p->source == NULL || p->options == NULL) {
    free_program(p);
    (void)opencl_fail("out of memory");
    return NULL;
  }
  p->next = c->programs;
  c->programs = p;
  return built;
}

/* Load the program's binary from disk, or build the program and write its binary. The binary is
 * optional: a program without one works as well. The driver's version is part of the key, since
 * binaries are valid only for it. */
static cl_program load_or_build(const opencl_context* c, const program_source* text) {
  const char* const key[] = {c->identity, text->options, text->source, NULL};
  size_t size = 0;
  void* bytes = opencl_read_binary(key, &size);
  cl_program program = bytes == NULL ? NULL : load(c, text->options, bytes, size);
  free(bytes);
  if (program != NULL) return program;
  program = build(c, text);
  bytes = program == NULL ? NULL : get_binary(program, &size);
  if (bytes != NULL) opencl_write_binary(key, bytes, size);
  free(bytes);
  return program;
}

int opencl_program(opencl_context* c, const program_source* text, cl_program* out) {
  (void)pthread_mutex_lock(&lock);
  *out = find(c, text);
  if (*out == NULL) {
    *out = load_or_build(c, text);
    /* lint: the list of the context owns it */
    if (*out != NULL) *out = keep(c, text, *out);
  }
  (void)pthread_mutex_unlock(&lock);
  return *out == NULL ? -1 : 0;
}

/* Called when the context is not used any more: kernels of regions retain their programs. */
void opencl_programs_free(opencl_context* c) {
  while (c->programs != NULL) {
    struct program* p = c->programs;
    c->programs = p->next;
    free_program(p);
  }
}
