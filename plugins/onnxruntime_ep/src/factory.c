/* The two functions that onnxruntime calls by name, and the factory of execution providers. */
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/plugin.h>

#include "provider.h"
#include "sdk/system.h"

static const char* get_version(const void* self) { return ((const factory*)self)->version; }

static ort_status* get_devices(void* self, const ort_hardware* const* hardware, size_t count,
                               ort_device** devices, size_t most, size_t* made) {
  factory* f = self;
  ort_status* status = NULL;
  *made = 0;
  for (size_t i = 0; status == NULL && i < count && *made < most; ++i) {
    if (f->ort.api.HardwareDevice_Type(hardware[i]) != ORT_HARDWARE_CPU) continue;
    status = f->ort.ep.CreateEpDevice(f, hardware[i], NULL, NULL, &devices[*made]);
    if (status == NULL) ++*made;
  }
  return status;
}

static uint32_t get_vendor_id(const void* self) {
  (void)self;
  return 0; /* no number of the PCI vendors */
}

/* Required of all factories: memory is that of the processor, so nothing is copied by tvmrt. */
static ort_status* create_data_transfer(void* self, void** out) {
  (void)self;
  *out = NULL;
  return NULL;
}

static const ort_slot slots[ORT_OWN_SLOTS] = {
    [OrtEpFactory_GetName] = (ort_slot)provider_name,
    [OrtEpFactory_GetVendor] = (ort_slot)provider_name,
    [OrtEpFactory_GetSupportedDevices] = (ort_slot)get_devices,
    [OrtEpFactory_CreateEp] = (ort_slot)provider_create,
    [OrtEpFactory_ReleaseEp] = (ort_slot)provider_release,
    [OrtEpFactory_GetVendorId] = (ort_slot)get_vendor_id,
    [OrtEpFactory_GetVersion] = (ort_slot)get_version,
    [OrtEpFactory_CreateDataTransfer] = (ort_slot)create_data_transfer,
};

/* onnxruntime unloads this library, but the runtime of tvmrt has threads and tables for the life of
 * the process, so its handle is never closed. Libraries of networks call functions of the runtime
 * and do not name its file. */
static bool keep_runtime(void) {
  int (*function)(TVMFunctionHandle) = TVMFuncFree;
  const void* address;
  const char* path;
  void* handle;
  memcpy(&address, &function, sizeof(address));
  path = tvmrt__library_of(address);
  handle = path == NULL ? NULL : tvmrt__library_load_file(path, TVMRT_LOAD_NOW);
  return handle != NULL && tvmrt__library_show(handle);
}

/* Bytes of the numbers at the start of the version: onnxruntime refuses "0.4.0.dev0". */
static size_t numbers_of_version(void) {
  const size_t bytes = strspn(TVMRT_SDK_VERSION, "0123456789.");
  return TVMRT_SDK_VERSION[bytes - 1] == '.' ? bytes - 1 : bytes;
}

TVM_DLL ort_status* CreateEpFactories(const char* name, const ort_base* base, const void* logger,
                                      void** factories, size_t most, size_t* made);
TVM_DLL ort_status* ReleaseEpFactory(void* of);

ort_status* CreateEpFactories(const char* name, const ort_base* base, const void* logger,
                              void** factories, size_t most, size_t* made) {
  ort_functions early = {0};
  job j = {.ort = &early};
  const void* api = base->get_api(ORT_VERSION_NEEDED);
  const void* any = api != NULL ? api : base->get_api(1);
  factory* f;
  (void)name, (void)logger;
  *made = 0;
  if (any == NULL) return NULL;                        /* without an API there is no error either */
  memcpy(&early.api.CreateStatus, any, sizeof(void*)); /* old ones have no more of the table */
  if (api == NULL) {
    job_fail(&j, ORT_FAIL,
             "onnxruntime 1.%d or later is needed; this is onnxruntime %s: install a newer one",
             ORT_VERSION_NEEDED, base->get_version());
    return job_end(&j);
  }
  OrtApi_load(&early.api, api);
  OrtEpApi_load(&early.ep, early.api.GetEpApi());
  OrtModelEditorApi_load(&early.editor, early.api.GetModelEditorApi());
  if (most < 1) job_fail(&j, ORT_INVALID_ARGUMENT, "there is no room for a factory");
  if (!keep_runtime()) job_fail(&j, ORT_FAIL, "its runtime library is not a file");
  f = own_new(&j, sizeof(*f), slots);
  if (f != NULL) {
    f->ort = early;
    memcpy(f->version, TVMRT_SDK_VERSION, numbers_of_version());
    factories[0] = f;
    *made = 1;
  }
  return job_end(&j);
}

ort_status* ReleaseEpFactory(void* of) {
  free(of);
  return NULL;
}

/* A library among the plug-ins of the runtime, without global functions. */
static const tvmrt_plugin_function functions[] = {{NULL, NULL}};

TVMRT_PLUGIN_TABLE = {
    sizeof(tvmrt_plugin), TVMRT_PLUGIN_ABI, "onnxruntime_ep", functions, NULL, NULL,
    TVMRT_SDK_VERSION};
