/* Plug-ins: shared objects that contain a device.
 *
 * A valid plug-in stays mapped, since its threads may still run. The list has a lock that is not
 * held while plug-in code is called, as that registers devices and may look up other plug-ins. */
#include <stdatomic.h>
#include <stdlib.h>

#include "../core/plugin_prefixes.h"
#include "../modules/module.h"
#include "../platform/threads.h"
#include "registry.h"

/* A loaded plug-in stays mapped, registered or not: its threads may still run. */
typedef struct plugin {
  void* handle;
  tvmrt_file_id file;
  atomic_bool is_entered; /* its registration function succeeded */
  char* path;             /* from which it was loaded first */
  tvmrt_buf devices;      /* registered devices, one per line; protected by the lock */
  struct plugin* next;
} plugin;

static tvmrt_mutex loaded_lock = TVMRT_MUTEX_INIT;
static plugin* loaded;

/* Entries are never removed, so the result is valid without the lock. */
static plugin* find_loaded(const void* handle) {
  plugin* p;
  tvmrt__lock(&loaded_lock);
  p = loaded;
  while (p != NULL && p->handle != handle) p = p->next;
  tvmrt__unlock(&loaded_lock);
  return p;
}

/* For tvmrt__map_library(): the file of a plug-in by its handle. */
static bool file_of(const void* handle, tvmrt_file_id* out) {
  const plugin* p = find_loaded(handle);
  if (p != NULL) *out = p->file;
  return p != NULL;
}

/* ISO C has no conversion between object and function pointers; dlsym requires it. */
#define FIND_FUNCTION(handle, name, out)                     \
  do {                                                       \
    void* symbol_ = tvmrt__library_symbol((handle), (name)); \
    memcpy((out), &symbol_, sizeof(symbol_));                \
  } while (0)

/* Called before any other function of the plug-in. */
static int check_abi(void* handle, const char* path) {
  int32_t (*abi)(void);
  FIND_FUNCTION(handle, "tvmrt_plugin_abi", &abi);
  if (abi == NULL) {
    return tvmrt__fail_value(
        "'%.200s' is not a device plug-in: it has no function tvmrt_plugin_abi; put "
        "TVMRT_DEVICE_PLUGIN into its source.",
        path);
  }
  if (abi() != TVMRT_DEVICE_ABI) {
    return tvmrt__fail_value(
        "plug-in '%.200s' was built for version %d of the device interface, this "
        "runtime "
        "has version %d; build it again with this runtime's headers.",
        path, (int)abi(), TVMRT_DEVICE_ABI);
  }
  return 0;
}

/* The path is put before the registration function's error text. */
static int call_register(void* handle, const char* path) {
  int (*enter)(void);
  FIND_FUNCTION(handle, "tvmrt_plugin_register", &enter);
  if (enter == NULL) {
    return tvmrt__fail_value("plug-in '%.200s' has no function tvmrt_plugin_register.", path);
  }
  tvmrt__forget_error();
  if (enter() == 0) return 0;
  if (TVMGetLastError()[0] != '\0') {
    return tvmrt__fail("plug-in '%.200s' cannot be registered: %s", path, TVMGetLastError());
  }
  return tvmrt__fail("plug-in '%.200s' cannot be registered; it returned no error text.", path);
}

/* Register without the lock, since registration calls the registry, which may look up plug-ins. The
 * names of the devices are recorded. A plug-in may load another one meanwhile. */
static int enter_plugin(plugin* p, const char* path) {
  tvmrt_thread* thread = tvmrt__thread();
  tvmrt_buf names = {NULL, 0, 0};
  tvmrt_buf* outer;
  int rc;
  if (thread == NULL) return -1;
  outer = thread->registered;
  thread->registered = &names;
  rc = call_register(p->handle, path);
  thread->registered = outer;
  if (rc == 0) {
    tvmrt_buf old;
    tvmrt__lock(&loaded_lock);
    old = p->devices;
    p->devices = names;
    names = old;
    tvmrt__unlock(&loaded_lock);
    p->is_entered = true;
  }
  tvmrt__buf_free(&names);
  return rc;
}

/* Takes ownership of the handle, also on failure. */
static int add_plugin(void* handle, const tvmrt_file_id* file, const char* path, plugin** out) {
  plugin* p = check_abi(handle, path) == 0 ? tvmrt__calloc(1, sizeof(*p)) : NULL;
  char* copy = p == NULL ? NULL : tvmrt__strdup(path);
  *out = p;
  if (copy == NULL) {
    free(p);
    tvmrt__library_unload(handle);
    return -1;
  }
  p->path = copy;
  p->handle = handle;
  p->file = *file;
  tvmrt__lock(&loaded_lock);
  p->next = loaded;
  loaded = p;
  tvmrt__unlock(&loaded_lock);
  return 0;
}

/* Whether one of the lines is this name. */
static bool has_line(const char* lines, const char* name) {
  const size_t size = strlen(name);
  while (lines != NULL && *lines != '\0') {
    if (strncmp(lines, name, size) == 0 && lines[size] == '\n') return true;
    lines = strchr(lines, '\n');
    if (lines != NULL) ++lines;
  }
  return false;
}

/* Whether the plug-in has registered devices, and none of them is registered now. The list's lock
 * is not held while the registry is queried, since the registry's lock comes first. */
static int has_lost_devices(plugin* p, bool* out) {
  char* names;
  char* at;
  *out = false;
  tvmrt__lock(&loaded_lock);
  names = tvmrt__strdup(p->devices.data == NULL ? "" : p->devices.data);
  tvmrt__unlock(&loaded_lock);
  if (names == NULL) return -1;
  *out = *names != '\0';
  for (at = names; *at != '\0';) {
    char* end = strchr(at, '\n');
    *end = '\0';
    if (tvmrt__device_is_registered(at)) *out = false;
    at = end + 1;
  }
  free(names);
  return 0;
}

/* A loaded plug-in registers again if its devices were unregistered. `again`: always. */
static int load_plugin(const char* path, bool again) {
  /* a missing symbol is an error here, instead of ending the process during a run */
  const tvmrt_open_options options = {path, TVMRT_LOAD_NOW, "cannot load the plug-in", file_of};
  tvmrt_file_id file;
  void* handle;
  plugin* p;
  TVMRT_RETURN_IF_ERROR(tvmrt__map_library(&options, &handle, &file));
  p = find_loaded(handle);
  /* The first handle keeps it mapped; handles are counted, so this one is closed. */
  if (p != NULL) {
    tvmrt__library_unload(handle);
  } else {
    TVMRT_RETURN_IF_ERROR(add_plugin(handle, &file, path, &p));
  }
  if (p->is_entered && !again) {
    bool lost;
    TVMRT_RETURN_IF_ERROR(has_lost_devices(p, &lost));
    if (!lost) return 0;
  }
  return enter_plugin(p, path);
}

/* A plug-in whose device is registered is not registered again, so two libraries may load it. */
int tvmrt__device_load_plugin(const char* path) {
  if (path == NULL) return tvmrt__fail_value("tvmrt_device_load_plugin: the path is NULL.");
  return load_plugin(path, false);
}

/* Of several plug-ins that registered the name, the last loaded one. */
int tvmrt__plugin_enter_again(const char* name) {
  plugin* p;
  tvmrt__lock(&loaded_lock);
  p = loaded;
  while (p != NULL && !has_line(p->devices.data, name)) p = p->next;
  tvmrt__unlock(&loaded_lock);
  return p == NULL ? 0 : enter_plugin(p, p->path);
}

/* In search order. */
int tvmrt__plugin_folders(tvmrt_buf* out) {
  const char* folders = getenv("TVMRT_DEVICE_PATH");
  tvmrt_buf own = {NULL, 0, 0};
  int rc = tvmrt__append_own_folder(&own, &loaded);
  /* Before the library's folder, so that a user's plug-in overrides an installed one. */
  if (rc == 0 && folders != NULL && folders[0] != '\0') {
    rc = tvmrt__buf_printf(out, "%s%c", folders, TVMRT_PATH_SEPARATOR);
  }
  if (rc == 0 && own.size != 0) {
    rc = tvmrt__buf_printf(out, "%sdevices%c%s", own.data, TVMRT_PATH_SEPARATOR, own.data);
  }
  tvmrt__buf_free(&own);
  return rc;
}

static const char prefix[] = TVMRT_LIBRARY_PREFIX "tvmrt_device_";
static const char suffix[] = TVMRT_LIBRARY_SUFFIX;

/* Append the device name of a plug-in, if the file name is that of one. */
static int append_name(void* names, const char* file) {
  tvmrt_buf* out = names;
  const size_t skip = sizeof(prefix) - 1;
  const size_t size = strlen(file);
  if (size <= skip + sizeof(suffix) - 1 || strncmp(file, prefix, skip) != 0 ||
      strcmp(file + size - (sizeof(suffix) - 1), suffix) != 0) {
    return 0;
  }
  return tvmrt__buf_printf(out, "%.*s\n", (int)(size - skip - (sizeof(suffix) - 1)), file + skip);
}

/* From file names only: nothing is loaded. */
int tvmrt__plugin_names(tvmrt_buf* out) {
  tvmrt_buf folders = {NULL, 0, 0};
  char* at;
  int rc = tvmrt__plugin_folders(&folders);
  for (at = folders.data; rc == 0 && at != NULL;) {
    char* end = strchr(at, TVMRT_PATH_SEPARATOR);
    if (end != NULL) *end = '\0';
    rc = tvmrt__each_in_folder(at, append_name, out);
    at = end == NULL ? NULL : end + 1;
  }
  tvmrt__buf_free(&folders);
  return rc;
}

/* Load the plug-in from a folder, if the folder has its file. */
static int try_folder(const char* folder, size_t size, const char* name, bool* out_found) {
  tvmrt_buf path = {NULL, 0, 0};
  /* Skip empty folder names. */
  int rc = size == 0
               ? 0
               : tvmrt__buf_printf(&path, "%.*s/%s%s%s", (int)size, folder, prefix, name, suffix);
  if (rc == 0 && size != 0 && tvmrt__is_readable(path.data)) {
    *out_found = true;
    rc = load_plugin(path.data, true);
  }
  tvmrt__buf_free(&path);
  return rc;
}

/* In the order of the folders; the first file with the name is used, even if it cannot be
 * loaded. */
int tvmrt__plugin_find(const char* name, bool* out_found) {
  tvmrt_buf folders = {NULL, 0, 0};
  const char* at;
  int rc = tvmrt__plugin_folders(&folders);
  *out_found = false;
  for (at = folders.data; rc == 0 && at != NULL && !*out_found;) {
    const char* end = strchr(at, TVMRT_PATH_SEPARATOR);
    rc = try_folder(at, end == NULL ? strlen(at) : (size_t)(end - at), name, out_found);
    at = end == NULL ? NULL : end + 1;
  }
  tvmrt__buf_free(&folders);
  return rc;
}
