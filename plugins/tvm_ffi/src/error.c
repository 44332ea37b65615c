/* Errors of the bridge itself, as the classic side keeps them.
 *
 * Texts are cut at the buffer's size: they are sentences with names of types and files. */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <tvm/runtime/c_runtime_api.h>

/* Always -1, so that callers return it. TVMPackedFuncSetLastError() copies the text. */
int bridge_fail(const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  TVMPackedFuncSetLastError(text);
  return -1;
}

/* Always -1. A size tells its reader whether memory was short or the number wrong. */
int bridge_fail_memory(size_t bytes) {
  return bridge_fail("MemoryError: no memory for %zu bytes", bytes);
}
