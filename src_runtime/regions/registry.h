/* Internal interface of the device registry. */
#ifndef TVMRT_SRC_RUNTIME_REGIONS_REGISTRY_H_
#define TVMRT_SRC_RUNTIME_REGIONS_REGISTRY_H_

#include <stdbool.h>
#include <tvm/runtime/device.h>

#include "../core/function.h"

/* A device that is part of this library. The build generates the table, which ends with a NULL
 * name, from the option static_plugins. */
typedef struct tvmrt_builtin_device {
  const char* name;
  int (*enter)(void);
  bool is_entering;
  bool is_without_device; /* it only registered a kind of modules, and need not do so again */
} tvmrt_builtin_device;
extern tvmrt_builtin_device tvmrt__builtin_devices[];

/* Register the devices of the table, once. Failing ones are skipped until looked up by name. */
void tvmrt__devices_enter_builtin(void);

/* Take a device, which cannot be unregistered until it is put back; *out is NULL if none exists. */
int tvmrt__device_take(const char* name, tvmrt_device** out);
void tvmrt__device_put(tvmrt_device* device);

/* The functions of <tvm/runtime/device.h>; modules/devices.c exports them. */
int tvmrt__device_register(const tvmrt_device* device);
int tvmrt__device_unregister(const char* name);
int tvmrt__device_find(const char* name, tvmrt_device** out_device);
int tvmrt__device_list(const char** names, int32_t capacity, int32_t* out_count);
int tvmrt__device_load_plugin(const char* path);
int tvmrt__split_graph_by_describe(tvmrt_device* device, const tvmrt_region* graph,
                                   int32_t* out_groups);
int tvmrt__region_find(TVMModuleHandle module, const char* symbol, tvmrt_region** out_region);

/* The device "cpu", which is always available. */
extern const tvmrt_device tvmrt__cpu_device;
bool tvmrt__is_cpu(const tvmrt_device* device);

/* Options for regions that are prepared from now on; NULL if none were set. *out is owned. */
int tvmrt__device_options(tvmrt_device* device, char** out);
int tvmrt__device_set_options(const char* name, const char* options);

/* Call `describe`; the result is empty if the slot is NULL. */
int tvmrt__device_describe(tvmrt_device* device, tvmrt_device_description* out);
int tvmrt__device_evaluate(tvmrt_device* device, const tvmrt_region* region);

/* Put device, slot, region (may be NULL) and node before the thread's error text. Returns -1. */
int tvmrt__slot_failed(const tvmrt_device* device, const char* slot, const tvmrt_region* region);

/* Load the plug-in of a device from the usual folders; *out_found: whether there was one. */
int tvmrt__plugin_find(const char* name, bool* out_found);
/* Let a plug-in that was loaded by its path, and registered a device of this name, register it
 * again; 0 also if there is none. */
int tvmrt__plugin_enter_again(const char* name);
bool tvmrt__device_is_registered(const char* name);
/* Names of the devices whose plug-ins are in these folders, each with a '\n'. */
int tvmrt__plugin_names(tvmrt_buf* out);
/* "<folder>:<folder>": search path of plug-ins. */
int tvmrt__plugin_folders(tvmrt_buf* out);

/* Fill `out` with a device that calls packed functions `device.<name>.run` ...; *out_found is false
 * if there is no such function. `name` must live as long as the device. */
int tvmrt__scripted_device(const char* name, tvmrt_device* out, bool* out_found);

/* Global functions of each device that is not scripted, as `device.<name>.describe`: set once, before
 * the first device is registered. */
void tvmrt__devices_set_functions(const tvmrt_builtins* functions);

/* Parts of a look-up, see find_device.c, which calls them with the registry locked, as
 * tvmrt__loading_begin() does. */
bool tvmrt__is_device_name(const char* text);
/* NULL if no device with this name is registered. */
tvmrt_device* tvmrt__device_registered(const char* name);
/* Register a device that is part of this library; 0 also for another name. */
int tvmrt__device_enter_builtin(const char* name);
/* A device whose functions a front end registered becomes an entry on first use. */
int tvmrt__device_find_scripted(const char* name, tvmrt_device** out);
/* Until tvmrt__device_put(). */
void tvmrt__device_hold(tvmrt_device* device);
int tvmrt__device_keep_options(tvmrt_device* device, const char* options);

#endif
