/* Error texts. */
#include <stdarg.h>
#include <stdio.h>

#include "opencl.h"

/* Returns -1. The text is truncated, since compiler logs may be long. */
int opencl_fail(const char* format, ...) {
  char text[4096];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  TVMPackedFuncSetLastError(text);
  return -1;
}

/* Frequent errors are described; others are reported with their number, which users can search for.
 * The runtime prefixes device and region. */
int opencl_check(cl_int status, const char* call) {
  if (status == CL_SUCCESS) return 0;
  switch (status) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
    case CL_OUT_OF_HOST_MEMORY:
      return opencl_fail("%s: the OpenCL device is out of memory (%d)", call, (int)status);
    case CL_DEVICE_NOT_AVAILABLE:
      return opencl_fail("%s: the OpenCL device is lost (%d)", call, (int)status);
    case CL_INVALID_WORK_GROUP_SIZE:
      return opencl_fail("%s: the local size does not suit the OpenCL device (%d)", call,
                         (int)status);
    default:
      return opencl_fail("%s failed with OpenCL error %d", call, (int)status);
  }
}
