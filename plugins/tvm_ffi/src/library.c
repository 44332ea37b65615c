/* Finds libtvm_ffi, which another package has loaded.
 *
 * `bridge_api` points to the stubs until a libtvm_ffi is found, then permanently to its functions.
 * Readers take no lock, so a table is complete when published and never changes. */
#include "library.h"

#include <stddef.h>
#include <string.h>

#include "error.h"
#include "sdk/system.h"
#include "stubs.h"

/* The 0.1 releases agree in everything declared in abi.h. */
enum { KNOWN_MAJOR = 0, KNOWN_MINOR = 1 };

const FfiApi* _Atomic bridge_api = &stub_api;

static const struct {
  const char* name;
  size_t offset; /* of the pointer in FfiApi */
} kSymbols[] = {
    {"TVMFFIGetVersion", offsetof(FfiApi, get_version)}, /* first: it decides on the others */
    {"TVMFFIFunctionCreate", offsetof(FfiApi, function_create)},
    {"TVMFFIFunctionCall", offsetof(FfiApi, function_call)},
    {"TVMFFIFunctionSetGlobal", offsetof(FfiApi, function_set_global)},
    {"TVMFFIErrorMoveFromRaised", offsetof(FfiApi, error_move_from_raised)},
    {"TVMFFIErrorSetRaisedFromCStr", offsetof(FfiApi, error_set_raised)},
    {"TVMFFITensorFromDLPack", offsetof(FfiApi, tensor_from_dlpack)},
    {"TVMFFITensorToDLPack", offsetof(FfiApi, tensor_to_dlpack)},
    {"TVMFFIStringFromByteArray", offsetof(FfiApi, string_from_bytes)},
    {"TVMFFIBytesFromByteArray", offsetof(FfiApi, bytes_from_bytes)},
    {"TVMFFIGetTypeInfo", offsetof(FfiApi, get_type_info)},
    {"TVMFFIEnvSetStream", offsetof(FfiApi, env_set_stream)},
    {"TVMFFIEnvGetStream", offsetof(FfiApi, env_get_stream)},
};

/* Before 1.0 a minor release may change structs, so only the known one is accepted. */
static int check_version(const char* path, const FfiApi* api, FfiVersion* version) {
  api->get_version(version);
  if (version->major == KNOWN_MAJOR && version->minor == KNOWN_MINOR) return 0;
  return bridge_fail(
      "%s is version %u.%u.%u of tvm-ffi, which this plug-in does not support: install %d.%d", path,
      version->major, version->minor, version->patch, KNOWN_MAJOR, KNOWN_MINOR);
}

/* All symbols are required: an incomplete table would fail during a later call. */
static int find_symbols(void* library, const char* path, FfiApi* api, FfiVersion* version) {
  for (size_t i = 0; i < sizeof(kSymbols) / sizeof(kSymbols[0]); i++) {
    void* symbol = tvmrt__library_symbol(library, kSymbols[i].name);
    if (symbol == NULL) {
      return bridge_fail("%s has no function %s: it is not libtvm_ffi %d.%d", path,
                         kSymbols[i].name, KNOWN_MAJOR, KNOWN_MINOR);
    }
    /* ISO C cannot convert data pointers to function pointers; every host can */
    memcpy((char*)api + kSymbols[i].offset, &symbol, sizeof(symbol));
    if (i == 0 && check_version(path, api, version) != 0) return -1;
  }
  return 0;
}

/* Functions of the first library found; filled once, before publication. */
static FfiApi joined;
static tvmrt_mutex joining = TVMRT_MUTEX_INIT;

/* The first thread publishes its table; other threads have found the same functions. */
static void show(const FfiApi* found) {
  tvmrt__lock(&joining);
  if (atomic_load(&bridge_api) == &stub_api) {
    joined = *found;
    atomic_store_explicit(&bridge_api, &joined, memory_order_release);
  }
  tvmrt__unlock(&joining);
}

/* May be called again, with the same library or another; the first one stays in use. */
int bridge_open(const char* path, FfiVersion* version) {
  FfiApi found;
  void* library = tvmrt__library_load_file(path, TVMRT_LOAD_NOW);
  if (library == NULL)
    return bridge_fail("the library of tvm-ffi cannot be loaded: %s", tvmrt__library_error());
  if (find_symbols(library, path, &found, version) != 0) {
    tvmrt__library_unload(library);
    return -1;
  }
  show(&found); /* the library stays loaded: functions may live until the process ends */
  return 0;
}

static const char kName[] = "libtvm_ffi.so";

/* Never loads the library: only the package that contains it knows the right file. */
int bridge_join_loaded(void) {
  FfiVersion version;
  void* library;
  if (atomic_load(&bridge_api) != &stub_api) return 1;
  library = tvmrt__library_load_file(kName, TVMRT_LOAD_IF_LOADED);
  if (library == NULL) return 0;
  tvmrt__library_unload(library);
  return bridge_open(kName, &version) == 0;
}

/* The library's users keep it loaded, so the symbol stays valid. */
void* bridge_loaded_symbol(const char* name) {
  void* library = tvmrt__library_load_file(kName, TVMRT_LOAD_IF_LOADED);
  void* symbol = library == NULL ? NULL : tvmrt__library_symbol(library, name);
  if (library != NULL) tvmrt__library_unload(library);
  return symbol;
}
