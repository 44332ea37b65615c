/* Backend library: the error slot of firmware, one static buffer for the only thread.
 *
 * Linked only if the program reads the text: last_error.c and error_slot.h refer to it weakly.
 * Texts are copied, since they may lie on the caller's stack, and truncated to fit. No locks:
 * firmware has one thread. */
#include "error_slot.h"

#include <tvm/runtime/c_packed_func.h>

/* The longest error text below has 65 characters; texts of packed functions may be longer. */
#ifndef TVMRT_ERROR_TEXT_BYTES
#define TVMRT_ERROR_TEXT_BYTES 80
#endif

static char error_text[TVMRT_ERROR_TEXT_BYTES];

void tvmrt__store_error(const char* text) {
  size_t i = 0;
  if (text != NULL) {
    /* lint: a text that is shorter ends the loop */
    for (; i < sizeof(error_text) - 1 && text[i] != '\0'; ++i) error_text[i] = text[i];
  }
  error_text[i] = '\0';
}

/* The texts are here and not where the errors occur, so that an image without TVMGetLastError()
 * contains none of them. All other codes come from look-ups. */
void tvmrt__store_code(tvm_crt_error_t code) {
  switch (code) {
    case kTvmErrorPlatformNoMemory:
      tvmrt__store_error("Workspace memory is exhausted: pass more to tvmrt_workspace_init().");
      break;
    case kTvmErrorPlatformStackAllocBadFree:
      tvmrt__store_error("Not the most recent workspace: free in reverse order.");
      break;
    default:
      tvmrt__store_error("Cannot find function: no table of this image contains it.");
      break;
  }
}

const char* TVMGetLastError(void) { return error_text; }
