/* Entry points of this library for the runtime.
 *
 * The runtime loads this plug-in on first use (modules/ffi_library.c). Without a libtvm_ffi it uses
 * the stubs, until `join` gives the path of one. */
#include <stdio.h>
#include <tvm/runtime/plugin.h>

#include "convert.h"
#include "error.h"
#include "library.h"
#include "raise.h"
#include "register.h"
#include "sdk/system.h"

TVM_DLL int tvmrt_tvm_ffi_start(void); /* for programs that open this library by its file */

/* tvmrt.tvm_ffi.join(path): use this libtvm_ffi; returns its version as text. */
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

/* tvmrt.tvm_ffi.address(name): address of the C function "safe_call" or "packed_call". */
static int address(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                   void* resource) {
  TVMValue value;
  int code = kTVMOpaqueHandle;
  (void)resource;
  if (num_args != 1 || codes[0] != kTVMStr) {
    return bridge_fail("TypeError: tvmrt.tvm_ffi.address takes the name of a function");
  }
  /* The first letter distinguishes the two, since only the runtime calls this. */
  value.v_handle = args[0].v_str[0] == 's' ? (void*)(uintptr_t)bridge_safe_call
                                           : (void*)(uintptr_t)bridge_packed_call;
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

/* tvmrt.tvm_ffi.lines(text): backtrace of the error with this text, as bytes. */
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

/* An unusable libtvm_ffi is not an error here: it may be joined later by path, which reports the
 * reason. */
int tvmrt_tvm_ffi_start(void) {
  (void)bridge_join_loaded();
  if (bridge_register_classic("tvmrt.tvm_ffi.join", join) != 0 ||
      bridge_register_classic("tvmrt.tvm_ffi.lines", lines) != 0 ||
      bridge_register_classic("tvmrt.tvm_ffi.address", address) != 0) {
    return -1;
  }
  return bridge_register_makers();
}

/* ---- functions called by the runtime by name ---- */

/* tvmrt.tvm_ffi.start(): does nothing; looking it up loads this plug-in. */
static int start(TVMValue* args, int* codes, int num_args, TVMValue* out, int* out_code,
                 void* name) {
  (void)args;
  (void)codes;
  (void)out;
  (void)out_code;
  (void)name;
  return num_args == 0 ? 0 : bridge_fail("TypeError: tvmrt.tvm_ffi.start takes no arguments");
}

static const char kHere[] = ""; /* an address inside this library */

/* The library's own handle; it is never unloaded. */
static void* own_handle(void) {
  const char* path = tvmrt__library_of(kHere);
  return path == NULL ? NULL : tvmrt__library_load_file(path, TVMRT_LOAD_IF_LOADED);
}

/* tvmrt.tvm_ffi.symbol(name): this plug-in's version of a libtvm_ffi function, or NULL. */
static int symbol(TVMValue* args, int* codes, int num_args, TVMValue* out, int* out_code,
                  void* name) {
  void* handle;
  (void)name;
  if (num_args != 1 || codes[0] != kTVMStr) {
    return bridge_fail("TypeError: tvmrt.tvm_ffi.symbol takes the name of a function");
  }
  handle = own_handle();
  out->v_handle = handle == NULL ? NULL : tvmrt__library_symbol(handle, args[0].v_str);
  *out_code = kTVMOpaqueHandle;
  return 0;
}

/* tvmrt.tvm_ffi.show(): make these functions visible to libraries that are loaded later. */
static int show(TVMValue* args, int* codes, int num_args, TVMValue* out, int* out_code,
                void* name) {
  void* handle = own_handle();
  (void)args;
  (void)codes;
  (void)num_args;
  (void)out;
  (void)out_code;
  (void)name;
  if (handle != NULL && tvmrt__library_show(handle)) return 0;
  return bridge_fail("OSError: the functions of libtvm_ffi cannot be made global.");
}

static const tvmrt_plugin_function functions[] = {{"tvmrt.tvm_ffi.start", start},
                                                  {"tvmrt.tvm_ffi.symbol", symbol},
                                                  {"tvmrt.tvm_ffi.show", show},
                                                  {NULL, NULL}};

TVMRT_PLUGIN_TABLE = {
    sizeof(tvmrt_plugin), TVMRT_PLUGIN_ABI, "tvm_ffi", functions, tvmrt_tvm_ffi_start, NULL,
    TVMRT_SDK_VERSION};
