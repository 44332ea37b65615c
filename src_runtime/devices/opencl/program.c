/* Programs, built once: a list in the process, files on disk. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../store/store.h"
#include "opencl.h"

#define MAX_LOG_BYTES 2500 /* of the compiler's log in an error */

struct program {
  char* source;
  char* options;
  cl_program program;
  struct program* next;
};

/* Disk ------------------------------------------------------------------------------------------ */

static const store programs = {"TVMRT_OPENCL_CACHE", "opencl", "clbin"};

/* A built program from its file; NULL if there is none that fits. */
static cl_program load_program(const opencl_context* c, const store_entry* entry,
                               const char* options) {
  cl_program program = NULL;
  cl_int status = CL_SUCCESS, loaded = CL_SUCCESS;
  size_t size = 0;
  unsigned char* bytes = store_entry_read(entry, &size);
  const unsigned char* view = bytes;
  if (bytes == NULL) return NULL;
  program = clCreateProgramWithBinary(c->context, 1, &c->device, &size, &view, &loaded, &status);
  free(bytes);
  if (status != CL_SUCCESS || loaded != CL_SUCCESS) return NULL;
  /* OpenCL wants programs built that come from binaries, too */
  if (clBuildProgram(program, 1, &c->device, options, NULL, NULL) == CL_SUCCESS) return program;
  clReleaseProgram(program);
  return NULL;
}

static void save_program(const store_entry* entry, cl_program program) {
  unsigned char* bytes;
  size_t size = 0;
  if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(size), &size, NULL) != CL_SUCCESS ||
      size == 0) {
    return;
  }
  bytes = malloc(size);
  if (bytes == NULL) return;
  /* an array with a pointer for each device of the program, of which there is one */
  if (clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(bytes), &bytes, NULL) == CL_SUCCESS) {
    store_entry_write(entry, bytes, size);
  }
  free(bytes);
}

/* Building -------------------------------------------------------------------------------------- */

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
  return opencl_fail("the OpenCL source of %s does not compile (%d):\n%s", who, (int)status, log);
}

static int build_program(const opencl_context* c, const char* who, const char* source,
                         const char* options, cl_program* out) {
  cl_int status;
  cl_program program = clCreateProgramWithSource(c->context, 1, &source, NULL, &status);
  if (opencl_check(status, "clCreateProgramWithSource") != 0) return -1;
  status = clBuildProgram(program, 1, &c->device, options, NULL, NULL);
  if (status != CL_SUCCESS) {
    int rc = build_error(c, who, program, status);
    clReleaseProgram(program);
    return rc;
  }
  *out = program;
  return 0;
}

static int keep(opencl_context* c, const char* source, const char* options, cl_program program) {
  struct program* p = calloc(1, sizeof(*p));
  if (p != NULL) {
    p->source = strdup(source);
    p->options = strdup(options);
  }
  if (p == NULL || p->source == NULL || p->options == NULL) {
    if (p != NULL) {
      free(p->source);
      free(p->options);
    }
    free(p);
    clReleaseProgram(program);
    return opencl_fail("out of memory");
  }
  p->program = program;
  p->next = c->programs;
  c->programs = p;
  return 0;
}

static int find_or_build(opencl_context* c, const char* who, const char* source,
                         const char* options, cl_program* out) {
  const char* const key[] = {c->identity, options, source, NULL};
  const struct program* p;
  store_entry entry;
  bool on_disk;
  for (p = c->programs; p != NULL; p = p->next) {
    if (strcmp(p->source, source) == 0 && strcmp(p->options, options) == 0) {
      *out = p->program;
      return 0;
    }
  }
  on_disk = store_entry_find(&programs, key, &entry);
  *out = on_disk ? load_program(c, &entry, options) : NULL;
  if (*out == NULL) {
    if (build_program(c, who, source, options, out) != 0) return -1;
    if (on_disk) save_program(&entry, *out);
  }
  return keep(c, source, options, *out);
}

int opencl_program(opencl_context* c, const char* who, const char* source, const char* options,
                   cl_program* out) {
  int rc;
  (void)pthread_mutex_lock(c->lock);
  rc = find_or_build(c, who, source, options, out);
  (void)pthread_mutex_unlock(c->lock);
  return rc;
}

void opencl_programs_free(opencl_context* c) {
  while (c->programs != NULL) {
    struct program* p = c->programs;
    c->programs = p->next;
    clReleaseProgram(p->program);
    free(p->source);
    free(p->options);
    free(p);
  }
}
