/*
 * Stands between the device "xnnpack" and XNNPACK (LD_PRELOAD) and remembers the runtimes that are made,
 * so that bench_xnnpack.py can have XNNPACK run them without the device.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

typedef int (*create_function)(void* subgraph, void* threads, uint32_t flags, void** out);
typedef int (*invoke_function)(void* runtime);

#define LIBRARY "libXNNPACK.so.0" /* Debian's name */

enum { MAX_RUNTIMES = 256 };
static void* runtimes[MAX_RUNTIMES];
static int num_runtimes;
static invoke_function invoke;

__attribute__((visibility("default"))) int xnn_create_runtime_v2(void* subgraph, void* threads,
                                                                 uint32_t flags, void** out) {
  create_function create;
  int rc;
  void* library = dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD); /* the device's */
  if (library == NULL) return -1;
  *(void**)&create = dlsym(library, "xnn_create_runtime_v2");
  *(void**)&invoke = dlsym(library, "xnn_invoke_runtime");
  if (create == NULL || invoke == NULL) return -1;
  rc = create(subgraph, threads, flags, out);
  if (rc == 0 && num_runtimes < MAX_RUNTIMES) runtimes[num_runtimes++] = *out;
  return rc;
}

__attribute__((visibility("default"))) void recorder_forget(void) { num_runtimes = 0; }

__attribute__((visibility("default"))) int recorder_count(void) { return num_runtimes; }

/* Each runtime once, on the tensors that the device gave it last. */
__attribute__((visibility("default"))) int recorder_invoke(void) {
  int i, rc = 0;
  for (i = 0; i < num_runtimes && rc == 0; ++i) rc = invoke(runtimes[i]);
  return rc;
}
