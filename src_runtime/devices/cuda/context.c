/* Which GPU serves the process.
 *
 * One context serves the process: the GPU's primary one, which other libraries in the process use
 * as well, so it is entered and left around each use and never made the thread's for good. Copies
 * outside of regions have a stream of their own. */
#include <stdio.h>
#include <stdlib.h>

#include "cuda.h"

/* The sentence has the driver's own name of the error, which is what people search for. */
int cuda_check(const cuda_context* c, int status, const char* call) {
  const char *name = NULL, *text = NULL;
  if (status == CUDA_SUCCESS) return 0;
  if (status == CUDA_ERROR_OUT_OF_MEMORY) {
    return device_fail("%s: the GPU is out of memory (CUDA error %d)", call, status);
  }
  if (c->driver.cuGetErrorName(status, &name) != CUDA_SUCCESS) name = NULL;
  if (c->driver.cuGetErrorString(status, &text) != CUDA_SUCCESS) text = NULL;
  return device_fail("%s failed with CUDA error %d: %s, %s", call, status,
                     name == NULL ? "unknown" : name, text == NULL ? "no description" : text);
}

/* Pushed and not set: what the thread has current, another library's context maybe, comes back with
 * cuda_leave(). */
int cuda_enter(const cuda_context* c) {
  return cuda_check(c, c->driver.cuCtxPushCurrent_v2(c->context), "cuCtxPushCurrent");
}

/* Nothing can be done about a failure; what was current before is current again. */
void cuda_leave(const cuda_context* c) {
  CUcontext last;
  (void)c->driver.cuCtxPopCurrent_v2(&last);
}

/* The first of those that the driver shows; which these are is the user's to say, by
 * CUDA_VISIBLE_DEVICES. */
static int choose_device(cuda_context* c) {
  int count = 0;
  if (cuda_check(c, c->driver.cuInit(0), "cuInit") != 0) return -1;
  if (cuda_check(c, c->driver.cuDeviceGetCount(&count), "cuDeviceGetCount") != 0) return -1;
  if (count < 1) return device_fail("NVIDIA's driver has no GPU; see CUDA_VISIBLE_DEVICES");
  return cuda_check(c, c->driver.cuDeviceGet(&c->device, 0), "cuDeviceGet");
}

/* Everything that makes a compiled program another one: it goes into the key under which programs
 * are kept. */
static int describe_device(cuda_context* c) {
  int major = 0, minor = 0, driver = 0, compiler_major = 0, compiler_minor = 0;
  char name[256] = "";
  const cuda_driver* d = &c->driver;
  int rc = cuda_check(
      c, d->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, c->device),
      "cuDeviceGetAttribute");
  if (rc == 0) {
    rc = cuda_check(
        c, d->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, c->device),
        "cuDeviceGetAttribute");
  }
  if (rc == 0) {
    rc = cuda_check(c, d->cuDeviceGetName(name, (int)sizeof(name) - 1, c->device),
                    "cuDeviceGetName");
  }
  if (rc == 0) rc = cuda_check(c, d->cuDriverGetVersion(&driver), "cuDriverGetVersion");
  if (rc != 0) return -1;
  if (c->compiler.nvrtcVersion(&compiler_major, &compiler_minor) != 0) {
    return device_fail("nvrtcVersion failed");
  }
  /* as in the name of an architecture, sm_86 */
  c->capability = 10 * major + minor;
  (void)snprintf(c->identity, sizeof(c->identity), "%s\n%d\ndriver %d\nnvrtc %d.%d", name,
                 c->capability, driver, compiler_major, compiler_minor);
  return 0;
}

/* The stream is no blocking one: work of other libraries on the default stream would wait for it,
 * and it for them. What was made before a failure is freed by cuda_context_free(). */
static int create_objects(cuda_context* c) {
  int rc = cuda_check(c, c->driver.cuDevicePrimaryCtxRetain(&c->context, c->device),
                      "cuDevicePrimaryCtxRetain");
  if (rc != 0) {
    c->context = NULL;
    return -1;
  }
  if (cuda_enter(c) != 0) return -1;
  rc =
      cuda_check(c, c->driver.cuStreamCreate(&c->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  if (rc != 0) c->stream = NULL;
  cuda_leave(c);
  return rc;
}

/* The list of programs is opened first, for cuda_context_free() closes it in any case. */
int cuda_context_create(cuda_context** out) {
  cuda_context* c = calloc(1, sizeof(*c));
  int rc;
  *out = NULL;
  if (c == NULL) return device_fail("out of memory");
  rc = cuda_programs_open(c);
  if (rc == 0) rc = cuda_driver_load(&c->driver);
  if (rc == 0) rc = choose_device(c);
  if (rc == 0) rc = cuda_compiler_load(&c->compiler);
  if (rc == 0) rc = describe_device(c);
  if (rc == 0) rc = create_objects(c);
  if (rc == 0) {
    *out = c;
  } else {
    cuda_context_free(c);
  }
  return rc;
}

/* Also of one that was made half; NULL does nothing. Programs go while the context is current,
 * which they belong to. */
void cuda_context_free(cuda_context* c) {
  bool entered;
  if (c == NULL) return;
  /* at the process's end the driver may have gone before us */
  entered = c->context != NULL && cuda_enter(c) == 0;
  programs_close(&c->programs);
  if (entered) {
    if (c->stream != NULL) (void)c->driver.cuStreamDestroy_v2(c->stream);
    cuda_leave(c);
  }
  if (c->context != NULL) (void)c->driver.cuDevicePrimaryCtxRelease_v2(c->device);
  free(c);
}
