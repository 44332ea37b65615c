/* Errors of the bridge, stored in the classic error slot.
 *
 * Texts are truncated at the buffer's size: they are sentences with names of types and files. */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <tvm/runtime/c_runtime_api.h>

/* Returns -1, so that callers can return it. TVMPackedFuncSetLastError() copies the text. */
int bridge_fail(const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  TVMPackedFuncSetLastError(text);
  return -1;
}

/* Returns -1. The size shows whether memory was short or the number was wrong. */
int bridge_fail_memory(size_t bytes) {
  return bridge_fail("MemoryError: no memory for %zu bytes", bytes);
}
