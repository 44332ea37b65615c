/* OpenCL programs: a list of this process. Drivers have caches on disk of their own. */
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

int opencl_program(opencl_context* c, const program_source* text, cl_program* out) {
  (void)pthread_mutex_lock(&lock);
  *out = find(c, text);
  if (*out == NULL) {
    *out = build(c, text);
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
