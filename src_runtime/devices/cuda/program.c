/* Programs of NVRTC.
 *
 * What the shared list of programs (shared/programs.h) asks for: building from source, loading what
 * was built, releasing. Sources are the compiler's half's text behind a prelude; they are compiled
 * for this GPU alone, so that the driver need not compile again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "prelude.h"

#define MAX_LOG_BYTES 2500 /* of the compiler's log in an error */
#define OWN_OPTIONS 3
#define MAX_OPTIONS 12

static const program_store disk = {"TVMRT_CUDA_CACHE", "cuda", "cubin"};

/* Always -1: the beginning of the compiler's log is told, where its first error stands. The
 * program is the caller's to destroy. */
static int build_error(const cuda_context* c, const char* who, nvrtcProgram program, int status) {
  char log[MAX_LOG_BYTES] = "";
  char* whole = NULL;
  size_t size = 0;
  if (status == NVRTC_ERROR_INVALID_OPTION) {
    return device_fail(
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
  return device_fail("the CUDA source of %s does not compile (%d):\n%s", who, status, log);
}

/* The caller's to free; NULL with the error text set. */
static void* get_binary(const cuda_context* c, nvrtcProgram program, size_t* out_bytes) {
  void* bytes = NULL;
  if (c->compiler.nvrtcGetCUBINSize(program, out_bytes) != 0 || *out_bytes == 0) {
    (void)device_fail("nvrtcGetCUBINSize failed");
    return NULL;
  }
  bytes = malloc(*out_bytes);
  if (bytes == NULL) {
    (void)device_fail("out of memory");
  } else if (c->compiler.nvrtcGetCUBIN(program, bytes) != 0) {
    (void)device_fail("nvrtcGetCUBIN failed");
    free(bytes);
    bytes = NULL;
  }
  return bytes;
}

/* The options of the node, which are separated by blanks; cuts the text in place. -1 where there
 * are more than `room`. */
static int split_options(char* text, const char** out, int room) {
  int count = 0;
  char* rest = NULL;
  char* word;
  for (word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
    if (count == room) return device_fail("a kernel has %d build options at most", room);
    out[count++] = word;
  }
  return count;
}

/* The bytes are the caller's (free()); NULL with the error text set. One way out, as each step
 * needs the one before. */
static void* compile(const cuda_context* c, const program_text* of, size_t* out_bytes) {
  char architecture[40];
  /* functions of the generated text are the device's; it has hexadecimal numbers */
  const char* all[MAX_OPTIONS] = {architecture, "--device-as-default-execution-space",
                                  "--std=c++17"};
  /* with the end of the text, which the prelude's size counts */
  const size_t length = sizeof(CUDA_PRELUDE) + strlen(of->source);
  char* text = malloc(length);
  char* words = strdup(of->options);
  nvrtcProgram program = NULL;
  void* bytes = NULL;
  int count = -1, status;
  (void)snprintf(architecture, sizeof(architecture), "--gpu-architecture=sm_%d", c->capability);
  if (text == NULL || words == NULL) {
    (void)device_fail("out of memory");
  } else {
    (void)snprintf(text, length, "%s%s", CUDA_PRELUDE, of->source);
    count = split_options(words, &all[OWN_OPTIONS], MAX_OPTIONS - OWN_OPTIONS);
  }
  if (count >= 0) {
    status = c->compiler.nvrtcCreateProgram(&program, text, "kernel.cu", 0, NULL, NULL);
    if (status != 0) {
      (void)device_fail("nvrtcCreateProgram failed (%d)", status);
    } else {
      status = c->compiler.nvrtcCompileProgram(program, count + OWN_OPTIONS, all);
      if (status == 0) {
        bytes = get_binary(c, program, out_bytes);
      } else {
        (void)build_error(c, of->who, program, status);
      }
      (void)c->compiler.nvrtcDestroyProgram(&program);
    }
  }
  free(text);
  free(words);
  return bytes;
}

/* NULL without an error: it is then built again, as of another driver. */
static void* load(void* context, const program_text* text, const void* bytes, size_t size) {
  CUmodule module = NULL;
  (void)text;
  (void)size;
  return ((cuda_context*)context)->driver.cuModuleLoadData(&module, bytes) == CUDA_SUCCESS ? module
                                                                                           : NULL;
}

/* Bytes that were made stay the caller's also where the driver does not take them. */
static void* build(void* context, const program_text* text, void** out_bytes, size_t* out_size) {
  const cuda_context* c = context;
  CUmodule module = NULL;
  *out_bytes = compile(c, text, out_size);
  if (*out_bytes == NULL) return NULL;
  if (cuda_check(c, c->driver.cuModuleLoadData(&module, *out_bytes), "cuModuleLoadData") != 0) {
    return NULL;
  }
  return module;
}

/* With the context entered, as its list is closed. The list's lock is held, or nobody asks it any
 * more. */
static void release(void* context, void* program) {
  (void)((cuda_context*)context)->driver.cuModuleUnload(program);
}

/* What kinds of programs differ in is the maker; keeping them, in the process and in files, is
 * shared with OpenCL. */
int cuda_programs_open(cuda_context* c) {
  static const program_maker maker = {load, build, release};
  return programs_open(&c->programs, &maker, &disk, c);
}

/* *out is borrowed from the list. All that makes the bytes others stands in the key, so that a file
 * of another GPU or compiler is none. */
int cuda_program(cuda_context* c, const program_text* text, CUmodule* out) {
  const char* const key[] = {c->identity, CUDA_PRELUDE, text->options, text->source, NULL};
  *out = programs_get(&c->programs, text, key);
  return *out == NULL ? -1 : 0;
}
