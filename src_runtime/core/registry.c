/* The global registry: names of functions, visible to the whole process.
 *
 * Holds a reference to each function; names are copied. One lock for readers and writers: look-ups
 * by name happen when programs start, calls go by handle. No packed function is called or released
 * while the lock is held, since both may call the registry. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../platform/threads.h"
#include "hooks.h"
#include "plugins.h"

static tvmrt_rwlock lock = TVMRT_RWLOCK_INIT;
static tvmrt_strmap table; /* name -> tvmrt_func*, retained */
static int builtins_entered;
/* Number of added names: a failed look-up need not be repeated while it is unchanged. */
static atomic_uint additions;

/* Called with the lock held for writing. The name is the function's resource, from which it takes
 * its own name in errors: it is a constant of the library and is not freed. A taken name keeps its
 * function. */
static int enter_builtin(const char* name, TVMCPackedFunc fn) {
  tvmrt_strmap_slot* slot = tvmrt__strmap_insert(&table, name);
  tvmrt_func* made;
  if (slot == NULL) return -1;
  if (slot->value != NULL) return 0; /* or registered by an attempt that ran out of memory later */
  made = tvmrt__func_new(fn, (void*)name, NULL);
  if (made == NULL) {
    (void)tvmrt__strmap_remove(&table, name);
    return -1;
  }
  made->is_short = tvmrt__is_short(name);
  slot->value = made;
  atomic_fetch_add_explicit(&additions, 1, memory_order_relaxed);
  return 0;
}

/* Called with the lock held for writing. */
static int enter_tables(const tvmrt_builtins* const* tables) {
  for (; *tables != NULL; ++tables) {
    const TVMCPackedFunc* fn = (*tables)->functions;
    const char* name = (*tables)->names;
    for (; *name != '\0'; name = tvmrt__next_name(name)) {
      TVMRT_RETURN_IF_ERROR(enter_builtin(name, *fn++));
    }
  }
  return 0;
}

/* Called with the lock held for writing. Done on first use instead of in a constructor: other
 * constructors may register earlier, and programs that never use the registry pay nothing. */
static int enter_builtins(void) {
  TVMRT_RETURN_IF_ERROR(enter_tables(tvmrt__builtin_tables));
  builtins_entered = 1;
  return 0;
}

static void lock_for_fork(void) { tvmrt__lock_write(&lock); }
static void unlock_in_parent(void) { tvmrt__unlock_write(&lock); }
/* The child's thread did not take the lock: it starts with a new one. */
static void renew_in_child(void) { tvmrt__rwlock_renew(&lock); }
static void register_fork_handlers(void) {
  tvmrt__at_fork(lock_for_fork, unlock_in_parent, renew_in_child);
}

/* Take the lock for writing; on failure it is not held. */
static int lock_to_write(void) {
  static tvmrt_once once = TVMRT_ONCE_INIT;
  tvmrt__call_once(&once, register_fork_handlers);
  tvmrt__lock_write(&lock);
  if (builtins_entered || enter_builtins() == 0) return 0;
  tvmrt__unlock_write(&lock);
  return -1;
}

/* Counterpart of lock_to_write(). */
static void unlock_writer(void) { tvmrt__unlock_write(&lock); }

/* Take the lock for reading; on failure it is not held. */
static int lock_to_read(void) {
  tvmrt__lock_read(&lock);
  /* Readers never upgrade a lock: it is released, taken once for writing, and taken again. */
  if (builtins_entered) return 0;
  tvmrt__unlock_read(&lock);
  TVMRT_RETURN_IF_ERROR(lock_to_write());
  unlock_writer();
  tvmrt__lock_read(&lock);
  return 0;
}

static void unlock_reader(void) { tvmrt__unlock_read(&lock); }

/* Called with the lock held for writing; released while a plug-in is loaded, and not held on
 * failure. Loads the plug-in that has a function of this name, so that registering or removing the
 * name affects its function too. Load failures are ignored. */
static int load_pending(const char* name) {
  if (!tvmrt__plugin_is_pending(name)) return 0;
  unlock_writer();
  tvmrt__plugin_try_load_for(name);
  return lock_to_write();
}

/* The registry retains the function. Without `override` a name that is taken is an error. */
int TVMFuncRegisterGlobal(const char* name, TVMFunctionHandle f, int override) {
  tvmrt_strmap_slot* slot;
  tvmrt_func* old = NULL;
  int rc = 0;
  if (name == NULL) return tvmrt__fail("TVMFuncRegisterGlobal: the name is NULL.");
  TVMRT_RETURN_IF_ERROR(tvmrt__check_type(f, TVMRT_TYPE_FUNCTION, "TVMFuncRegisterGlobal"));
  TVMRT_RETURN_IF_ERROR(lock_to_write());
  slot = tvmrt__strmap_find(&table, name);
  if (slot == NULL) {
    TVMRT_RETURN_IF_ERROR(load_pending(name));
    slot = tvmrt__strmap_insert(&table, name);
  }
  if (slot == NULL) {
    rc = -1;
  } else if (slot->value != NULL && !override) {
    rc = tvmrt__fail_value("Global PackedFunc %s is already registered.", name);
  } else {
    old = slot->value;
    tvmrt__retain(f);
    slot->value = f;
    atomic_fetch_add_explicit(&additions, 1, memory_order_relaxed);
  }
  unlock_writer();
  if (old != NULL) tvmrt__release(&old->base); /* its finaliser may use the registry */
  return rc;
}

/* *out is retained under the lock: afterwards another thread may remove the name. */
static int get(const char* name, tvmrt_func** out) {
  const tvmrt_strmap_slot* slot;
  *out = NULL;
  TVMRT_RETURN_IF_ERROR(lock_to_read());
  slot = tvmrt__strmap_find(&table, name);
  if (slot != NULL) {
    *out = slot->value;
    tvmrt__retain(&(*out)->base);
  }
  unlock_reader();
  return 0;
}

/* Load the plug-in that may have a missing name. A thread that adds a name increments the counter
 * before this thread sees the plug-in as loaded. */
TVMRT_OUT_OF_LINE static int look_up_or_load(const char* name, tvmrt_func** out, unsigned before) {
  TVMRT_RETURN_IF_ERROR(tvmrt__plugin_load_for(name));
  if (atomic_load_explicit(&additions, memory_order_relaxed) == before) return 0;
  return get(name, out);
}

int tvmrt__global_get(const char* name, tvmrt_func** out) {
  const unsigned before = atomic_load_explicit(&additions, memory_order_relaxed);
  TVMRT_RETURN_IF_ERROR(get(name, out));
  return *out != NULL ? 0 : look_up_or_load(name, out, before);
}

/* The function of a table under its name; NULL if the name is missing or has another function.
 * Called with the lock held. */
static const tvmrt_func* find_of_table(const char* name, TVMCPackedFunc fn) {
  const tvmrt_strmap_slot* slot = tvmrt__strmap_find(&table, name);
  const tvmrt_func* f = slot == NULL ? NULL : slot->value;
  return f != NULL && f->fn == fn && f->resource == name ? f : NULL;
}

int tvmrt__global_enter(const char* name, TVMCPackedFunc fn) {
  int rc;
  TVMRT_RETURN_IF_ERROR(lock_to_write());
  rc = enter_builtin(name, fn);
  unlock_writer();
  return rc;
}

int tvmrt__globals_enter(const tvmrt_builtins* const* tables) {
  int rc;
  TVMRT_RETURN_IF_ERROR(lock_to_write());
  rc = enter_tables(tables);
  unlock_writer();
  return rc;
}

void tvmrt__global_leave(const char* name, TVMCPackedFunc fn) {
  tvmrt_func* old = NULL;
  if (lock_to_write() != 0) return;
  if (find_of_table(name, fn) != NULL) old = tvmrt__strmap_remove(&table, name);
  unlock_writer();
  if (old != NULL) tvmrt__release(&old->base);
}

bool tvmrt__global_is_referenced(const char* name, TVMCPackedFunc fn) {
  const tvmrt_func* f;
  bool is_referenced;
  if (lock_to_write() != 0) return true;
  f = find_of_table(name, fn);
  is_referenced = f != NULL && atomic_load_explicit(&f->base.refs, memory_order_acquire) > 1;
  unlock_writer();
  return is_referenced;
}

/* The function is retained while it runs: it may remove its own name. */
int tvmrt__global_call(const char* name, TVMValue* values, int* codes, int count, TVMValue* out,
                       int* out_code) {
  tvmrt_func* f = NULL;
  int rc;
  TVMRT_RETURN_IF_ERROR(tvmrt__global_get(name, &f));
  if (f == NULL) return tvmrt__fail("there is no global function %s.", name);
  rc = TVMFuncCall(f, values, codes, count, out, out_code);
  tvmrt__release(&f->base);
  return rc;
}

int tvmrt__global_notify(const char* name, TVMValue* values, int* codes, int count) {
  tvmrt_func* f = NULL;
  int rc;
  TVMRT_RETURN_IF_ERROR(tvmrt__global_get(name, &f));
  if (f == NULL) return 0;
  rc = tvmrt__func_call(f, values, codes, count);
  tvmrt__release(&f->base);
  return rc;
}

/* *out is NULL, with result 0, if the name is missing. The caller owns the reference. */
int TVMFuncGetGlobal(const char* name, TVMFunctionHandle* out) {
  tvmrt_func* f = NULL;
  int rc;
  *out = NULL;
  if (name == NULL) return tvmrt__fail("TVMFuncGetGlobal: the name is NULL.");
  rc = tvmrt__global_get(name, &f);
  *out = f;
  return rc;
}

/* A missing name is not an error. The function is released after unlocking. */
int TVMFuncRemoveGlobal(const char* name) {
  tvmrt_func* old;
  if (name == NULL) return tvmrt__fail("TVMFuncRemoveGlobal: the name is NULL.");
  TVMRT_RETURN_IF_ERROR(lock_to_write());
  TVMRT_RETURN_IF_ERROR(load_pending(name));
  old = tvmrt__strmap_remove(&table, name);
  unlock_writer();
  if (old != NULL) tvmrt__release(&old->base);
  return 0;
}

/* `f` is called with the lock held for reading: it must not register functions, and must copy the
 * name to keep it. */
int tvmrt__global_each(const char* prefix, int (*f)(void* ctx, const char* name), void* ctx) {
  size_t i;
  int rc = 0;
  TVMRT_RETURN_IF_ERROR(lock_to_read());
  for (i = 0; i < table.num_slots && rc == 0; ++i) {
    const char* name = table.slots[i].key;
    if (name != NULL && strncmp(name, prefix, strlen(prefix)) == 0) rc = f(ctx, name);
  }
  unlock_reader();
  return rc;
}

/* With its NUL, so that build_list() can separate the names. */
static int append_name(void* ctx, const char* name) {
  return tvmrt__buf_append(ctx, name, strlen(name) + 1);
}

/* The thread's list is one block: pointers first, then the names that they point to. */
static int build_list(tvmrt_buf* list, const tvmrt_buf* texts, int* out_size) {
  size_t count = 0;
  size_t i;
  const char** pointers;
  char* text;
  for (i = 0; i < texts->size; ++i) count += texts->data[i] == '\0';
  list->size = 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_reserve(list, count * sizeof(char*) + texts->size));
  pointers = (const char**)(void*)list->data;
  text = list->data + count * sizeof(char*);
  /* lint: an empty list has room, and then nothing is copied */
  memcpy(text, texts->data, texts->size);
  for (i = 0; i < count; ++i, text += strlen(text) + 1) pointers[i] = text;
  *out_size = (int)count;
  return 0;
}

/* The thread owns the list, which lives until its next call or its end. */
int TVMFuncListGlobalNames(int* out_size, const char*** out_array) {
  tvmrt_thread* thread = tvmrt__thread();
  tvmrt_buf texts = {NULL, 0, 0};
  int rc;
  *out_size = 0;
  *out_array = NULL;
  if (thread == NULL) return tvmrt__fail_memory(sizeof(*thread));
  tvmrt__plugins_load_by_prefix(""); /* plug-ins list their functions only when loaded */
  rc = tvmrt__global_each("", append_name, &texts);
  if (rc == 0) rc = build_list(&thread->names, &texts, out_size);
  if (rc == 0) *out_array = (const char**)(void*)thread->names.data;
  tvmrt__buf_free(&texts);
  return rc;
}
