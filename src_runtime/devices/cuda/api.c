/* NVIDIA's libraries, loaded at run time; they stay loaded, as the driver's threads do.
 *
 * The device is built without NVIDIA's headers and libraries: nvidia.h has the few types and calls,
 * and the lists there give both the structs of functions and the names that are looked up here. So
 * one build serves machines with and without a GPU, and several versions of the libraries. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

#define MAX_PATH_BYTES 4096

/* From the folders of TVMRT_CUDA_PATH, else where the system's loader looks. The first failure is
 * kept in `problem`, since it is of the library that was wanted most. An environment of Python has
 * these libraries in folders that no loader looks in, hence the variable. */
static void* open_one(const char* name, char* problem, size_t problem_bytes) {
  const char* at = getenv("TVMRT_CUDA_PATH");
  void* found;
  while (at != NULL && *at != '\0') {
    const size_t length = strcspn(at, ":");
    char path[MAX_PATH_BYTES];
    const int n = snprintf(path, sizeof(path), "%.*s/%s", (int)length, at, name);
    /* a folder of so long a name is passed over: a cut one would be another */
    if (length > 0 && n > 0 && n < (int)sizeof(path)) {
      found = dlopen(path, RTLD_NOW | RTLD_LOCAL);
      if (found != NULL) return found;
    }
    at += length;
    at += *at == ':';
  }
  found = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (found == NULL && problem[0] == '\0') (void)snprintf(problem, problem_bytes, "%s", dlerror());
  return found;
}

/* One of NVIDIA's libraries, under the names that its releases have had. */
typedef struct {
  const char* what;
  const char* const* names; /* the first that can be opened is taken */
  const char* advice;
  const char* const* symbols; /* in the order of the struct of functions */
} library;

/* `out` is a struct of function pointers and nothing else: it is filled as an array. NULL symbols
 * are refused, so that no call needs a look. */
static int load(const library* of, void* out) {
  char problem[512] = "";
  char* at = out;
  void* handle = NULL;
  size_t i;
  for (i = 0; of->names[i] != NULL && handle == NULL; ++i) {
    handle = open_one(of->names[i], problem, sizeof(problem));
  }
  if (handle == NULL) {
    return device_fail("%s cannot be loaded (%s); %s", of->what, problem, of->advice);
  }
  for (i = 0; of->symbols[i] != NULL; ++i, at += sizeof(void*)) {
    void* const symbol = dlsym(handle, of->symbols[i]);
    if (symbol == NULL) {
      /* nothing of it has been called yet, so it may go */
      (void)dlclose(handle);
      return device_fail("%s has no function %s; install a newer one", of->what, of->symbols[i]);
    }
    memcpy(at, &symbol, sizeof(symbol)); /* ISO C has no conversion to a function's address */
  }
  return 0;
}

#define CUDA_NAME(name, parameters) #name,

/* It comes with the kernel's module, so no other version can be put beside it: one name, and no
 * advice where to find another. */
int cuda_driver_load(cuda_driver* out) {
  static const char* const names[] = {"libcuda.so.1", NULL};
  static const char* const symbols[] = {CUDA_DRIVER_CALLS(CUDA_NAME) NULL};
  static const library driver = {"NVIDIA's driver", names, "install it", symbols};
  return load(&driver, out);
}

#define ADVICE(package)                                    \
  "install the CUDA toolkit, or Python's package " package \
  " and name the folder that has its "                     \
  "library in TVMRT_CUDA_PATH"

/* The newest first: an older one may not know the GPU's architecture. */
int cuda_compiler_load(cuda_compiler* out) {
  static const char* const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                      "libnvrtc.so", NULL};
  static const char* const symbols[] = {CUDA_COMPILER_CALLS(CUDA_NAME) NULL};
  static const library compiler = {"the compiler NVRTC", names, ADVICE("nvidia-cuda-nvrtc-cu12"),
                                   symbols};
  return load(&compiler, out);
}

/* Asked for by the first region with a product alone: most networks come without this library,
 * which is hundreds of megabytes. */
int cuda_products_load(cuda_products* out) {
  static const char* const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11",
                                      "libcublas.so", NULL};
  static const char* const symbols[] = {CUDA_PRODUCT_CALLS(CUDA_NAME) NULL};
  static const library products = {"cuBLAS", names, ADVICE("nvidia-cublas-cu12"), symbols};
  return load(&products, out);
}
