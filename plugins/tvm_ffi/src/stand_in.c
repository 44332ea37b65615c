/* The functions of libtvm_ffi that the bridge uses, for processes that have no libtvm_ffi.
 *
 * A process that loads libtvm_ffi afterwards goes over to that one (library.c): objects of either
 * carry their own deleters, so those made before stay valid. */
#include "stand_in.h"

#include "objects.h"

/* The runtime's streams are those of both sides. */
static int set_stream(int32_t type, int32_t id, void* stream, void** old) {
  if (tvmrt_swap_stream(type, id, stream, old) == 0) return 0;
  ffi_raise_text("RuntimeError", TVMGetLastError());
  return -1;
}

/* NULL for a device that has its default stream, as libtvm_ffi tells it. */
static void* get_stream(int32_t type, int32_t id) { return tvmrt_current_stream(type, id); }

/* What libraries are told that ask; the last number says no release. */
static void get_version(FfiVersion* out) { *out = (FfiVersion){0, 1, 0}; }

/* What is absent is asked of a libtvm_ffi only: its registry, and errors that it keeps. */
const FfiApi stand_in_api = {
    .get_version = get_version,
    .function_create = ffi_make_function,
    .function_call = ffi_call_function,
    .error_set_raised = ffi_raise_text,
    .tensor_from_dlpack = ffi_make_tensor,
    .tensor_to_dlpack = ffi_show_tensor,
    .string_from_bytes = ffi_make_string,
    .bytes_from_bytes = ffi_make_bytes,
    .get_type_info = stand_in_type_info,
    .env_set_stream = set_stream,
    .env_get_stream = get_stream,
};
