/* Stubs for the libtvm_ffi functions that the bridge uses, for processes without libtvm_ffi.
 *
 * If the process loads libtvm_ffi later, its functions are used instead (library.c). Objects have
 * their own deleters, so earlier objects stay valid. */
#include "stubs.h"

#include "objects.h"

/* Both sides share the runtime's streams. */
static int set_stream(int32_t type, int32_t id, void* stream, void** old) {
  if (tvmrt_swap_stream(type, id, stream, old) == 0) return 0;
  ffi_raise_text("RuntimeError", TVMGetLastError());
  return -1;
}

/* NULL for a device with its default stream, as in libtvm_ffi. */
static void* get_stream(int32_t type, int32_t id) { return tvmrt_current_stream(type, id); }

/* Version reported to libraries; the patch number matches no release. */
static void get_version(FfiVersion* out) { *out = (FfiVersion){0, 1, 0}; }

/* The missing members are only called with a libtvm_ffi: its registry, and its raised errors. */
const FfiApi stub_api = {
    .get_version = get_version,
    .function_create = ffi_make_function,
    .function_call = ffi_call_function,
    .error_set_raised = ffi_raise_text,
    .tensor_from_dlpack = ffi_make_tensor,
    .tensor_to_dlpack = ffi_show_tensor,
    .string_from_bytes = ffi_make_string,
    .bytes_from_bytes = ffi_make_bytes,
    .get_type_info = stub_type_info,
    .env_set_stream = set_stream,
    .env_get_stream = get_stream,
};
