/* How the runtime begins with this library, and what it asks of it.
 *
 * The runtime loads this library when it is needed first (modules/ffi_library.c). Without a
 * libtvm_ffi it works by the stand-in, until `join` gives the path of one. */
#include <stdio.h>

#include "convert.h"
#include "error.h"
#include "library.h"
#include "raise.h"
#include "register.h"

TVM_DLL int tvmrt_tvm_ffi_start(void); /* the runtime finds it by name */

/* tvmrt.tvm_ffi.join(path): use this libtvm_ffi; its version as text. */
static int join(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret, void* resource) {
  FfiVersion version;
  TVMValue value;
  char text[48];
  int code = kTVMStr;
  (void)resource;
  if (num_args != 1 || codes[0] != kTVMStr) {
    return bridge_fail("TypeError: tvmrt.tvm_ffi.join takes the path of libtvm_ffi");
  }
  if (bridge_open(args[0].v_str, &version) != 0 || bridge_register_ffi_makers() != 0) return -1;
  (void)snprintf(text, sizeof(text), "%u.%u.%u", version.major, version.minor, version.patch);
  value.v_str = text;
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

/* tvmrt.tvm_ffi.address(name): what C calls, "safe_call" or "packed_call". */
static int address(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                   void* resource) {
  TVMValue value;
  int code = kTVMOpaqueHandle;
  (void)resource;
  if (num_args != 1 || codes[0] != kTVMStr) {
    return bridge_fail("TypeError: tvmrt.tvm_ffi.address takes the name of a function");
  }
  /* The two are told apart by their first letter: callers are the runtime's own. */
  value.v_handle = args[0].v_str[0] == 's' ? (void*)(uintptr_t)bridge_safe_call
                                           : (void*)(uintptr_t)bridge_packed_call;
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

/* tvmrt.tvm_ffi.lines(text): where the error came from whose text this is, as bytes. */
static int lines(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret, void* resource) {
  TVMByteArray found;
  TVMValue value;
  int code = kTVMBytes;
  (void)resource;
  if (num_args != 1 || codes[0] != kTVMStr) {
    return bridge_fail("TypeError: tvmrt.tvm_ffi.lines takes the text of an error");
  }
  found = bridge_lines_of(args[0].v_str);
  value.v_handle = &found;
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

/* A libtvm_ffi that cannot be used is no failure: its path may be joined later, with the reason
 * told. */
int tvmrt_tvm_ffi_start(void) {
  (void)bridge_join_loaded();
  if (bridge_register_classic("tvmrt.tvm_ffi.join", join) != 0 ||
      bridge_register_classic("tvmrt.tvm_ffi.lines", lines) != 0 ||
      bridge_register_classic("tvmrt.tvm_ffi.address", address) != 0) {
    return -1;
  }
  return bridge_register_makers();
}
