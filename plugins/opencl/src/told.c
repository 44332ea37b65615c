/* Devices use the public C interface alone, as a plug-in of a vendor would; so errors are set and
 * functions registered by it. */
#include "told.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

/* Always -1. What does not fit into the text is cut: compilers of kernels tell long stories. */
int device_fail(const char* format, ...) {
  char text[4096];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  TVMPackedFuncSetLastError(text);
  return -1;
}

/* Replaces what an earlier registration of the device has left. The registry holds the function. */
int told_register(const char* name, TVMPackedCFunc function, void* resource) {
  TVMFunctionHandle handle = NULL;
  int rc;
  if (TVMFuncCreateFromCFunc(function, resource, NULL, &handle) != 0) return -1;
  rc = TVMFuncRegisterGlobal(name, handle, 1);
  (void)TVMFuncFree(handle);
  return rc;
}

/* How the runtime gets a struct by a name: packed functions give addresses, and no structs. */
static int give_resource(TVMValue* args, int* type_codes, int num_args, TVMRetValueHandle ret,
                         void* resource) {
  TVMValue value;
  int code = kTVMOpaqueHandle;
  (void)args;
  (void)type_codes;
  (void)num_args;
  value.v_handle = resource;
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

/* The struct is not copied: it is a constant of the device. The cast only takes the const off,
 * which the reader puts back. */
int told_register_memory(const char* name, const tvmrt_memory_device* api) {
  return told_register(name, give_resource, (void*)(uintptr_t)api);
}

/* Three numbers that runs may change meanwhile: each is whole, all three need not be of one
 * moment. */
static int give_moved(TVMValue* args, int* type_codes, int num_args, TVMRetValueHandle ret,
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

int told_register_moved(const char* name, moved_bytes* moved) {
  return told_register(name, give_moved, moved);
}
