/* Selection of the OpenCL device.
 *
 * One device serves the process: the best one, or the one named by the user. It is chosen when the
 * device is first used. Copies outside regions have their own in-order queue. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl.h"

#define MAX_PLATFORMS 16
#define MAX_DEVICES 32
#define MAX_NAME 256

/* Truncated to MAX_NAME; empty if the driver returns an error. */
static void device_text(cl_device_id device, cl_device_info what, char* out) {
  out[0] = '\0';
  if (clGetDeviceInfo(device, what, MAX_NAME - 1, out, NULL) != CL_SUCCESS) out[0] = '\0';
  out[MAX_NAME - 1] = '\0';
}

/* Preference of a device; 0: unsuitable. GPUs are preferred to accelerators, and these to CPUs,
 * where OpenCL is rather for testing than for speed. */
static int rank_device(cl_device_id device, const char* requested) {
  cl_device_type type = 0;
  char name[MAX_NAME];
  device_text(device, CL_DEVICE_NAME, name);
  if (requested != NULL && requested[0] != '\0' && strstr(name, requested) == NULL) return 0;
  if (clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof(type), &type, NULL) != CL_SUCCESS) return 0;
  if (type & CL_DEVICE_TYPE_GPU) return 3;
  return type & CL_DEVICE_TYPE_ACCELERATOR ? 2 : 1;
}

/* Drivers that return an error are skipped, since another platform may have a device. */
static int choose_device(opencl_context* c) {
  const char* requested = getenv("TVMRT_OPENCL_DEVICE");
  cl_platform_id platforms[MAX_PLATFORMS];
  cl_device_id devices[MAX_DEVICES];
  cl_uint num_platforms = 0, num_devices, i, k;
  int best = 0;
  if (clGetPlatformIDs(MAX_PLATFORMS, platforms, &num_platforms) != CL_SUCCESS) num_platforms = 0;
  for (i = 0; i < num_platforms && i < MAX_PLATFORMS; ++i) {
    num_devices = 0;
    if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, MAX_DEVICES, devices, &num_devices) !=
        CL_SUCCESS) {
      continue;
    }
    for (k = 0; k < num_devices && k < MAX_DEVICES; ++k) {
      int rank = rank_device(devices[k], requested);
      if (rank <= best) continue; /* the first of equals, so that every process chooses the same */
      best = rank;
      c->platform = platforms[i];
      c->device = devices[k];
    }
  }
  /* a misspelt name is a different mistake from a missing driver */
  if (best > 0) return 0;
  if (num_platforms > 0 && requested != NULL && requested[0] != '\0') {
    return opencl_fail("no OpenCL device name contains '%.100s' (TVMRT_OPENCL_DEVICE)", requested);
  }
  return opencl_fail(
      "no OpenCL device was found; install a driver for the ICD loader, such as pocl-opencl-icd");
}

/* On failure opencl_context_free() frees the objects created so far. */
static int create_objects(opencl_context* c) {
  cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)c->platform, 0};
  cl_int status;
  c->context = clCreateContext(properties, 1, &c->device, NULL, NULL, &status);
  if (opencl_check(status, "clCreateContext") != 0) return -1;
  /* deprecated since OpenCL 2.0, but the only one in 1.2; in order without properties */
  c->queue = clCreateCommandQueue(c->context, c->device, 0, &status);
  return opencl_check(status, "clCreateCommandQueue");
}

int opencl_context_create(opencl_context** out) {
  opencl_context* c = calloc(1, sizeof(*c));
  int rc;
  *out = NULL;
  if (c == NULL) return opencl_fail("out of memory");
  rc = choose_device(c);
  if (rc == 0) rc = create_objects(c);
  if (rc == 0) {
    *out = c;
  } else {
    opencl_context_free(c);
  }
  return rc;
}

/* Also frees a partly created context; NULL does nothing. */
void opencl_context_free(opencl_context* c) {
  if (c == NULL) return;
  opencl_programs_free(c);
  if (c->queue != NULL) clReleaseCommandQueue(c->queue);
  if (c->context != NULL) clReleaseContext(c->context);
  free(c);
}
