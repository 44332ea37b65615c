/* Devices by name: entering, finding, leaving.
 *
 * A name is looked for in this order: devices that have registered, those that are part of this
 * library, plug-ins in the folders for them, plug-ins with the prefix `device.<name>.`, packed functions
 * of a front end, and last whatever the front end finds among its installed packages. What is found becomes an entry, until it is
 * unregistered.
 *
 * An entry has copies of the device's structs, so that slots which an older plug-in does not know are
 * NULL here, and one address for as long as the device is registered. tvmrt_device_find() lends it;
 * tvmrt__device_take() counts its user, and a device with users is not unregistered. */
#include "registry.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include "../core/plugins.h"

typedef struct entry {
  tvmrt_device device;              /* what slots get; first, so that a device is its entry */
  tvmrt_device_interface interface; /* copies: slots that the device's header had not are NULL */
  tvmrt_device_allocator allocator;
  tvmrt_device_optimizer optimizer;
  struct entry* next;
  size_t users; /* modules that hold it */
  char* options;
  char* own_name; /* of a scripted device; NULL: it brought its functions' names itself */
} entry;

/* One lock for all, that of plug-ins: devices come and go rarely. It is recursive, because the
 * registering function of a plug-in, which the registry calls, calls the registry. */
static entry* first;

static void lock_registry(void) { tvmrt__loading_begin(); }
static void unlock_registry(void) { tvmrt__loading_end(); }

/* With the lock. */
static entry* find_entry(const char* name) {
  entry* e = first;
  while (e != NULL && strcmp(e->device.name, name) != 0) e = e->next;
  return e;
}

/* In the registry's lock, like all that enters. */
static int enter_builtin(tvmrt_builtin_device* b) {
  int rc;
  /* enter() registers, which asks for built-in devices of that name once more */
  if (b->is_entering || b->is_without_device || find_entry(b->name) != NULL) return 0;
  b->is_entering = true;
  rc = b->enter();
  b->is_entering = false;
  b->is_without_device = rc == 0 && find_entry(b->name) == NULL;
  return rc;
}

static tvmrt_builtin_device cpu = {"cpu", tvmrt__enter_cpu, false, false};

/* A name that is no built-in device's is none of this function's business: 0. */
static int enter_builtin_named(const char* name) {
  tvmrt_builtin_device* b;
  if (strcmp(cpu.name, name) == 0) return enter_builtin(&cpu);
  for (b = tvmrt__builtin_devices; b->name != NULL; ++b) {
    if (strcmp(b->name, name) == 0) return enter_builtin(b);
  }
  return 0;
}

/* Asked whenever a global function is missing, so the lock is left alone once it is done. */
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

/* As C has letters, whatever the program's locale. */
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* Names become parts of functions' and of files' names. */
static bool is_name(const char* text) {
  if (text == NULL || !is_letter(*text)) return false;
  while (is_letter(*text) || (*text >= '0' && *text <= '9') || *text == '_') ++text;
  return *text == '\0';
}

/* What the first version of the header had up to a field, for structs that do not say how long they
 * are. */
#define BYTES_TO(type, field) (offsetof(type, field) + sizeof(((type*)NULL)->field))
#define FIRST_BYTES BYTES_TO(tvmrt_device, version)

/* What the first version of tvmrt_device_memory had, all of which the runtime reads. */
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

/* Everything that slots are called for without a look later on. */
static int check_device(const tvmrt_device* d) {
  if (d == NULL || d->struct_bytes < FIRST_BYTES) {
    return tvmrt__fail_value(
        "tvmrt_device_register: struct_bytes is %zu instead of at least %zu; set it to "
        "sizeof(tvmrt_device).",
        d == NULL ? 0 : d->struct_bytes, FIRST_BYTES);
  }
  if (!is_name(d->name)) {
    return tvmrt__fail_value(
        "tvmrt_device_register: '%.60s' is no name for a device; it must be a letter "
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

/* Last, so that devices are listed in the order in which they came. */
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

/* Slots get the entry's copy, whose address stays. */
static int start_device(entry* e) {
  tvmrt_device* d = &e->device;
  if (d->interface->init == NULL) return 0;
  tvmrt__forget_error();
  return d->interface->init(d) == 0 ? 0 : tvmrt__slot_failed(d, "init", NULL);
}

/* As much of a struct as both sides know; the rest of `to` stays 0. */
static void copy_known(void* to, size_t to_bytes, const void* from, size_t said, size_t least) {
  const size_t bytes = said == 0 ? least : said;
  if (from != NULL) memcpy(to, from, bytes < to_bytes ? bytes : to_bytes);
}

/* Whether the sizes that a device says of its structs can be those of any version. */
static bool is_size(size_t said, size_t least) {
  enum { MOST_BYTES = 4096 };
  return said == 0 || (said >= least && said <= MOST_BYTES && said % sizeof(void*) == 0);
}

/* Each struct that a device brings says its own size, as plug-ins of all ages come. */
static int check_sizes(const tvmrt_device* d) {
  if (is_size(d->interface_bytes, BYTES_TO(tvmrt_device_interface, release_device)) &&
      is_size(d->allocator_bytes, BYTES_TO(tvmrt_device_allocator, release)) &&
      is_size(d->optimizer_bytes, BYTES_TO(tvmrt_device_optimizer, optimize_graph))) {
    return 0;
  }
  return tvmrt__fail_value(
      "device '%s' says that its interface, allocator and optimizer have %zu, %zu and %zu bytes; "
      "set "
      "each to the sizeof of its struct, or to 0.",
      d->name, d->interface_bytes, d->allocator_bytes, d->optimizer_bytes);
}

/* The device's struct and its tables may go after this; what they point to stays the device's. */
static void copy_device(entry* e, const tvmrt_device* device) {
  tvmrt_device* d = &e->device;
  copy_known(d, sizeof(*d), device, device->struct_bytes, 0);
  d->struct_bytes = sizeof(*d);
  copy_known(&e->interface, sizeof(e->interface), d->interface, d->interface_bytes,
             BYTES_TO(tvmrt_device_interface, release_device));
  copy_known(&e->allocator, sizeof(e->allocator), d->allocator, d->allocator_bytes,
             BYTES_TO(tvmrt_device_allocator, release));
  copy_known(&e->optimizer, sizeof(e->optimizer), d->optimizer, d->optimizer_bytes,
             BYTES_TO(tvmrt_device_optimizer, optimize_graph));
  d->interface = &e->interface;
  if (d->allocator != NULL) d->allocator = &e->allocator;
  if (d->optimizer != NULL) d->optimizer = &e->optimizer;
}

/* A plug-in that registers on this thread keeps the name, to be found by it later. */
static int note_registered(const char* name) {
  const tvmrt_thread* thread = tvmrt__thread();
  if (thread == NULL || thread->registered == NULL) return 0;
  return tvmrt__buf_printf(thread->registered, "%s\n", name);
}

/* With the lock, which the device's init() may take again. */
static int add_device(const tvmrt_device* device) {
  entry* e;
  int rc;
  /* built-in devices register when they are first asked for: nobody takes their names before */
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
  if (rc == 0) rc = start_device(e); /* last, so that nothing that fails here leaves it started */
  if (rc == 0) {
    append_entry(e);
  } else {
    tvmrt__device_remove_functions(device->name);
    free_entry(e);
  }
  return rc;
}

/* The device's init() runs under the lock, so that nobody finds a device that has not started. */
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

/* With the lock. A device that modules hold stays. */
static int remove_device(const char* name) {
  entry* e = name == NULL ? NULL : find_entry(name);
  if (e == NULL) return no_device(name);
  if (e->users != 0) {
    return tvmrt__fail_value("device '%s' is used by %zu loaded libraries; free them first.", name,
                             e->users);
  }
  /* nobody finds the device from here on, and only then what it has is released; the functions of a
   * scripted one are the front end's */
  remove_entry(e);
  if (e->own_name == NULL) tvmrt__device_remove_functions(e->device.name);
  if (e->device.interface->release_device != NULL) {
    (void)e->device.interface->release_device(&e->device);
  }
  free_entry(e);
  return 0;
}

/* The device's end runs under the lock, so that its name can be taken again when this returns. */
int tvmrt__device_unregister(const char* name) {
  int rc;
  lock_registry();
  rc = remove_device(name);
  unlock_registry();
  return rc;
}

/* A device whose functions a front end registered becomes an entry when it is first asked for. */
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

/* With the lock. A device in C goes before functions of its name. */
static int find_or_add_scripted(const char* name, entry** out) {
  *out = find_entry(name);
  return *out != NULL ? 0 : add_scripted(name, out);
}

/* A plug-in whose prefix is that of the device's functions registers it when it is loaded. */
static int load_by_prefix(const char* name) {
  tvmrt_buf function = {NULL, 0, 0};
  int rc = tvmrt__buf_printf(&function, "device.%s.run", name);
  if (rc == 0) rc = tvmrt__plugin_load_for(function.data);
  tvmrt__buf_free(&function);
  return rc;
}

/* With the lock. *out NULL, and 0, where there is no such device. */
static int find_or_load(const char* name, entry** out) {
  bool found; /* the plug-in may also bring a kind of modules, and no device */
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

/* Let the front end look among its packages; those of Python name devices by entry points. */
static int ask_front_end(const char* name) {
  TVMValue arg = {.v_str = name};
  int type = kTVMStr;
  return tvmrt__global_notify("tvmrt.device.find_installed", &arg, &type, 1);
}

/* With the registry locked, but not while the front end looks: that waits for its own lock, whose
 * holder may be waiting for this one. */
static int find_or_ask(const char* name, entry** out) {
  int rc = find_or_load(name, out);
  if (rc != 0 || *out != NULL || !is_name(name)) return rc;
  unlock_registry();
  rc = ask_front_end(name);
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

/* Borrowed, and not held: it may be unregistered by whoever has the right to. */
int tvmrt__device_find(const char* name, tvmrt_device** out_device) {
  entry* e;
  int rc;
  lock_registry();
  rc = find_or_ask(name, &e);
  *out_device = e == NULL ? NULL : &e->device;
  unlock_registry();
  return rc;
}

/* Held until tvmrt__device_put(). */
int tvmrt__device_take(const char* name, tvmrt_device** out) {
  entry* e;
  int rc;
  lock_registry();
  rc = find_or_ask(name, &e);
  if (e != NULL) ++e->users;
  *out = e == NULL ? NULL : &e->device;
  unlock_registry();
  return rc;
}

/* NULL, of what was never taken, does nothing. */
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

/* Regions that are loaded already keep the options that they were prepared with. */
int tvmrt__device_set_options(const char* name, const char* options) {
  char* copy = tvmrt__strdup(options);
  entry* e = NULL;
  int rc;
  if (copy == NULL) return -1;
  lock_registry();
  rc = find_or_ask(name, &e);
  if (rc == 0 && e == NULL) rc = tvmrt__fail_value("there is no device '%.60s'.", name);
  if (rc == 0) {
    free(e->options);
    e->options = copy;
  }
  unlock_registry();
  if (rc != 0) free(copy);
  return rc;
}

/* Names are good while their devices are registered. *out_count may be more than `capacity`. */
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
