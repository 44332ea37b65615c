/* Devices by name: registering, finding, unregistering.
 *
 * A name is looked up in this order: registered devices, those that are part of this library,
 * plug-ins in their folders, plug-ins with the prefix `device.<name>.`, packed functions of a front
 * end, and finally the front end's installed packages. A found device becomes an entry until it is
 * unregistered.
 *
 * An entry has copies of the device's structs, so that slots unknown to an older plug-in are NULL
 * here, and a stable address while the device is registered. tvmrt_device_find() returns it
 * borrowed; tvmrt__device_take() counts users, and a device with users cannot be unregistered. */
#include "registry.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include "../core/plugins.h"

typedef struct entry {
  tvmrt_device device;              /* argument of slots; first, so that a device is its entry */
  tvmrt_device_interface interface; /* copies: slots missing in the device's header are NULL */
  tvmrt_device_allocator allocator;
  tvmrt_device_optimizer optimizer;
  struct entry* next;
  size_t users; /* modules that hold it */
  char* options;
  char* own_name; /* of a scripted device; NULL: it has registered its functions itself */
} entry;

/* One lock for all, shared with plug-ins: devices are rarely registered. It is recursive, because
 * the registry calls a plug-in's registration function, which calls the registry. */
static entry* first;

static void lock_registry(void) { tvmrt__loading_begin(); }
static void unlock_registry(void) { tvmrt__loading_end(); }

/* Called with the lock held. */
static entry* find_entry(const char* name) {
  entry* e = first;
  while (e != NULL && strcmp(e->device.name, name) != 0) e = e->next;
  return e;
}

/* Called with the registry's lock held, like all registrations. */
static int enter_builtin(tvmrt_builtin_device* b) {
  int rc;
  /* enter() registers, which looks up built-in devices of that name again */
  if (b->is_entering || b->is_without_device || find_entry(b->name) != NULL) return 0;
  b->is_entering = true;
  rc = b->enter();
  b->is_entering = false;
  b->is_without_device = rc == 0 && find_entry(b->name) == NULL;
  return rc;
}

static tvmrt_builtin_device cpu = {"cpu", tvmrt__enter_cpu, false, false};

/* Returns 0 for a name that is not a built-in device's. */
static int enter_builtin_named(const char* name) {
  tvmrt_builtin_device* b;
  if (strcmp(cpu.name, name) == 0) return enter_builtin(&cpu);
  for (b = tvmrt__builtin_devices; b->name != NULL; ++b) {
    if (strcmp(b->name, name) == 0) return enter_builtin(b);
  }
  return 0;
}

/* Called for each missing global function, so it takes no lock once it is done. */
void tvmrt__devices_enter_builtin(void) {
  static atomic_bool is_done;
  tvmrt_builtin_device* b;
  if (atomic_load_explicit(&is_done, memory_order_acquire)) return;
  lock_registry();
  (void)enter_builtin(&cpu);
  for (b = tvmrt__builtin_devices; b->name != NULL; ++b) (void)enter_builtin(b);
  atomic_store_explicit(&is_done, true, memory_order_release);
  unlock_registry();
}

/* ASCII letters, independent of the program's locale. */
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* Names become parts of function and file names. */
static bool is_name(const char* text) {
  if (text == NULL || !is_letter(*text)) return false;
  while (is_letter(*text) || (*text >= '0' && *text <= '9') || *text == '_') ++text;
  return *text == '\0';
}

/* Size of the header's first version up to a field, for structs without a size. */
#define BYTES_TO(type, field) (offsetof(type, field) + sizeof(((type*)NULL)->field))
#define FIRST_BYTES BYTES_TO(tvmrt_device, version)

/* Checks the first version of tvmrt_device_memory; the runtime reads all of its members. */
static int check_memory(const tvmrt_device* d) {
  const tvmrt_device_memory* m = d->memory;
  if (m == NULL) return 0;
  if (m->struct_bytes >= BYTES_TO(tvmrt_device_memory, align_bytes) &&
      (m->align_bytes & (m->align_bytes - 1)) == 0 && m->device.device_type > kDLCPU) {
    return 0;
  }
  return tvmrt__fail_value(
      "device '%s' has memory of type %d with struct_bytes %zu and align_bytes %zu; it needs the "
      "type of a memory device that is not the host's, sizeof(tvmrt_device_memory) and a power of "
      "two.",
      d->name, (int)m->device.device_type, m->struct_bytes, m->align_bytes);
}

/* Checks everything that later calls rely on. */
static int check_device(const tvmrt_device* d) {
  if (d == NULL || d->struct_bytes < FIRST_BYTES) {
    return tvmrt__fail_value(
        "tvmrt_device_register: struct_bytes is %zu instead of at least %zu; set it to "
        "sizeof(tvmrt_device).",
        d == NULL ? 0 : d->struct_bytes, FIRST_BYTES);
  }
  if (!is_name(d->name)) {
    return tvmrt__fail_value(
        "tvmrt_device_register: '%.60s' is not a device name; it must be a letter "
        "and "
        "then letters, digits and '_'.",
        d->name == NULL ? "" : d->name);
  }
  if (d->interface == NULL || (d->interface->run == NULL && d->interface->async_run == NULL)) {
    return tvmrt__fail_value("device '%s' lacks the slot 'run' (or 'async_run').", d->name);
  }
  if (d->interface->async_run != NULL && d->interface->async_wait == NULL) {
    return tvmrt__fail_value("device '%s' has 'async_run' and lacks the slot 'async_wait'.",
                             d->name);
  }
  return 0;
}

/* Appended, so that devices are listed in registration order. */
static void append_entry(entry* e) {
  entry** at = &first;
  while (*at != NULL) at = &(*at)->next;
  *at = e;
}

static void remove_entry(const entry* e) {
  entry** at = &first;
  while (*at != e) at = &(*at)->next;
  *at = e->next;
}

static void free_entry(entry* e) {
  free(e->options);
  free(e->own_name);
  free(e);
}

/* Slots receive the entry's copy, whose address is stable. */
static int start_device(entry* e) {
  tvmrt_device* d = &e->device;
  if (d->interface->init == NULL) return 0;
  tvmrt__forget_error();
  return d->interface->init(d) == 0 ? 0 : tvmrt__slot_failed(d, "init", NULL);
}

/* Copy the part of a struct that both sides know; the remainder of `to` stays 0. */
static void copy_common_fields(void* to, size_t to_bytes, const void* from, size_t stated_bytes,
                               size_t min_bytes) {
  const size_t bytes = stated_bytes == 0 ? min_bytes : stated_bytes;
  if (from != NULL) memcpy(to, from, bytes < to_bytes ? bytes : to_bytes);
}

/* Whether a struct size that a device states is plausible for any version. */
static bool is_valid_size(size_t stated_bytes, size_t min_bytes) {
  enum { MAX_BYTES = 4096 };
  return stated_bytes == 0 || (stated_bytes >= min_bytes && stated_bytes <= MAX_BYTES &&
                               stated_bytes % sizeof(void*) == 0);
}

/* Each struct of a device states its own size, as plug-ins may have any age. */
static int check_sizes(const tvmrt_device* d) {
  if (is_valid_size(d->interface_bytes, BYTES_TO(tvmrt_device_interface, release_device)) &&
      is_valid_size(d->allocator_bytes, BYTES_TO(tvmrt_device_allocator, release)) &&
      is_valid_size(d->optimizer_bytes, BYTES_TO(tvmrt_device_optimizer, optimize_graph))) {
    return 0;
  }
  return tvmrt__fail_value(
      "device '%s' declares %zu, %zu and %zu bytes for its interface, allocator and optimizer; "
      "set "
      "each to the sizeof of its struct, or to 0.",
      d->name, d->interface_bytes, d->allocator_bytes, d->optimizer_bytes);
}

/* The device may free its struct and its tables afterwards; it keeps owning their targets. */
static void copy_device(entry* e, const tvmrt_device* device) {
  tvmrt_device* d = &e->device;
  copy_common_fields(d, sizeof(*d), device, device->struct_bytes, 0);
  d->struct_bytes = sizeof(*d);
  copy_common_fields(&e->interface, sizeof(e->interface), d->interface, d->interface_bytes,
                     BYTES_TO(tvmrt_device_interface, release_device));
  copy_common_fields(&e->allocator, sizeof(e->allocator), d->allocator, d->allocator_bytes,
                     BYTES_TO(tvmrt_device_allocator, release));
  copy_common_fields(&e->optimizer, sizeof(e->optimizer), d->optimizer, d->optimizer_bytes,
                     BYTES_TO(tvmrt_device_optimizer, optimize_graph));
  d->interface = &e->interface;
  if (d->allocator != NULL) d->allocator = &e->allocator;
  if (d->optimizer != NULL) d->optimizer = &e->optimizer;
}

/* Record the name for a plug-in that is registering on this thread. */
static int note_registered(const char* name) {
  const tvmrt_thread* thread = tvmrt__thread();
  if (thread == NULL || thread->registered == NULL) return 0;
  return tvmrt__buf_printf(thread->registered, "%s\n", name);
}

/* Called with the lock held, which the device's init() may take again. */
static int add_device(const tvmrt_device* device) {
  entry* e;
  int rc;
  /* built-in devices are registered on first use, so that their names cannot be taken before */
  TVMRT_RETURN_IF_ERROR(enter_builtin_named(device->name));
  if (find_entry(device->name) != NULL) {
    return tvmrt__fail_value("there is a device '%s' already; names must be unique.", device->name);
  }
  e = tvmrt__calloc(1, sizeof(*e));
  if (e == NULL) return -1;
  copy_device(e, device);
  rc = check_sizes(&e->device);
  if (rc == 0) rc = check_memory(&e->device);
  if (rc != 0) {
    free_entry(e);
    return rc;
  }
  rc = note_registered(device->name);
  if (rc == 0) rc = tvmrt__device_enter_functions(device->name);
  if (rc == 0) rc = start_device(e); /* last, so that no failure here leaves it started */
  if (rc == 0) {
    append_entry(e);
  } else {
    tvmrt__device_remove_functions(device->name);
    free_entry(e);
  }
  return rc;
}

/* The device's init() runs under the lock, so that a device is not found before it has started. */
int tvmrt__device_register(const tvmrt_device* device) {
  int rc;
  TVMRT_RETURN_IF_ERROR(check_device(device));
  lock_registry();
  rc = add_device(device);
  unlock_registry();
  return rc;
}

/* Always -1. */
static int no_device(const char* name) {
  return tvmrt__fail_value("there is no device '%.60s' to unregister.", name == NULL ? "" : name);
}

/* Called with the lock held. A device with users stays. */
static int remove_device(const char* name) {
  entry* e = name == NULL ? NULL : find_entry(name);
  if (e == NULL) return no_device(name);
  if (e->users != 0) {
    return tvmrt__fail_value("device '%s' is used by %zu loaded libraries; free them first.", name,
                             e->users);
  }
  /* the device is first removed from the list, then released; the functions of a scripted one
   * belong to the front end */
  remove_entry(e);
  if (e->own_name == NULL) tvmrt__device_remove_functions(e->device.name);
  if (e->device.interface->release_device != NULL) {
    (void)e->device.interface->release_device(&e->device);
  }
  free_entry(e);
  return 0;
}

/* release_device runs under the lock, so that the name is free when this returns. */
int tvmrt__device_unregister(const char* name) {
  int rc;
  lock_registry();
  rc = remove_device(name);
  unlock_registry();
  return rc;
}

/* A device whose functions a front end registered becomes an entry on first use. */
static int add_scripted(const char* name, entry** out) {
  entry* e = tvmrt__calloc(1, sizeof(*e));
  bool found = false;
  int rc = -1;
  if (e == NULL) return -1;
  e->own_name = tvmrt__strdup(name);
  if (e->own_name != NULL) rc = tvmrt__scripted_device(e->own_name, &e->device, &found);
  if (rc != 0 || !found) {
    free_entry(e);
    return rc;
  }
  append_entry(e);
  *out = e;
  return 0;
}

/* Called with the lock held. A device in C takes precedence over functions of its name. */
static int find_or_add_scripted(const char* name, entry** out) {
  *out = find_entry(name);
  return *out != NULL ? 0 : add_scripted(name, out);
}

/* A plug-in with the prefix of the device's functions registers it when it is loaded. */
static int load_by_prefix(const char* name) {
  tvmrt_buf function = {NULL, 0, 0};
  int rc = tvmrt__buf_printf(&function, "device.%s.run", name);
  if (rc == 0) rc = tvmrt__plugin_load_for(function.data);
  tvmrt__buf_free(&function);
  return rc;
}

/* Called with the lock held. *out is NULL, with result 0, if there is no such device. */
static int find_or_load(const char* name, entry** out) {
  bool found; /* the plug-in may contain only a kind of modules, and no device */
  *out = NULL;
  if (!is_name(name)) return 0;
  *out = find_entry(name);
  if (*out != NULL) return 0;
  TVMRT_RETURN_IF_ERROR(enter_builtin_named(name));
  *out = find_entry(name);
  if (*out != NULL) return 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__plugin_find(name, &found));
  if (!found) TVMRT_RETURN_IF_ERROR(tvmrt__plugin_enter_again(name));
  TVMRT_RETURN_IF_ERROR(load_by_prefix(name));
  return find_or_add_scripted(name, out);
}

/* Let the front end search its packages; those of Python declare devices by entry points. */
static int query_front_end(const char* name) {
  TVMValue arg = {.v_str = name};
  int type = kTVMStr;
  return tvmrt__global_notify("tvmrt.device.find_installed", &arg, &type, 1);
}

/* Called with the registry locked; unlocked during the front end's search, which takes its own
 * lock, whose holder may be waiting for this one. */
static int find_or_query(const char* name, entry** out) {
  int rc = find_or_load(name, out);
  if (rc != 0 || *out != NULL || !is_name(name)) return rc;
  unlock_registry();
  rc = query_front_end(name);
  lock_registry();
  return rc == 0 ? find_or_add_scripted(name, out) : rc;
}

bool tvmrt__device_is_registered(const char* name) {
  bool found;
  lock_registry();
  found = find_entry(name) != NULL;
  unlock_registry();
  return found;
}

/* Borrowed, and not held: it may be unregistered at any time. */
int tvmrt__device_find(const char* name, tvmrt_device** out_device) {
  entry* e;
  int rc;
  lock_registry();
  rc = find_or_query(name, &e);
  *out_device = e == NULL ? NULL : &e->device;
  unlock_registry();
  return rc;
}

/* Held until tvmrt__device_put(). */
int tvmrt__device_take(const char* name, tvmrt_device** out) {
  entry* e;
  int rc;
  lock_registry();
  rc = find_or_query(name, &e);
  if (e != NULL) ++e->users;
  *out = e == NULL ? NULL : &e->device;
  unlock_registry();
  return rc;
}

/* Accepts NULL. */
void tvmrt__device_put(tvmrt_device* device) {
  if (device == NULL) return;
  lock_registry();
  --((entry*)(void*)device)->users;
  unlock_registry();
}

/* Under the lock, since another thread may set others. */
int tvmrt__device_options(tvmrt_device* device, char** out) {
  const entry* e = (const void*)device;
  int rc = 0;
  *out = NULL;
  lock_registry();
  if (e->options != NULL) {
    *out = tvmrt__strdup(e->options);
    rc = *out == NULL ? -1 : 0;
  }
  unlock_registry();
  return rc;
}

/* Loaded regions keep the options that they were prepared with. */
int tvmrt__device_set_options(const char* name, const char* options) {
  char* copy = tvmrt__strdup(options);
  entry* e = NULL;
  int rc;
  if (copy == NULL) return -1;
  lock_registry();
  rc = find_or_query(name, &e);
  if (rc == 0 && e == NULL) rc = tvmrt__fail_value("there is no device '%.60s'.", name);
  if (rc == 0) {
    free(e->options);
    e->options = copy;
  }
  unlock_registry();
  if (rc != 0) free(copy);
  return rc;
}

/* Names are valid while their devices are registered. *out_count may exceed `capacity`. */
int tvmrt__device_list(const char** names, int32_t capacity, int32_t* out_count) {
  const entry* e;
  int32_t count = 0;
  tvmrt__devices_enter_builtin();
  lock_registry();
  for (e = first; e != NULL; e = e->next, ++count) {
    if (count < capacity) names[count] = e->device.name;
  }
  unlock_registry();
  *out_count = count;
  return 0;
}
