/* Error texts and registered functions. Devices use only the public C interface, like a vendor's
 * plug-in. */
#include "registration.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

/* Returns -1. The text is truncated, since compiler logs may be long. */
int device_fail(const char* format, ...) {
  char text[4096];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  TVMPackedFuncSetLastError(text);
  return -1;
}

/* Replaces a function of an earlier registration. The registry retains the function. */
int register_function(const char* name, TVMPackedCFunc function, void* resource) {
  TVMFunctionHandle handle = NULL;
  int rc;
  if (TVMFuncCreateFromCFunc(function, resource, NULL, &handle) != 0) return -1;
  rc = TVMFuncRegisterGlobal(name, handle, 1);
  (void)TVMFuncFree(handle);
  return rc;
}

/* Returns the address of a struct, since packed functions cannot return structs. */
static int return_resource(TVMValue* args, int* type_codes, int num_args, TVMRetValueHandle ret,
                           void* resource) {
  TVMValue value;
  int code = kTVMOpaqueHandle;
  (void)args;
  (void)type_codes;
  (void)num_args;
  value.v_handle = resource;
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

/* The struct is a constant of the device and not copied. The cast removes the const, which the
 * reader restores. */
int register_memory_api(const char* name, const tvmrt_memory_device* api) {
  return register_function(name, return_resource, (void*)(uintptr_t)api);
}

/* The counters may change concurrently: each value is consistent, but the three may be from
 * different moments. */
static int return_moved(TVMValue* args, int* type_codes, int num_args, TVMRetValueHandle ret,
                        void* resource) {
  moved_bytes* moved = resource;
  TVMValue value;
  int code = kTVMStr;
  char text[128];
  (void)args;
  (void)type_codes;
  (void)num_args;
  (void)snprintf(text, sizeof(text), "%" PRIu64 " %" PRIu64 " %" PRIu64, atomic_load(&moved->to),
                 atomic_load(&moved->from), atomic_load(&moved->within));
  value.v_str = text;
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

int register_moved_bytes(const char* name, moved_bytes* moved) {
  return register_function(name, return_moved, moved);
}
