/* Plug-ins: loading, entering, unloading.
 *
 * The loading lock is held while a plug-in's code is called: other threads that need a plug-in
 * wait; the plug-in's own code may load others. */
#include "plugins.h"

#include <stdlib.h>
#include <string.h>

#include "../platform/loading.h"
#include "../platform/threads.h"
#include "container.h"
#include "plugin_prefixes.h"

typedef struct plugin {
  const tvmrt_plugin* table;
  char* path;       /* of its library; NULL: linked into this library or the program */
  bool is_entered;  /* its functions are registered */
  bool is_entering; /* by the thread that holds the lock */
  struct plugin* next;
} plugin;

static tvmrt_recursive_mutex lock = TVMRT_RECURSIVE_MUTEX_INIT;
static plugin* loaded;                /* never shrinks: libraries are not unloaded */
static atomic_bool has_static = true; /* plug-ins of this library are not entered yet */

void tvmrt__loading_begin(void) { tvmrt__lock_recursive(&lock); }
void tvmrt__loading_end(void) { tvmrt__unlock_recursive(&lock); }

/* Path of a plug-in without its own library, for error texts. */
static const char kLinked[] = "(linked)";

/* Size of the table's first version. */
#define MIN_TABLE_BYTES offsetof(tvmrt_plugin, sdk)

static bool has_sdk(const tvmrt_plugin* t) {
  return t->struct_bytes >= sizeof(*t) && t->sdk != NULL;
}

static int check_table(const tvmrt_plugin* t, const char* path) {
  if (t->struct_bytes < MIN_TABLE_BYTES) {
    return tvmrt__fail_value(
        "plug-in '%.200s' has a table of %u bytes instead of at least %u; set struct_bytes to "
        "sizeof(tvmrt_plugin).",
        path, (unsigned)t->struct_bytes, (unsigned)MIN_TABLE_BYTES);
  }
  if (t->abi != TVMRT_PLUGIN_ABI) {
    return tvmrt__fail_value(
        "plug-in '%.200s' was built for version %u of the plug-in interface, this runtime has "
        "version %u; build it again with this runtime's headers.",
        path, (unsigned)t->abi, (unsigned)TVMRT_PLUGIN_ABI);
  }
  if (t->name == NULL || *t->name == '\0') {
    return tvmrt__fail_value("plug-in '%.200s' has no name in its table.", path);
  }
  if (has_sdk(t) && strcmp(t->sdk, TVMRT_SDK_VERSION) != 0) {
    return tvmrt__fail_value(
        "plug-in '%.200s' belongs to tvmrt %s, this runtime is tvmrt %s; install the same version "
        "of both.",
        path, t->sdk, TVMRT_SDK_VERSION);
  }
  return 0;
}

static plugin* find_table(const tvmrt_plugin* table) {
  plugin* p = loaded;
  while (p != NULL && p->table != table) p = p->next;
  return p;
}

static plugin* find_name(const char* name) {
  plugin* p = loaded;
  while (p != NULL && strcmp(p->table->name, name) != 0) p = p->next;
  return p;
}

/* `path` NULL: linked into this library. */
static int add_plugin(const tvmrt_plugin* table, const char* path, plugin** out) {
  const char* shown = path == NULL ? kLinked : path;
  const plugin* other;
  plugin* p;
  TVMRT_RETURN_IF_ERROR(check_table(table, shown));
  other = find_name(table->name);
  if (other != NULL) {
    return tvmrt__fail_value("plug-in '%.200s' has the name '%.60s', which '%.200s' uses already.",
                             shown, table->name, other->path == NULL ? kLinked : other->path);
  }
  p = tvmrt__calloc(1, sizeof(*p));
  if (p == NULL) return -1;
  if (path != NULL && (p->path = tvmrt__strdup(path)) == NULL) {
    free(p);
    return -1;
  }
  p->table = table;
  p->next = loaded;
  loaded = p;
  *out = p;
  return 0;
}

static void remove_functions(const tvmrt_plugin* table) {
  const tvmrt_plugin_function* f = table->functions;
  for (; f != NULL && f->name != NULL; ++f) tvmrt__global_leave(f->name, f->function);
}

/* The functions are registered last, so that none is called before the plug-in has started. */
static int enter(plugin* p) {
  const tvmrt_plugin* t = p->table;
  const tvmrt_plugin_function* f = t->functions;
  int rc = 0;
  /* enter() may look up names that have a prefix of this plug-in */
  if (p->is_entered || p->is_entering) return 0;
  tvmrt__forget_error();
  p->is_entering = true;
  rc = t->enter == NULL ? 0 : t->enter();
  p->is_entering = false;
  if (rc != 0) {
    const char* why = TVMGetLastError();
    return tvmrt__fail("plug-in '%.60s' cannot start: %s", t->name,
                       *why == '\0' ? "it returned no error text." : why);
  }
  for (; rc == 0 && f != NULL && f->name != NULL; ++f) {
    rc = tvmrt__global_enter(f->name, f->function);
  }
  if (rc != 0) {
    remove_functions(t);
    if (t->leave != NULL) (void)t->leave();
  }
  p->is_entered = rc == 0;
  return rc;
}

/* The system counts handles: one keeps the library loaded, further ones are closed. *out_in: the
 * plug-in has entered completely. */
static int load(const char* path, bool* out_in) {
  void* handle = tvmrt__library_load_file(path, TVMRT_LOAD_NOW);
  const tvmrt_plugin* table;
  plugin* p;
  int rc;
  *out_in = false;
  if (handle == NULL) {
    return tvmrt__fail("OSError: plug-in '%.200s' cannot be loaded: %s.", path,
                       tvmrt__library_error());
  }
  table = tvmrt__library_symbol(handle, "tvmrt_plugin_table");
  if (table == NULL) {
    tvmrt__library_unload(handle);
    return tvmrt__fail_value(
        "'%.200s' is not a plug-in: it has no tvmrt_plugin_table; define one with "
        "TVMRT_PLUGIN_TABLE.",
        path);
  }
  p = find_table(table);
  if (p != NULL) {
    tvmrt__library_unload(handle);
  } else if (add_plugin(table, path, &p) != 0) {
    tvmrt__library_unload(handle);
    return -1;
  }
  rc = enter(p);
  *out_in = p->is_entered;
  return rc;
}

/* Linked plug-ins enter at the first look-up of a missing name; if one fails, they are tried again
 * at the next. Called with the lock held; other threads wait until all have entered. */
static int enter_static(void) {
  static bool is_entering; /* by the thread that holds the lock */
  const tvmrt_plugin* const* table;
  int rc = 0;
  if (is_entering || !atomic_load_explicit(&has_static, memory_order_relaxed)) return 0;
  is_entering = true;
  for (table = tvmrt__static_plugins; rc == 0 && *table != NULL; ++table) {
    rc = tvmrt_plugin_enter(*table);
  }
  is_entering = false;
  if (rc == 0) atomic_store_explicit(&has_static, false, memory_order_release);
  return rc;
}

static bool has_pending_static(void) {
  return tvmrt__static_plugins[0] != NULL &&
         atomic_load_explicit(&has_static, memory_order_acquire);
}

/* Called with the lock held, so a row in state LOADING is being loaded by the caller itself. */
static int load_row(tvmrt_prefix* row) {
  bool is_entered;
  int rc;
  if (tvmrt__prefix_state(row) != TVMRT_PREFIX_NEW) return 0;
  atomic_store_explicit(&row->state, TVMRT_PREFIX_LOADING, memory_order_relaxed);
  rc = load(row->library, &is_entered);
  atomic_store_explicit(&row->state, is_entered ? TVMRT_PREFIX_LOADED : TVMRT_PREFIX_NEW,
                        memory_order_release);
  return rc;
}

static bool is_pending(const tvmrt_prefix* row) {
  return has_pending_static() || (row != NULL && tvmrt__prefix_state(row) != TVMRT_PREFIX_LOADED);
}

bool tvmrt__plugin_is_pending(const char* name) { return is_pending(tvmrt__prefix_find(name)); }

/* Takes no lock if the name has no plug-in, or its plug-in is loaded. */
int tvmrt__plugin_load_for(const char* name) {
  tvmrt_prefix* row = tvmrt__prefix_find(name);
  int rc;
  if (!is_pending(row)) return 0;
  tvmrt__loading_begin();
  rc = enter_static();
  if (rc == 0 && row != NULL) rc = load_row(row);
  tvmrt__loading_end();
  return rc;
}

const void* tvmrt__plugin_provided(tvmrt_provided* provided, const char* prefix,
                                   const char* library) {
  const void* functions = atomic_load_explicit(provided, memory_order_acquire);
  if (functions != NULL) return functions;
  if (tvmrt__plugin_load_for(prefix) != 0) return NULL;
  functions = atomic_load_explicit(provided, memory_order_acquire);
  if (functions == NULL) {
    tvmrt__set_error(
        "this installation lacks the library %s; put it and plugins.txt of the same version of "
        "tvmrt into the folder of libtvm_runtime.",
        library);
  }
  return functions;
}

/* Save the thread's error text while plug-ins that may be broken are loaded. */
static tvmrt_buf save_error(tvmrt_thread* thread) {
  const tvmrt_buf none = {NULL, 0, 0};
  const tvmrt_buf saved = thread == NULL ? none : thread->error;
  if (thread != NULL) thread->error = none;
  return saved;
}

static void restore_error(tvmrt_thread* thread, tvmrt_buf saved) {
  if (thread == NULL) return;
  tvmrt__buf_free(&thread->error);
  thread->error = saved;
}

void tvmrt__plugin_try_load_for(const char* name) {
  tvmrt_thread* thread = tvmrt__thread();
  const tvmrt_buf saved = save_error(thread);
  (void)tvmrt__plugin_load_for(name);
  restore_error(thread, saved);
}

void tvmrt__plugins_load_by_prefix(const char* beginning) {
  tvmrt_prefix* row = tvmrt__prefixes();
  tvmrt_thread* thread = tvmrt__thread();
  const tvmrt_buf saved = save_error(thread);
  tvmrt__loading_begin();
  (void)enter_static();
  for (; row != NULL; row = tvmrt__prefix_next(row)) {
    if (strncmp(row->text, beginning, strlen(beginning)) == 0) (void)load_row(row);
  }
  tvmrt__loading_end();
  restore_error(thread, saved);
}

int tvmrt_plugin_load(const char* path) {
  bool is_entered;
  int rc;
  if (path == NULL) return tvmrt__fail_value("tvmrt_plugin_load: the path is NULL.");
  tvmrt__loading_begin();
  rc = load(path, &is_entered);
  tvmrt__loading_end();
  return rc;
}

int tvmrt_plugin_enter(const tvmrt_plugin* table) {
  plugin* p;
  int rc = 0;
  if (table == NULL) return tvmrt__fail_value("tvmrt_plugin_enter: the table is NULL.");
  tvmrt__loading_begin();
  p = find_table(table);
  if (p == NULL) rc = add_plugin(table, NULL, &p);
  if (rc == 0) rc = enter(p);
  tvmrt__loading_end();
  return rc;
}

/* Called with the lock held. */
static int check_unused(const plugin* p) {
  const tvmrt_plugin* t = p->table;
  const tvmrt_plugin_function* f = t->functions;
  if (t->enter != NULL && t->leave == NULL) {
    return tvmrt__fail_value("plug-in '%s' cannot be unloaded: it has enter() but no leave().",
                             t->name);
  }
  for (; f != NULL && f->name != NULL; ++f) {
    if (tvmrt__global_is_referenced(f->name, f->function)) {
      return tvmrt__fail_value(
          "plug-in '%s' is in use: a reference to its function '%s' exists; release it first.",
          t->name, f->name);
    }
  }
  return 0;
}

/* Called with the lock held. Resets the rows of the plug-in: the next look-up enters it again. */
static int unload(const char* name) {
  plugin* p = find_name(name);
  tvmrt_prefix* row;
  if (p == NULL || !p->is_entered) {
    return tvmrt__fail_value("there is no plug-in '%.60s' to unload.", name);
  }
  TVMRT_RETURN_IF_ERROR(check_unused(p));
  if (p->table->leave != NULL) TVMRT_RETURN_IF_ERROR(p->table->leave());
  remove_functions(p->table);
  p->is_entered = false;
  if (p->path == NULL) atomic_store_explicit(&has_static, true, memory_order_release);
  for (row = tvmrt__prefixes(); row != NULL; row = tvmrt__prefix_next(row)) {
    if (p->path != NULL && tvmrt__prefix_state(row) == TVMRT_PREFIX_LOADED) {
      atomic_store_explicit(&row->state, TVMRT_PREFIX_NEW, memory_order_release);
    }
  }
  return 0;
}

int tvmrt_plugin_unload(const char* name) {
  int rc;
  if (name == NULL) return tvmrt__fail_value("tvmrt_plugin_unload: the name is NULL.");
  tvmrt__loading_begin();
  rc = unload(name);
  tvmrt__loading_end();
  return rc;
}

/* ---- by name, for front ends ---- */

/* tvmrt.plugin.load(path) */
TVMRT_NATIVE(load_path) {
  const char* path;
  TVMRT_COUNTED_ARGS(1, 1);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 0, &path));
  return tvmrt_plugin_load(path);
}

/* tvmrt.plugin.unload(name) */
TVMRT_NATIVE(unload_name) {
  const char* name;
  TVMRT_COUNTED_ARGS(1, 1);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 0, &name));
  return tvmrt_plugin_unload(name);
}

/* tvmrt.plugin.add_prefix(prefix, library) */
TVMRT_NATIVE(add_prefix) {
  const char* prefix;
  const char* library;
  TVMRT_COUNTED_ARGS(2, 2);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 0, &prefix));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 1, &library));
  return tvmrt_plugin_add_prefix(prefix, library);
}

/* tvmrt.plugin.names(): a line "name path" for each loaded plug-in; path '-': a linked one. */
TVMRT_NATIVE(names) {
  tvmrt_buf lines = {NULL, 0, 0};
  const plugin* p;
  int rc;
  TVMRT_COUNTED_ARGS(0, 0);
  rc = tvmrt__buf_puts(&lines, "");
  tvmrt__loading_begin();
  for (p = loaded; rc == 0 && p != NULL; p = p->next) {
    if (!p->is_entered) continue;
    rc = tvmrt__buf_printf(&lines, "%s %s\n", p->table->name, p->path == NULL ? "-" : p->path);
  }
  tvmrt__loading_end();
  return tvmrt__ret_buf(rc, kTVMStr, &lines, out, out_code);
}

#define FUNCTIONS(X)                       \
  X("tvmrt.plugin.load", load_path)        \
  X("tvmrt.plugin.unload", unload_name)    \
  X("tvmrt.plugin.add_prefix", add_prefix) \
  X("tvmrt.plugin.names", names)
const tvmrt_builtins tvmrt__plugin_builtins = TVMRT_BUILTINS(FUNCTIONS);
