/* Programs, built once: a list in the process, files on disk. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../store/store.h"
#include "cuda.h"
#include "prelude.h"

#define MAX_LOG_BYTES 2500 /* of the compiler's log in an error */
#define OWN_OPTIONS 3
#define MAX_OPTIONS 12

static const store programs = {"TVMRT_CUDA_CACHE", "cuda", "cubin"};

struct program {
  char* source;
  char* options;
  CUmodule module;
  struct program* next;
};

static int build_error(const cuda_context* c, const char* who, nvrtcProgram program, int status) {
  char log[MAX_LOG_BYTES] = "";
  char* whole = NULL;
  size_t size = 0;
  if (status == NVRTC_ERROR_INVALID_OPTION) {
    return cuda_fail(
        "the compiler NVRTC does not know the GPU's architecture sm_%d, or an option of "
        "%s; install a newer one",
        c->capability, who);
  }
  if (c->compiler.nvrtcGetProgramLogSize(program, &size) == 0 && size > 0) {
    whole = calloc(1, size + 1);
  }
  if (whole != NULL && c->compiler.nvrtcGetProgramLog(program, whole) == 0) {
    (void)snprintf(log, sizeof(log), "%s", whole);
  }
  free(whole);
  return cuda_fail("the CUDA source of %s does not compile (%d):\n%s", who, status, log);
}

static void* get_binary(const cuda_context* c, nvrtcProgram program, size_t* out_bytes) {
  void* bytes = NULL;
  if (c->compiler.nvrtcGetCUBINSize(program, out_bytes) != 0 || *out_bytes == 0) {
    (void)cuda_fail("nvrtcGetCUBINSize failed");
    return NULL;
  }
  bytes = malloc(*out_bytes);
  if (bytes == NULL) {
    (void)cuda_fail("out of memory");
  } else if (c->compiler.nvrtcGetCUBIN(program, bytes) != 0) {
    (void)cuda_fail("nvrtcGetCUBIN failed");
    free(bytes);
    bytes = NULL;
  }
  return bytes;
}

/* The options of the node, which are separated by blanks; cuts the text in place. */
static int split_options(char* text, const char** out, int room) {
  int count = 0;
  char* rest = NULL;
  char* word;
  for (word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
    if (count == room) return cuda_fail("a kernel has %d build options at most", room);
    out[count++] = word;
  }
  return count;
}

static void* build(const cuda_context* c, const char* who, const char* source, const char* options,
                   size_t* out_bytes) {
  char architecture[40];
  /* functions of the generated text are the device's; it has hexadecimal numbers */
  const char* all[MAX_OPTIONS] = {architecture, "--device-as-default-execution-space",
                                  "--std=c++17"};
  const size_t length = sizeof(CUDA_PRELUDE) + strlen(source);
  char* text = malloc(length);
  char* words = strdup(options);
  nvrtcProgram program = NULL;
  void* bytes = NULL;
  int count = -1, status;
  (void)snprintf(architecture, sizeof(architecture), "--gpu-architecture=sm_%d", c->capability);
  if (text == NULL || words == NULL) {
    (void)cuda_fail("out of memory");
  } else {
    (void)snprintf(text, length, "%s%s", CUDA_PRELUDE, source);
    count = split_options(words, &all[OWN_OPTIONS], MAX_OPTIONS - OWN_OPTIONS);
  }
  if (count >= 0) {
    status = c->compiler.nvrtcCreateProgram(&program, text, "kernel.cu", 0, NULL, NULL);
    if (status != 0) {
      (void)cuda_fail("nvrtcCreateProgram failed (%d)", status);
    } else {
      status = c->compiler.nvrtcCompileProgram(program, count + OWN_OPTIONS, all);
      if (status == 0) {
        bytes = get_binary(c, program, out_bytes);
      } else {
        (void)build_error(c, who, program, status);
      }
      (void)c->compiler.nvrtcDestroyProgram(&program);
    }
  }
  free(text);
  free(words);
  return bytes;
}

static int keep(cuda_context* c, const char* source, const char* options, CUmodule module) {
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
    (void)c->driver.cuModuleUnload(module);
    return cuda_fail("out of memory");
  }
  p->module = module;
  p->next = c->programs;
  c->programs = p;
  return 0;
}

static int find_or_build(cuda_context* c, const char* who, const char* source, const char* options,
                         CUmodule* out) {
  const char* const key[] = {c->identity, CUDA_PRELUDE, options, source, NULL};
  const struct program* p;
  store_entry entry;
  void* bytes = NULL;
  size_t size = 0;
  bool on_disk;
  int rc;
  for (p = c->programs; p != NULL; p = p->next) {
    if (strcmp(p->source, source) == 0 && strcmp(p->options, options) == 0) {
      *out = p->module;
      return 0;
    }
  }
  on_disk = store_entry_find(&programs, key, &entry);
  if (on_disk) bytes = store_entry_read(&entry, &size);
  if (bytes != NULL) { /* one that the driver refuses is built again */
    rc = c->driver.cuModuleLoadData(out, bytes);
    free(bytes);
    if (rc == CUDA_SUCCESS) return keep(c, source, options, *out);
  }
  bytes = build(c, who, source, options, &size);
  if (bytes == NULL) return -1;
  rc = cuda_check(c, c->driver.cuModuleLoadData(out, bytes), "cuModuleLoadData");
  if (rc == 0 && on_disk) store_entry_write(&entry, bytes, size);
  free(bytes);
  return rc == 0 ? keep(c, source, options, *out) : -1;
}

int cuda_program(cuda_context* c, const char* who, const char* source, const char* options,
                 CUmodule* out) {
  int rc;
  (void)pthread_mutex_lock(c->lock);
  rc = find_or_build(c, who, source, options, out);
  (void)pthread_mutex_unlock(c->lock);
  return rc;
}

void cuda_programs_free(cuda_context* c) {
  while (c->programs != NULL) {
    struct program* p = c->programs;
    c->programs = p->next;
    (void)c->driver.cuModuleUnload(p->module);
    free(p->source);
    free(p->options);
    free(p);
  }
}
