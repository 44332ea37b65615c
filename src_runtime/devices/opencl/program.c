/*
 * Programs, built once: a list in the process, files on disk.
 *
 * A file holds the device's identity, the options, the source and the binary, each as a u64 length and
 * its bytes. Its name is a hash of the first three; they are compared when it is read, so that another
 * program under the same name is no more than a miss. Files are written aside and renamed.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "opencl.h"

#define MAX_PATH_BYTES 4096
#define MAX_LOG_BYTES 2500 /* of the compiler's log in an error */

struct program {
  char* source;
  char* options;
  cl_program program;
  struct program* next;
};

/* Disk ------------------------------------------------------------------------------------------ */

static uint64_t hash_text(uint64_t hash, const char* text) {
  for (; *text != '\0'; ++text) hash = (hash ^ (uint8_t)*text) * UINT64_C(1099511628211);
  return hash * UINT64_C(1099511628211); /* so that the texts' border counts */
}

/* Make a folder and those above it; whether it is there. */
static bool make_folder(char* path) {
  char* at;
  for (at = path + 1; *at != '\0'; ++at) {
    if (*at != '/') continue;
    *at = '\0';
    (void)mkdir(path, 0700);
    *at = '/';
  }
  return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* The program's file; false if programs are not to be kept. */
static bool file_of(const opencl_context* c, const char* source, const char* options, char* out) {
  const char* folder = getenv("TVMRT_OPENCL_CACHE");
  const char* cache = getenv("XDG_CACHE_HOME");
  const char* home = getenv("HOME");
  uint64_t hash = hash_text(UINT64_C(14695981039346656037), c->identity);
  int n;
  if (folder != NULL) {
    n = snprintf(out, MAX_PATH_BYTES, "%s", folder);
  } else if (cache != NULL && cache[0] == '/') {
    n = snprintf(out, MAX_PATH_BYTES, "%s/tvmrt/opencl", cache);
  } else if (home != NULL && home[0] == '/') {
    n = snprintf(out, MAX_PATH_BYTES, "%s/.cache/tvmrt/opencl", home);
  } else {
    return false;
  }
  if (n <= 0 || n > MAX_PATH_BYTES - 64 || !make_folder(out)) return false;
  hash = hash_text(hash_text(hash, options), source);
  (void)snprintf(out + n, (size_t)(MAX_PATH_BYTES - n), "/%016llx.clbin", (unsigned long long)hash);
  return true;
}

static bool read_bytes(FILE* file, void* out, size_t size) {
  return size == 0 || fread(out, size, 1, file) == 1;
}

/* Whether the next string of the file is this one. */
static bool read_same(FILE* file, const char* text) {
  uint64_t size;
  size_t length = strlen(text), i;
  if (!read_bytes(file, &size, sizeof(size)) || size != length) return false;
  for (i = 0; i < length; ++i) {
    if (fgetc(file) != (uint8_t)text[i]) return false;
  }
  return true;
}

static unsigned char* read_binary(FILE* file, size_t* out_size) {
  unsigned char* bytes;
  uint64_t size;
  struct stat info;
  if (!read_bytes(file, &size, sizeof(size))) return NULL;
  if (fstat(fileno(file), &info) != 0 || size == 0 || size > (uint64_t)info.st_size) return NULL;
  bytes = malloc((size_t)size);
  if (bytes == NULL || !read_bytes(file, bytes, (size_t)size)) {
    free(bytes);
    return NULL;
  }
  *out_size = (size_t)size;
  return bytes;
}

/* A built program from its file; NULL if there is none that fits. */
static cl_program load_program(const opencl_context* c, const char* path, const char* source,
                               const char* options) {
  FILE* file = fopen(path, "rb");
  unsigned char* bytes = NULL;
  const unsigned char* view;
  cl_program program = NULL;
  cl_int status = CL_SUCCESS, loaded = CL_SUCCESS;
  size_t size = 0;
  if (file == NULL) return NULL;
  if (read_same(file, c->identity) && read_same(file, options) && read_same(file, source)) {
    bytes = read_binary(file, &size);
  }
  (void)fclose(file);
  if (bytes == NULL) return NULL;
  view = bytes;
  program = clCreateProgramWithBinary(c->context, 1, &c->device, &size, &view, &loaded, &status);
  free(bytes);
  if (status != CL_SUCCESS || loaded != CL_SUCCESS) return NULL;
  /* OpenCL wants programs built that come from binaries, too */
  if (clBuildProgram(program, 1, &c->device, options, NULL, NULL) == CL_SUCCESS) return program;
  clReleaseProgram(program);
  return NULL;
}

static bool write_string(FILE* file, const void* bytes, size_t size) {
  uint64_t length = size;
  return fwrite(&length, sizeof(length), 1, file) == 1 &&
         (size == 0 || fwrite(bytes, size, 1, file) == 1);
}

static bool write_program(const opencl_context* c, FILE* file, const char* source,
                          const char* options, cl_program program) {
  unsigned char* bytes;
  size_t size = 0;
  bool done;
  if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(size), &size, NULL) != CL_SUCCESS ||
      size == 0) {
    return false;
  }
  bytes = malloc(size);
  if (bytes == NULL) return false;
  /* an array with a pointer for each device of the program, of which there is one */
  done =
      clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(bytes), &bytes, NULL) == CL_SUCCESS &&
      write_string(file, c->identity, strlen(c->identity)) &&
      write_string(file, options, strlen(options)) && write_string(file, source, strlen(source)) &&
      write_string(file, bytes, size);
  free(bytes);
  return done;
}

/* Keeping a program is a favour: what fails here is built again another time. */
static void save_program(const opencl_context* c, const char* path, const char* source,
                         const char* options, cl_program program) {
  char aside[MAX_PATH_BYTES + 32];
  bool done;
  FILE* file;
  (void)snprintf(aside, sizeof(aside), "%s.%ld", path, (long)getpid());
  file = fopen(aside, "wb");
  if (file == NULL) return;
  done = write_program(c, file, source, options, program);
  if (fclose(file) != 0) done = false;
  if (!done || rename(aside, path) != 0) (void)remove(aside);
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
  char path[MAX_PATH_BYTES];
  const struct program* p;
  bool on_disk;
  for (p = c->programs; p != NULL; p = p->next) {
    if (strcmp(p->source, source) == 0 && strcmp(p->options, options) == 0) {
      *out = p->program;
      return 0;
    }
  }
  on_disk = file_of(c, source, options, path);
  *out = on_disk ? load_program(c, path, source, options) : NULL;
  if (*out == NULL) {
    if (build_program(c, who, source, options, out) != 0) return -1;
    if (on_disk) save_program(c, path, source, options, *out);
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
