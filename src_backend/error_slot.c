/* Backend library: the error slot of firmware, one static buffer for the one thread there is.
 *
 * Linked only where something asks for the text: last_error.c and the readers of codes refer to it
 * weakly. Texts are copied, since the callers' may lie on their stacks, and cut to fit. Nothing
 * locks: firmware has one thread. */
#include "error_slot.h"

#include <tvm/runtime/c_packed_func.h>

/* The longest of the sentences below has 65 characters; what a packed function says itself may be
 * longer. */
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

/* Sentences stand here and not with who fails, so that an image without TVMGetLastError() holds
 * none of them. Codes without a row are those of look-ups. */
void tvmrt__store_code(tvm_crt_error_t code) {
  switch (code) {
    case kTvmErrorPlatformNoMemory:
      tvmrt__store_error("Workspace memory is used up: lend more by tvmrt_workspace_init().");
      break;
    case kTvmErrorPlatformStackAllocBadFree:
      tvmrt__store_error("Not the workspace that was taken last: free in reverse order.");
      break;
    default:
      tvmrt__store_error("Cannot find function: no table of the image has the name.");
      break;
  }
}

const char* TVMGetLastError(void) { return error_text; }
