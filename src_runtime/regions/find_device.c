/* Devices by name.
 *
 * A name is looked up in this order: registered devices, those that are part of this library,
 * plug-ins in their folders, plug-ins with the prefix `device.<name>.`, packed functions of a front
 * end, and finally the front end's installed packages. A found device stays registered until it is
 * unregistered. */
#include "../core/plugins.h"
#include "registry.h"

/* A plug-in with the prefix of the device's functions registers it when it is loaded. */
static int load_by_prefix(const char* name) {
  tvmrt_buf function = {NULL, 0, 0};
  int rc = tvmrt__buf_printf(&function, "device.%s.run", name);
  if (rc == 0) rc = tvmrt__plugin_load_for(function.data);
  tvmrt__buf_free(&function);
  return rc;
}

/* Called with the lock held. *out is NULL, with result 0, if there is no such device. */
static int find_or_load(const char* name, tvmrt_device** out) {
  bool found; /* the plug-in may contain only a kind of modules, and no device */
  *out = NULL;
  if (!tvmrt__is_device_name(name)) return 0;
  *out = tvmrt__device_registered(name);
  if (*out != NULL) return 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__device_enter_builtin(name));
  *out = tvmrt__device_registered(name);
  if (*out != NULL) return 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__plugin_find(name, &found));
  if (!found) TVMRT_RETURN_IF_ERROR(tvmrt__plugin_enter_again(name));
  TVMRT_RETURN_IF_ERROR(load_by_prefix(name));
  return tvmrt__device_find_scripted(name, out);
}

/* Let the front end search its packages; those of Python declare devices by entry points. */
static int query_front_end(const char* name) {
  TVMValue arg = {.v_str = name};
  int type = kTVMStr;
  return tvmrt__global_notify("tvmrt.device.find_installed", &arg, &type, 1);
}

/* Called with the registry locked; unlocked during the front end's search, which takes its own
 * lock, whose holder may be waiting for this one. */
static int find_or_query(const char* name, tvmrt_device** out) {
  int rc = find_or_load(name, out);
  if (rc != 0 || *out != NULL || !tvmrt__is_device_name(name)) return rc;
  tvmrt__loading_end();
  rc = query_front_end(name);
  tvmrt__loading_begin();
  return rc == 0 ? tvmrt__device_find_scripted(name, out) : rc;
}

/* Borrowed, and not held: it may be unregistered at any time. */
int tvmrt__device_find(const char* name, tvmrt_device** out_device) {
  int rc;
  tvmrt__loading_begin();
  rc = find_or_query(name, out_device);
  tvmrt__loading_end();
  return rc;
}

/* Held until tvmrt__device_put(). */
int tvmrt__device_take(const char* name, tvmrt_device** out) {
  int rc;
  tvmrt__loading_begin();
  rc = find_or_query(name, out);
  if (*out != NULL) tvmrt__device_hold(*out);
  tvmrt__loading_end();
  return rc;
}

/* Loaded regions keep the options that they were prepared with. */
int tvmrt__device_set_options(const char* name, const char* options) {
  tvmrt_device* device;
  int rc;
  tvmrt__loading_begin();
  rc = find_or_query(name, &device);
  if (rc == 0 && device == NULL) rc = tvmrt__fail_value("there is no device '%.60s'.", name);
  if (rc == 0) rc = tvmrt__device_keep_options(device, options);
  tvmrt__loading_end();
  return rc;
}
