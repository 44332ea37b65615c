/* Common part of all modules: references, imports, function look-up and its cache.
 *
 * A module owns its imports and the functions that it has returned by name. Both kinds of look-up
 * are cached, since generated code and front ends look up the same names repeatedly. Each module
 * has a lock for its two function tables. Imports are not locked, as they are added while a tree is
 * built. No lock is held while foreign code is called.
 *
 * References: a module retains its imports and its library. A function that a module created for a
 * name retains the module while the function is referenced, and the module frees it in its
 * destructor. So a caller may keep only the function, and the two do not keep each other alive. */
#include "module.h"

#include <stdlib.h>
#include <string.h>

/* Further unknown names are looked up each time, so that look-ups do not exhaust memory. */
enum { MAX_CACHED_NAMES = 65536 };

/* Functions of the module's own table have no references left, since they would retain the module:
 * they are freed directly. Those of the environment belong to others and are released. */
static void free_functions(tvmrt_module* mod) {
  size_t i;
  for (i = 0; i < mod->functions.num_slots; ++i) {
    if (mod->functions.slots[i].key != NULL) free(mod->functions.slots[i].value);
  }
  tvmrt__strmap_free(&mod->functions);
  for (i = 0; i < mod->environment.num_slots; ++i) {
    if (mod->environment.slots[i].key != NULL) tvmrt__release(mod->environment.slots[i].value);
  }
  tvmrt__strmap_free(&mod->environment);
}

/* Functions precede `destroy`, which may unload the code of their finalisers. */
static void free_one(tvmrt_module* mod) {
  free_functions(mod);
  free(mod->imports);
  if (mod->type->destroy != NULL) mod->type->destroy(mod);
  tvmrt__mutex_free(&mod->lock);
  free(mod);
}

/* Release a reference; the last one puts the module on the list. */
static void drop_one(tvmrt_module* mod, tvmrt_module** waiting) {
  if (mod == NULL || !tvmrt__drop(&mod->base)) return;
  mod->next_to_free = *waiting;
  *waiting = mod;
}

/* Unreferenced modules wait in a list instead of recursing: a tree from a file may be deep. */
static void free_module(tvmrt_object* obj) {
  tvmrt_module* waiting = (tvmrt_module*)obj;
  while (waiting != NULL) {
    tvmrt_module* mod = waiting;
    tvmrt_module* library = mod->library;
    size_t i;
    waiting = mod->next_to_free;
    for (i = 0; i < mod->num_imports; ++i) drop_one(mod->imports[i], &waiting);
    free_one(mod);
    drop_one(library, &waiting); /* last: its code implements the released functions */
  }
}

/* The caller owns the reference. The kind's part of the struct is zeroed; its `destroy` must accept
 * that. */
void* tvmrt__module_new(const tvmrt_module_type* type, size_t bytes) {
  tvmrt_module* mod = tvmrt__calloc(1, bytes);
  if (mod == NULL) return NULL;
  if (tvmrt__mutex_init(&mod->lock) != 0) {
    (void)tvmrt__fail_memory(sizeof(mod->lock));
    free(mod);
    return NULL;
  }
  tvmrt__object_init(&mod->base, TVMRT_TYPE_MODULE, free_module);
  mod->type = type;
  return mod;
}

/* Destructors of imports may run foreign code, so the list is detached first. */
void tvmrt__module_clear_imports(tvmrt_module* mod) {
  size_t count = mod->num_imports;
  size_t i;
  tvmrt_module** imports = mod->imports;
  mod->imports = NULL; /* first: destructors of imports must not see a released one */
  mod->num_imports = 0;
  for (i = 0; i < count; ++i) tvmrt__module_release(imports[i]);
  free(imports);
}

/* Depth first with a stack on the heap: a tree from a file may be deep. */
typedef struct module_list {
  tvmrt_module** items;
  size_t count;
} module_list;

typedef struct walk {
  module_list visited; /* in depth-first order, a module before its imports */
  module_list waiting; /* a stack */
} walk;

/* Borrowed: the tree retains the modules in a list. */
static int append(module_list* list, tvmrt_module* mod) {
  void* items = list->items;
  TVMRT_RETURN_IF_ERROR(tvmrt__grow(&items, list->count, sizeof(*list->items)));
  list->items = items;
  list->items[list->count++] = mod;
  return 0;
}

/* Linear: trees have few modules. */
static bool contains(const module_list* list, const tvmrt_module* mod) {
  size_t i;
  for (i = 0; i < list->count; ++i) {
    if (list->items[i] == mod) return true;
  }
  return false;
}

/* All modules reachable from mod, itself first. Call free_walk() afterwards, also on failure. */
static int walk_all(walk* w, tvmrt_module* mod) {
  TVMRT_RETURN_IF_ERROR(append(&w->waiting, mod));
  while (w->waiting.count != 0) {
    size_t i;
    mod = w->waiting.items[--w->waiting.count];
    /* several modules may import it */
    if (contains(&w->visited, mod)) continue;
    TVMRT_RETURN_IF_ERROR(append(&w->visited, mod));
    /* pushed in reverse order, so that the first one is visited next */
    for (i = mod->num_imports; i > 0; --i) {
      TVMRT_RETURN_IF_ERROR(append(&w->waiting, mod->imports[i - 1]));
    }
  }
  return 0;
}

static void free_walk(walk* w) {
  free(w->visited.items);
  free(w->waiting.items);
}

/* Modules are reference-counted: a cycle would never be released. */
static int check_no_cycle(tvmrt_module* mod, tvmrt_module* dep) {
  walk w = {{NULL, 0}, {NULL, 0}};
  int rc = walk_all(&w, dep);
  if (rc == 0 && contains(&w.visited, mod)) {
    rc = tvmrt__fail_value("importing module '%s' into '%s' would create a cycle.", dep->type->key,
                           mod->type->key);
  }
  free_walk(&w);
  return rc;
}

/* `dep` is retained; the caller keeps its own reference. */
int tvmrt__module_import(tvmrt_module* mod, tvmrt_module* dep) {
  void* imports = mod->imports;
  TVMRT_RETURN_IF_ERROR(check_no_cycle(mod, dep));
  TVMRT_RETURN_IF_ERROR(tvmrt__grow(&imports, mod->num_imports, sizeof(*mod->imports)));
  mod->imports = imports;
  tvmrt__retain(&dep->base);
  mod->imports[mod->num_imports++] = dep;
  return 0;
}

/* For kinds with a table of functions: *out is unchanged if the name is not in the table. */
int tvmrt__find_native(const tvmrt_builtins* table, const char* name, tvmrt_lookup_result* out) {
  const TVMCPackedFunc* fn = table->functions;
  const char* known = table->names;
  for (; *known != '\0'; known = tvmrt__next_name(known), ++fn) {
    if (strcmp(known, name) != 0) continue;
    out->fn = *fn;
    out->kind = TVMRT_FUNC_NATIVE;
    return 0;
  }
  return 0;
}

/* A function of the module's own table; see tvmrt_func.owner for its lifetime. */
static tvmrt_func* wrap(tvmrt_module* mod, const char* name, const tvmrt_lookup_result* found) {
  void* resource = found->resource;
  tvmrt_func* f;
  if (resource == NULL && found->kind == TVMRT_FUNC_NATIVE) resource = mod;
  f = tvmrt__func_new(found->fn, resource, NULL);
  if (f == NULL) return NULL;
  tvmrt__func_set_kind(f, found->kind);
  f->is_short = found->kind == TVMRT_FUNC_NATIVE && tvmrt__is_short(name);
  f->owner = &mod->base;
  atomic_store_explicit(&f->base.refs, 0, memory_order_relaxed);
  return f;
}

/* Return a reference to a table function: its first reference also retains the module. */
static tvmrt_func* retain_cached(tvmrt_func* f) {
  if (f == NULL) return NULL;
  if (atomic_fetch_add_explicit(&f->base.refs, 1, memory_order_relaxed) == 0) {
    tvmrt__retain(f->owner);
  }
  return f;
}

/* True also if the function is known to be missing: *out is then NULL. */
static bool find_cached(tvmrt_module* mod, const char* name, tvmrt_func** out) {
  const tvmrt_strmap_slot* slot;
  bool hit;
  tvmrt__lock(&mod->lock);
  slot = tvmrt__strmap_find(&mod->functions, name);
  hit = slot != NULL;
  *out = hit ? retain_cached(slot->value) : NULL;
  tvmrt__unlock(&mod->lock);
  return hit;
}

/* Cache the result of `find`; another thread may have been first. Called with the lock held. */
static int cache_lookup(tvmrt_module* mod, const char* name, const tvmrt_lookup_result* found,
                        tvmrt_func** out) {
  tvmrt_strmap_slot* slot;
  if (found->fn == NULL && mod->functions.size >= MAX_CACHED_NAMES) return 0;
  slot = tvmrt__strmap_insert(&mod->functions, name);
  if (slot == NULL) return -1;
  if (slot->value == NULL && found->fn != NULL) {
    slot->value = wrap(mod, name, found);
    if (slot->value == NULL) {
      (void)tvmrt__strmap_remove(&mod->functions, name);
      return -1;
    }
  }
  *out = retain_cached(slot->value);
  return 0;
}

/* Functions that a kind creates for each call (`func`), or that may change later (`may_change`),
 * are not cached. *out is owned; NULL, with result 0, if there is none. */
static int get_own(tvmrt_module* mod, const char* name, tvmrt_func** out) {
  tvmrt_lookup_result found = {NULL, TVMRT_FUNC_LIBRARY, NULL, NULL, false};
  int rc;
  if (find_cached(mod, name, out)) return 0;
  /* without the lock: `find` may be a plug-in's, and look up other functions of this module */
  TVMRT_RETURN_IF_ERROR(mod->type->find(mod, name, &found));
  if (found.func != NULL || found.may_change) {
    *out = found.func;
    return 0;
  }
  tvmrt__lock(&mod->lock);
  rc = cache_lookup(mod, name, &found, out);
  tvmrt__unlock(&mod->lock);
  return rc;
}

/* Imports and their imports, in depth-first order. */
static int get_from_tree(tvmrt_module* mod, const char* name, tvmrt_func** out) {
  walk w = {{NULL, 0}, {NULL, 0}};
  size_t i;
  int rc = walk_all(&w, mod);
  for (i = 1; i < w.visited.count && rc == 0 && *out == NULL; ++i) {
    rc = get_own(w.visited.items[i], name, out);
  }
  free_walk(&w);
  return rc;
}

/* The usual tree has one level, which needs no walk: a call by name allocates no memory. */
static int get_from_imports(tvmrt_module* mod, const char* name, tvmrt_func** out) {
  size_t i;
  for (i = 0; i < mod->num_imports; ++i) {
    TVMRT_RETURN_IF_ERROR(get_own(mod->imports[i], name, out));
    if (*out != NULL) return 0;
    /* Continue with a walk, which asks the imports before again: their answers are cached. */
    if (mod->imports[i]->num_imports != 0) return get_from_tree(mod, name, out);
  }
  return 0;
}

/* `mod` itself is searched first. *out is retained, and keeps alive all that it needs. */
int tvmrt__module_get(tvmrt_module* mod, const char* name, bool query_imports, tvmrt_func** out) {
  *out = NULL;
  TVMRT_RETURN_IF_ERROR(get_own(mod, name, out));
  if (*out != NULL || !query_imports || mod->num_imports == 0) return 0;
  return get_from_imports(mod, name, out);
}

/* *out is owned; NULL, with result 0, if there is no such function. */
int TVMModGetFunction(TVMModuleHandle mod, const char* func_name, int query_imports,
                      TVMFunctionHandle* out) {
  tvmrt_func* f = NULL;
  *out = NULL;
  TVMRT_RETURN_IF_ERROR(tvmrt__check_type(mod, TVMRT_TYPE_MODULE, "TVMModGetFunction"));
  if (func_name == NULL) return tvmrt__fail("TVMModGetFunction: the name is NULL.");
  TVMRT_RETURN_IF_ERROR(tvmrt__module_get(mod, func_name, query_imports != 0, &f));
  *out = f;
  return 0;
}

int TVMModImport(TVMModuleHandle mod, TVMModuleHandle dep) {
  TVMRT_RETURN_IF_ERROR(tvmrt__check_type(mod, TVMRT_TYPE_MODULE, "TVMModImport"));
  TVMRT_RETURN_IF_ERROR(tvmrt__check_type(dep, TVMRT_TYPE_MODULE, "TVMModImport"));
  return tvmrt__module_import(mod, dep);
}

int TVMModFree(TVMModuleHandle mod) {
  if (mod == NULL) return 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__check_type(mod, TVMRT_TYPE_MODULE, "TVMModFree"));
  tvmrt__module_release(mod);
  return 0;
}

/* Resolve a name of generated code: first the imports of its library, then global functions. *out
 * is owned. */
static int find_in_environment(tvmrt_module* mod, const char* name, tvmrt_func** out) {
  if (mod != NULL) TVMRT_RETURN_IF_ERROR(get_from_imports(mod, name, out));
  if (*out != NULL) return 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__global_get(name, out));
  if (*out != NULL) return 0;
  return tvmrt__fail("Cannot find function %s in the imported modules or the global registry.",
                     name);
}

/* Keep the reference in the module, so that the caller may borrow the function. */
static int keep_in_environment(tvmrt_module* mod, const char* name, tvmrt_func* f) {
  tvmrt_strmap_slot* slot;
  int rc = 0;
  tvmrt__lock(&mod->lock);
  slot = tvmrt__strmap_insert(&mod->environment, name);
  if (slot == NULL) {
    rc = -1;
  } else if (slot->value == NULL) {
    slot->value = f;
    f = NULL;
  }
  tvmrt__unlock(&mod->lock);
  if (f != NULL) tvmrt__release(&f->base);
  return rc;
}

/* Borrowed: the module retains it as long as it lives. */
static tvmrt_func* cached_environment(tvmrt_module* mod, const char* name) {
  const tvmrt_strmap_slot* slot;
  tvmrt_func* f;
  tvmrt__lock(&mod->lock);
  slot = tvmrt__strmap_find(&mod->environment, name);
  f = slot == NULL ? NULL : slot->value;
  tvmrt__unlock(&mod->lock);
  return f;
}

/* *out is borrowed, as generated code never releases it. */
int TVMBackendGetFuncFromEnv(void* mod_node, const char* func_name, TVMFunctionHandle* out) {
  tvmrt_module* mod = mod_node;
  tvmrt_func* f = NULL;
  *out = NULL;
  if (func_name == NULL) return tvmrt__fail("TVMBackendGetFuncFromEnv: the name is NULL.");
  if (mod == NULL) { /* the registry retains it; removing the name later releases it */
    TVMRT_RETURN_IF_ERROR(find_in_environment(NULL, func_name, &f));
    *out = f;
    tvmrt__release(&f->base);
    return 0;
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__check_type(mod, TVMRT_TYPE_MODULE, "TVMBackendGetFuncFromEnv"));
  f = cached_environment(mod, func_name);
  if (f == NULL) {
    TVMRT_RETURN_IF_ERROR(find_in_environment(mod, func_name, &f));
    TVMRT_RETURN_IF_ERROR(keep_in_environment(mod, func_name, f));
    f = cached_environment(mod, func_name); /* another thread's function, if that was first */
  }
  *out = f;
  return 0;
}

/* *out is NULL, with result 0, if there is no such function or it returns no pointer. Pointers are
 * owned by the library. */
int tvmrt__module_call_pointer(tvmrt_module* mod, const char* name, void** out) {
  tvmrt_func* f = NULL;
  TVMValue ret;
  int code = kTVMNullptr;
  int rc;
  *out = NULL;
  TVMRT_RETURN_IF_ERROR(tvmrt__module_get(mod, name, true, &f));
  if (f == NULL) return 0;
  rc = TVMFuncCall(f, NULL, NULL, 0, &ret, &code);
  if (rc == 0 && code == kTVMOpaqueHandle) *out = ret.v_handle;
  tvmrt__release(&f->base);
  return rc;
}
