/* Registered devices: registering, unregistering, options.
 *
 * An entry has copies of the device's structs, so that slots unknown to an older plug-in are NULL
 * here, and a stable address while the device is registered. tvmrt_device_find() returns it
 * borrowed; a device that tvmrt__device_hold() counts cannot be unregistered. */
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

/* One lock for all, shared with plug-ins: devices are rarely registered. It is recursive, because a
 * look-up calls a plug-in's registration function, which calls the registry. */
static entry* first;
static const tvmrt_builtins* slot_functions; /* set before the first device is registered */

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

/* Registered like any other device, so that schedulers and tools need no special case. */
static int enter_cpu(void) { return tvmrt__device_register(&tvmrt__cpu_device); }

static tvmrt_builtin_device cpu = {"cpu", enter_cpu, false, false};

int tvmrt__device_enter_builtin(const char* name) {
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

void tvmrt__devices_set_functions(const tvmrt_builtins* functions) { slot_functions = functions; }

/* ASCII letters, independent of the program's locale. */
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* Names become parts of function and file names. */
bool tvmrt__is_device_name(const char* text) {
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
  if (!tvmrt__is_device_name(d->name)) {
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

/* The function's resource is a copy of the device's name, which it frees. */
static int enter_function(const char* device, const char* slot, TVMCPackedFunc fn) {
  tvmrt_buf name = {NULL, 0, 0};
  char* resource = tvmrt__strdup(device);
  tvmrt_func* f = resource == NULL ? NULL : tvmrt__func_new(fn, resource, free);
  int rc = f == NULL ? -1 : tvmrt__buf_printf(&name, "device.%s.%s", device, slot);
  if (rc == 0) rc = TVMFuncRegisterGlobal(name.data, f, 1);
  if (f != NULL) {
    tvmrt__release(&f->base);
  } else {
    free(resource);
  }
  tvmrt__buf_free(&name);
  return rc;
}

/* On failure some are registered: the caller removes all. */
static int enter_functions(const char* name) {
  const TVMCPackedFunc* fn = slot_functions->functions;
  const char* slot = slot_functions->names;
  for (; *slot != '\0'; slot = tvmrt__next_name(slot)) {
    TVMRT_RETURN_IF_ERROR(enter_function(name, slot, *fn++));
  }
  return 0;
}

/* If memory for the name is exhausted, the function stays registered, and then fails with an error
 * that there is no such device. */
static void remove_functions(const char* device) {
  const char* slot = slot_functions->names;
  for (; *slot != '\0'; slot = tvmrt__next_name(slot)) {
    tvmrt_buf name = {NULL, 0, 0};
    if (tvmrt__buf_printf(&name, "device.%s.%s", device, slot) == 0) {
      (void)TVMFuncRemoveGlobal(name.data);
    }
    tvmrt__buf_free(&name);
  }
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
  TVMRT_RETURN_IF_ERROR(tvmrt__device_enter_builtin(device->name));
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
  if (rc == 0) rc = enter_functions(device->name);
  if (rc == 0) rc = start_device(e); /* last, so that no failure here leaves it started */
  if (rc == 0) {
    append_entry(e);
  } else {
    remove_functions(device->name);
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
  if (e->own_name == NULL) remove_functions(e->device.name);
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
static int add_scripted(const char* name, tvmrt_device** out) {
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
  *out = &e->device;
  return 0;
}

tvmrt_device* tvmrt__device_registered(const char* name) {
  entry* e = find_entry(name);
  return e == NULL ? NULL : &e->device;
}

/* A device in C takes precedence over functions of its name. */
int tvmrt__device_find_scripted(const char* name, tvmrt_device** out) {
  *out = tvmrt__device_registered(name);
  return *out != NULL ? 0 : add_scripted(name, out);
}

bool tvmrt__device_is_registered(const char* name) {
  bool found;
  lock_registry();
  found = find_entry(name) != NULL;
  unlock_registry();
  return found;
}

void tvmrt__device_hold(tvmrt_device* device) { ++((entry*)(void*)device)->users; }

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

int tvmrt__device_keep_options(tvmrt_device* device, const char* options) {
  entry* e = (void*)device;
  char* copy = tvmrt__strdup(options);
  if (copy == NULL) return -1;
  free(e->options);
  e->options = copy;
  return 0;
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
