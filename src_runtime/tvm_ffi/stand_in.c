/* The functions of libtvm_ffi that the bridge uses, for processes that have no libtvm_ffi. */
#include "stand_in.h"

#include "objects.h"

static void move_from_raised(void** out) { *out = ffi_take_error(); }

static void get_version(FfiVersion* out) { *out = (FfiVersion){0, 1, 0}; }

static int set_global(const TVMByteArray* name, void* function, int allow_override) {
  (void)name;
  (void)function;
  (void)allow_override;
  ffi_raise_text("RuntimeError", "there is no registry of tvm-ffi: its library is not loaded");
  return -1;
}

const FfiApi stand_in_api = {
    .get_version = get_version,
    .function_create = ffi_make_function,
    .function_call = ffi_call_function,
    .function_set_global = set_global,
    .error_move_from_raised = move_from_raised,
    .error_set_raised = ffi_raise_text,
    .tensor_from_dlpack = ffi_make_tensor,
    .tensor_to_dlpack = ffi_show_tensor,
    .string_from_bytes = ffi_make_string,
    .bytes_from_bytes = ffi_make_bytes,
    .get_type_info = stand_in_type_info,
};
