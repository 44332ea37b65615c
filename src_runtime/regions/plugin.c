/* Plug-ins: shared objects that bring a device. */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "../modules/module.h"
#include "registry.h"

/* What was loaded stays mapped, entered or not: what it started may still run. */
typedef struct plugin {
  void* handle;
  tvmrt_file_id file;
  atomic_bool is_entered; /* its registering function succeeded */
  struct plugin* next;
} plugin;

static pthread_mutex_t loaded_lock = PTHREAD_MUTEX_INITIALIZER;
static plugin* loaded;

static plugin* find_loaded(const void* handle) {
  plugin* p;
  (void)pthread_mutex_lock(&loaded_lock);
  p = loaded;
  while (p != NULL && p->handle != handle) p = p->next;
  (void)pthread_mutex_unlock(&loaded_lock);
  return p;
}

static bool file_of(const void* handle, tvmrt_file_id* out) {
  const plugin* p = find_loaded(handle);
  if (p != NULL) *out = p->file;
  return p != NULL;
}

/* ISO C keeps function and object pointers apart; dlsym does not. */
#define FIND_FUNCTION(handle, name, out)      \
  do {                                        \
    void* symbol_ = dlsym((handle), (name));  \
    memcpy((out), &symbol_, sizeof(symbol_)); \
  } while (0)

static int check_abi(void* handle, const char* path) {
  int32_t (*abi)(void);
  FIND_FUNCTION(handle, "tvmrt_plugin_abi", &abi);
  if (abi == NULL) {
    return tvmrt__fail_value(
        "'%.200s' is no device plug-in: it has no function tvmrt_plugin_abi; put "
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

static int enter_plugin(void* handle, const char* path) {
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
  return tvmrt__fail("plug-in '%.200s' cannot be registered; it gave no reason.", path);
}

static int keep(void* handle, const tvmrt_file_id* file, const char* path, plugin** out) {
  plugin* p = check_abi(handle, path) == 0 ? tvmrt__calloc(1, sizeof(*p)) : NULL;
  *out = p;
  if (p == NULL) {
    (void)dlclose(handle);
    return -1;
  }
  p->handle = handle;
  p->file = *file;
  (void)pthread_mutex_lock(&loaded_lock);
  p->next = loaded;
  loaded = p;
  (void)pthread_mutex_unlock(&loaded_lock);
  return 0;
}

/* `anew`: let a plug-in that is loaded already register again, since its device was unregistered. */
static int load_plugin(const char* path, bool anew) {
  /* a symbol that it lacks is an error here, and not the end of the process in the middle of a run */
  const tvmrt_opening how = {path, RTLD_NOW | RTLD_LOCAL, "cannot load the plug-in", file_of};
  tvmrt_file_id file;
  void* handle;
  plugin* p;
  TVMRT_RETURN_IF_ERROR(tvmrt__map_library(&how, &handle, &file));
  p = find_loaded(handle);
  if (p != NULL) {
    (void)dlclose(handle);
  } else {
    TVMRT_RETURN_IF_ERROR(keep(handle, &file, path, &p));
  }
  if (p->is_entered && !anew) return 0;
  /* without the lock, since what registers calls the registry, which may look for plug-ins */
  TVMRT_RETURN_IF_ERROR(enter_plugin(p->handle, path));
  p->is_entered = true;
  return 0;
}

int tvmrt_device_load_plugin(const char* path) {
  if (path == NULL) return tvmrt__fail_value("tvmrt_device_load_plugin: the path is NULL.");
  return load_plugin(path, false);
}

/* The folder of this library, with its '/'; nothing where the library is part of the program. */
static int own_folder(tvmrt_buf* out) {
  Dl_info info;
  const char* slash;
  if (dladdr(&loaded, &info) == 0 || info.dli_fname == NULL) return 0;
  slash = strrchr(info.dli_fname, '/');
  if (slash == NULL) return 0;
  return tvmrt__buf_append(out, info.dli_fname, (size_t)(slash - info.dli_fname) + 1);
}

int tvmrt__plugin_folders(tvmrt_buf* out) {
  const char* folders = getenv("TVMRT_DEVICE_PATH");
  tvmrt_buf own = {NULL, 0, 0};
  int rc = own_folder(&own);
  if (rc == 0 && folders != NULL && folders[0] != '\0') rc = tvmrt__buf_printf(out, "%s:", folders);
  if (rc == 0 && own.size != 0) rc = tvmrt__buf_printf(out, "%sdevices:%s", own.data, own.data);
  tvmrt__buf_free(&own);
  return rc;
}

static const char prefix[] = "libtvmrt_device_";
static const char suffix[] = ".so";

/* Append the name of a plug-in's device, if a file's name is that of one. */
static int append_name(tvmrt_buf* out, const char* file) {
  const size_t skip = sizeof(prefix) - 1;
  const size_t size = strlen(file);
  if (size <= skip + sizeof(suffix) - 1 || strncmp(file, prefix, skip) != 0 ||
      strcmp(file + size - (sizeof(suffix) - 1), suffix) != 0) {
    return 0;
  }
  return tvmrt__buf_printf(out, "%.*s\n", (int)(size - skip - (sizeof(suffix) - 1)), file + skip);
}

static int append_folder(tvmrt_buf* out, const char* folder) {
  DIR* dir = opendir(folder);
  const struct dirent* row;
  int rc = 0;
  if (dir == NULL) return 0;
  while (rc == 0 && (row = readdir(dir)) != NULL) rc = append_name(out, row->d_name);
  (void)closedir(dir);
  return rc;
}

int tvmrt__plugin_names(tvmrt_buf* out) {
  tvmrt_buf folders = {NULL, 0, 0};
  char* at;
  int rc = tvmrt__plugin_folders(&folders);
  for (at = folders.data; rc == 0 && at != NULL;) {
    char* end = strchr(at, ':');
    if (end != NULL) *end = '\0';
    rc = append_folder(out, at);
    at = end == NULL ? NULL : end + 1;
  }
  tvmrt__buf_free(&folders);
  return rc;
}

/* The plug-in's path in a folder, if there is such a file. */
static int try_folder(const char* folder, size_t size, const char* name, bool* out_found) {
  tvmrt_buf path = {NULL, 0, 0};
  int rc = size == 0
               ? 0
               : tvmrt__buf_printf(&path, "%.*s/%s%s%s", (int)size, folder, prefix, name, suffix);
  if (rc == 0 && size != 0 && access(path.data, R_OK) == 0) {
    *out_found = true;
    rc = load_plugin(path.data, true);
  }
  tvmrt__buf_free(&path);
  return rc;
}

int tvmrt__plugin_find(const char* name, bool* out_found) {
  tvmrt_buf folders = {NULL, 0, 0};
  const char* at;
  int rc = tvmrt__plugin_folders(&folders);
  *out_found = false;
  for (at = folders.data; rc == 0 && at != NULL && !*out_found;) {
    const char* end = strchr(at, ':');
    rc = try_folder(at, end == NULL ? strlen(at) : (size_t)(end - at), name, out_found);
    at = end == NULL ? NULL : end + 1;
  }
  tvmrt__buf_free(&folders);
  return rc;
}
