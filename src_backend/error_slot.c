/* Backend library: the error slot of firmware, one static buffer for the one thread there is. */
#include <tvm/runtime/c_packed_func.h>

#ifndef TVMRT_ERROR_TEXT_BYTES
#define TVMRT_ERROR_TEXT_BYTES 128
#endif

static char error_text[TVMRT_ERROR_TEXT_BYTES];

void TVMPackedFuncSetLastError(const char* msg) {
  size_t i = 0;
  if (msg != NULL) {
    for (; i < sizeof(error_text) - 1 && msg[i] != '\0'; ++i) error_text[i] = msg[i];
  }
  error_text[i] = '\0';
}

void TVMAPISetLastError(const char* msg) { TVMPackedFuncSetLastError(msg); }

const char* TVMGetLastError(void) { return error_text; }
