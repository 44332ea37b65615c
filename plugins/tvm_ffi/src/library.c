/* Finds libtvm_ffi and calls its global functions.
 *
 * `bridge_api` points to the functions of the first library found, permanently. Readers take no
 * lock, so the table is complete when published and never changes. */
#include "library.h"

#include <stddef.h>
#include <string.h>

#include "errors.h"
#include "sdk/base.h"
#include "sdk/system.h"

/* The 0.1 releases agree in everything declared in abi.h. */
enum { KNOWN_MAJOR = 0, KNOWN_MINOR = 1 };

static const char kName[] = "libtvm_ffi" TVMRT_LIBRARY_SUFFIX;

const FfiApi* _Atomic bridge_api;

static const struct {
  const char* name;
  size_t offset; /* of the pointer in FfiApi */
} kSymbols[] = {
    {"TVMFFIGetVersion", offsetof(FfiApi, get_version)}, /* first: it decides on the others */
    {"TVMFFIFunctionCreate", offsetof(FfiApi, function_create)},
    {"TVMFFIFunctionCall", offsetof(FfiApi, function_call)},
    {"TVMFFIFunctionGetGlobal", offsetof(FfiApi, function_get_global)},
    {"TVMFFIErrorMoveFromRaised", offsetof(FfiApi, error_move_from_raised)},
    {"TVMFFIErrorSetRaised", offsetof(FfiApi, error_set_raised)},
    {"TVMFFIErrorSetRaisedFromCStr", offsetof(FfiApi, error_set_raised_from_text)},
    {"TVMFFITensorFromDLPack", offsetof(FfiApi, tensor_from_dlpack)},
    {"TVMFFITensorToDLPack", offsetof(FfiApi, tensor_to_dlpack)},
    {"TVMFFIStringFromByteArray", offsetof(FfiApi, string_from_bytes)},
    {"TVMFFIBytesFromByteArray", offsetof(FfiApi, bytes_from_bytes)},
    {"TVMFFIGetTypeInfo", offsetof(FfiApi, get_type_info)},
    {"TVMFFIEnvSetStream", offsetof(FfiApi, env_set_stream)},
    {"TVMFFIEnvGetStream", offsetof(FfiApi, env_get_stream)},
};

/* Before 1.0 a minor release may change structs, so only the known one is accepted. */
static int check_version(const char* path, const FfiApi* api) {
  uint32_t version[3];
  api->get_version(version);
  if (version[0] == KNOWN_MAJOR && version[1] == KNOWN_MINOR) return 0;
  return tvmrt__fail(
      "OSError: %s is version %u.%u.%u of tvm-ffi, which this plug-in does not support: install "
      "%d.%d.",
      path, version[0], version[1], version[2], KNOWN_MAJOR, KNOWN_MINOR);
}

/* All symbols are required: an incomplete table would fail during a later call. */
static int find_symbols(void* library, const char* path, FfiApi* api) {
  for (size_t i = 0; i < sizeof(kSymbols) / sizeof(kSymbols[0]); i++) {
    void* symbol = tvmrt__library_symbol(library, kSymbols[i].name);
    if (symbol == NULL) {
      return tvmrt__fail("OSError: %s has no function %s: it is not libtvm_ffi %d.%d.", path,
                         kSymbols[i].name, KNOWN_MAJOR, KNOWN_MINOR);
    }
    /* ISO C cannot convert data pointers to function pointers; every host can */
    memcpy((char*)api + kSymbols[i].offset, &symbol, sizeof(symbol));
    if (i == 0) TVMRT_RETURN_IF_ERROR(check_version(path, api));
  }
  return 0;
}

/* Functions of the first library found; filled once, before publication. */
static FfiApi first;
static tvmrt_mutex publishing = TVMRT_MUTEX_INIT;

/* Other threads may have found a library meanwhile, normally the same one. */
static void publish(const FfiApi* found) {
  tvmrt__lock(&publishing);
  if (atomic_load(&bridge_api) == NULL) {
    first = *found;
    atomic_store_explicit(&bridge_api, &first, memory_order_release);
  }
  tvmrt__unlock(&publishing);
}

/* The library stays loaded: functions may live until the process ends. It is made visible to
 * libraries that call its functions without being linked with it; where the system cannot do that
 * later, their own loading reports what is missing. */
static int open_library(void* library, const char* path) {
  FfiApi found;
  if (find_symbols(library, path, &found) != 0) {
    tvmrt__library_unload(library);
    return -1;
  }
  (void)tvmrt__library_show(library);
  publish(&found);
  return 0;
}

/* May be called again, with the same library or another; the first one stays in use. */
int bridge_open(const char* path) {
  void* library = tvmrt__library_load_file(path, TVMRT_LOAD_NOW);
  if (library == NULL) {
    return tvmrt__fail("OSError: the library of tvm-ffi cannot be loaded: %s.",
                       tvmrt__library_error());
  }
  return open_library(library, path);
}

/* A library that is already loaded comes first: it is the one that other code uses. */
int bridge_require(void) {
  void* library;
  if (atomic_load_explicit(&bridge_api, memory_order_acquire) != NULL) return 0;
  library = tvmrt__library_load_file(kName, TVMRT_LOAD_IF_LOADED);
  if (library == NULL) library = tvmrt__library_load_file(kName, TVMRT_LOAD_NOW);
  if (library != NULL) return open_library(library, kName);
  return tvmrt__fail(
      "OSError: functions of tvm-ffi need %s, which this process has not loaded: pip install "
      "apache-tvm-ffi and import tvm_ffi, or make the library known to the system's loader (%s).",
      kName, tvmrt__library_error());
}

/* Looked up for each call, since functions of the registry may be replaced. */
int bridge_call_ffi(const char* name, FfiAny* args, int count, FfiAny* out) {
  const TVMByteArray key = {name, strlen(name)};
  void* function = NULL;
  int rc;
  *out = (FfiAny){.type_index = kFfiNone};
  if (ffi.function_get_global(&key, &function) != 0) return bridge_catch();
  if (function == NULL) {
    return tvmrt__fail("libtvm_ffi has no global function %s: install a newer release of 0.1.",
                       name);
  }
  rc = ffi.function_call(function, args, count, out) == 0 ? 0 : bridge_catch();
  ffi_release(function);
  return rc;
}
