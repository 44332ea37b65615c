/* Global functions of this plug-in. The runtime loads it when one of them is looked up first.
 *
 * modules/ffi_library.c of the runtime calls the functions for libraries, Python the others.
 * Addresses are opaque pointers and are trusted. */
#include <string.h>
#include <tvm/runtime/plugin.h>

#include "calls.h"
#include "errors.h"
#include "library.h"
#include "sdk/base.h"
#include "sdk/values.h"
#include "wrappers.h"

/* tvmrt.tvm_ffi.load([path]): use the libtvm_ffi at this path, or the one that is loaded or
 * found. */
TVMRT_NATIVE(load) {
  const char* path;
  TVMRT_COUNTED_ARGS(0, 1);
  if (num_args == 0) return bridge_require();
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 0, &path));
  return bridge_open(path);
}

/* tvmrt.tvm_ffi.lines(text): backtrace of the error with this text, as bytes. */
TVMRT_NATIVE(lines) {
  const char* text;
  TVMByteArray found;
  TVMRT_COUNTED_ARGS(1, 1);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 0, &text));
  found = bridge_lines_of(text);
  return tvmrt_func_return(&(TVMValue){.v_handle = &found}, kTVMBytes, out, out_code);
}

/* The caller owns the result. */
static int return_function(TVMFunctionHandle made, TVMValue* out, int* out_code) {
  out->v_handle = made;
  *out_code = kTVMPackedFuncHandle;
  return 0;
}

/* An address, as a raw pointer that is not NULL. */
static bool is_address(const int* codes, int num_args, int i) {
  return i < num_args && codes[i] == kTVMOpaqueHandle;
}

/* tvmrt.tvm_ffi.from_function(address of a tvm-ffi Function): a classic function that retains
 * it. */
TVMRT_NATIVE(from_function) {
  TVMFunctionHandle made;
  (void)resource_handle;
  if (!is_address(type_codes, num_args, 0) ||
      ((FfiObject*)args[0].v_handle)->type_index != kFfiFunction) {
    return tvmrt__fail_type("tvmrt.tvm_ffi.from_function takes the address of a tvm-ffi Function.");
  }
  TVMRT_RETURN_IF_ERROR(bridge_require());
  TVMRT_RETURN_IF_ERROR(bridge_function_to_classic(args[0].v_handle, &made));
  return return_function(made, out, out_code);
}

/* tvmrt.tvm_ffi.from_safe_call(address, module): a classic function for a library's function; the
 * module keeps the library loaded. */
TVMRT_NATIVE(from_safe_call) {
  TVMFunctionHandle made;
  FfiSafeCall function;
  (void)resource_handle;
  if (num_args != 2 || !is_address(type_codes, num_args, 0) || type_codes[1] != kTVMModuleHandle) {
    return tvmrt__fail_type(
        "tvmrt.tvm_ffi.from_safe_call takes the address of a function and its module.");
  }
  TVMRT_RETURN_IF_ERROR(bridge_require());
  memcpy(&function, &args[0].v_handle, sizeof(function)); /* ISO C has no such conversion */
  TVMRT_RETURN_IF_ERROR(bridge_symbol_to_classic(function, args[1].v_handle, &made));
  return return_function(made, out, out_code);
}

static int enter(void) {
  bridge_set_calls(bridge_call_from_classic, bridge_call_from_ffi);
  return 0;
}

static const tvmrt_plugin_function functions[] = {{"tvmrt.tvm_ffi.load", load},
                                                  {"tvmrt.tvm_ffi.lines", lines},
                                                  {"tvmrt.tvm_ffi.from_function", from_function},
                                                  {"tvmrt.tvm_ffi.from_safe_call", from_safe_call},
                                                  {NULL, NULL}};

TVMRT_PLUGIN_TABLE = {sizeof(tvmrt_plugin), TVMRT_PLUGIN_ABI, "tvm_ffi", functions, enter, NULL,
                      TVMRT_SDK_VERSION};
