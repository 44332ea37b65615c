/* What all modules share: references, imports, function look-up and its cache. */
#include "module.h"

#include <stdlib.h>
#include <string.h>

/* More unknown names than this are looked up anew each time, so that asking costs no memory. */
enum { MAX_CACHED_NAMES = 65536 };

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

static void free_module(tvmrt_object* obj) {
  tvmrt_module* mod = (tvmrt_module*)obj;
  free_functions(mod);
  tvmrt__module_clear_imports(mod);
  if (mod->type->destroy != NULL) mod->type->destroy(mod);
  (void)pthread_mutex_destroy(&mod->lock);
  free(mod);
}

void* tvmrt__module_new(const tvmrt_module_type* type, size_t bytes) {
  tvmrt_module* mod = tvmrt__calloc(1, bytes);
  if (mod == NULL) return NULL;
  if (pthread_mutex_init(&mod->lock, NULL) != 0) {
    free(mod);
    (void)tvmrt__fail("A mutex could not be made.");
    return NULL;
  }
  tvmrt__object_init(&mod->base, TVMRT_TYPE_MODULE, free_module);
  mod->type = type;
  return mod;
}

void tvmrt__module_clear_imports(tvmrt_module* mod) {
  size_t count = mod->num_imports;
  size_t i;
  tvmrt_module** imports = mod->imports;
  mod->imports = NULL;
  mod->num_imports = 0;
  for (i = 0; i < count; ++i) tvmrt__module_release(imports[i]);
  free(imports);
}

/* Depth first with a stack on the heap: a tree from a file may be deep. */
typedef struct walk {
  tvmrt_module** seen;
  size_t num_seen;
} walk;

static int walk_add(walk* w, tvmrt_module* mod) {
  size_t i;
  void* seen = w->seen;
  for (i = 0; i < w->num_seen; ++i) {
    if (w->seen[i] == mod) return 0;
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__grow(&seen, w->num_seen, sizeof(*w->seen)));
  w->seen = seen;
  w->seen[w->num_seen++] = mod;
  return 0;
}

/* All modules that can be reached from mod, itself first. Free w->seen. */
static int walk_all(walk* w, tvmrt_module* mod) {
  size_t i;
  size_t k;
  TVMRT_RETURN_IF_ERROR(walk_add(w, mod));
  for (i = 0; i < w->num_seen; ++i) {
    for (k = 0; k < w->seen[i]->num_imports; ++k) {
      TVMRT_RETURN_IF_ERROR(walk_add(w, w->seen[i]->imports[k]));
    }
  }
  return 0;
}

static int check_no_cycle(tvmrt_module* mod, tvmrt_module* dep) {
  walk w = {NULL, 0};
  size_t i;
  int rc = walk_all(&w, dep);
  for (i = 0; rc == 0 && i < w.num_seen; ++i) {
    if (w.seen[i] == mod) {
      rc = tvmrt__fail("ValueError: importing module '%s' into '%s' would close a cycle.",
                       dep->type->key, mod->type->key);
    }
  }
  free(w.seen);
  return rc;
}

int tvmrt__module_import(tvmrt_module* mod, tvmrt_module* dep) {
  void* imports = mod->imports;
  TVMRT_RETURN_IF_ERROR(check_no_cycle(mod, dep));
  TVMRT_RETURN_IF_ERROR(tvmrt__grow(&imports, mod->num_imports, sizeof(*mod->imports)));
  mod->imports = imports;
  tvmrt__retain(&dep->base);
  mod->imports[mod->num_imports++] = dep;
  return 0;
}

int tvmrt__find_native(const tvmrt_builtin* table, const char* name, tvmrt_found* out) {
  for (; table->name != NULL; ++table) {
    if (strcmp(table->name, name) != 0) continue;
    out->fn = table->fn;
    out->kind = TVMRT_FUNC_NATIVE;
    return 0;
  }
  return 0;
}

/* A function of the module's own table; see tvmrt_func.owner for its life. */
static tvmrt_func* wrap(tvmrt_module* mod, const tvmrt_found* found) {
  void* resource = found->resource;
  tvmrt_func* f;
  if (resource == NULL && found->kind == TVMRT_FUNC_NATIVE) resource = mod;
  f = tvmrt__func_new(found->fn, resource, NULL);
  if (f == NULL) return NULL;
  f->kind = found->kind;
  f->owner = mod;
  atomic_store_explicit(&f->base.refs, 0, memory_order_relaxed);
  return f;
}

/* Hand a function of the table out: the first holder also holds the module. */
static tvmrt_func* hand_out(tvmrt_func* f) {
  if (f == NULL) return NULL;
  if (atomic_fetch_add_explicit(&f->base.refs, 1, memory_order_relaxed) == 0) {
    tvmrt__retain(&f->owner->base);
  }
  return f;
}

static bool find_cached(tvmrt_module* mod, const char* name, tvmrt_func** out) {
  const tvmrt_strmap_slot* slot;
  bool hit;
  (void)pthread_mutex_lock(&mod->lock);
  slot = tvmrt__strmap_find(&mod->functions, name);
  hit = slot != NULL;
  *out = hit ? hand_out(slot->value) : NULL;
  (void)pthread_mutex_unlock(&mod->lock);
  return hit;
}

/* Enter what `find` said; another thread may have been first. Called with the lock held. */
static int enter_found(tvmrt_module* mod, const char* name, const tvmrt_found* found,
                       tvmrt_func** out) {
  tvmrt_strmap_slot* slot;
  if (found->fn == NULL && mod->functions.size >= MAX_CACHED_NAMES) return 0;
  slot = tvmrt__strmap_insert(&mod->functions, name);
  if (slot == NULL) return -1;
  if (slot->value == NULL && found->fn != NULL) {
    slot->value = wrap(mod, found);
    if (slot->value == NULL) {
      (void)tvmrt__strmap_remove(&mod->functions, name);
      return -1;
    }
  }
  *out = hand_out(slot->value);
  return 0;
}

static int get_own(tvmrt_module* mod, const char* name, tvmrt_func** out) {
  tvmrt_found found = {NULL, TVMRT_FUNC_LIBRARY, NULL, NULL};
  int rc;
  if (find_cached(mod, name, out)) return 0;
  TVMRT_RETURN_IF_ERROR(mod->type->find(mod, name, &found));
  if (found.func != NULL) {
    *out = found.func;
    return 0;
  }
  (void)pthread_mutex_lock(&mod->lock);
  rc = enter_found(mod, name, &found, out);
  (void)pthread_mutex_unlock(&mod->lock);
  return rc;
}

/* Imports of imports, in the order of a depth-first search. */
static int get_from_imports(tvmrt_module* mod, const char* name, tvmrt_func** out) {
  walk w = {NULL, 0};
  size_t i;
  int rc = 0;
  for (i = 0; i < mod->num_imports && rc == 0 && *out == NULL; ++i) {
    rc = get_own(mod->imports[i], name, out);
  }
  if (rc != 0 || *out != NULL) return rc; /* the usual tree has one level */
  rc = walk_all(&w, mod);
  for (i = 1; i < w.num_seen && rc == 0 && *out == NULL; ++i) rc = get_own(w.seen[i], name, out);
  free(w.seen);
  return rc;
}

int tvmrt__module_get(tvmrt_module* mod, const char* name, bool query_imports, tvmrt_func** out) {
  *out = NULL;
  TVMRT_RETURN_IF_ERROR(get_own(mod, name, out));
  if (*out != NULL || !query_imports || mod->num_imports == 0) return 0;
  return get_from_imports(mod, name, out);
}

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

static int find_in_environment(tvmrt_module* mod, const char* name, tvmrt_func** out) {
  if (mod != NULL) TVMRT_RETURN_IF_ERROR(get_from_imports(mod, name, out));
  if (*out != NULL) return 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__global_get(name, out));
  if (*out != NULL) return 0;
  return tvmrt__fail("Cannot find function %s in the imported modules or the global registry.",
                     name);
}

/* Keep the reference in the module, so that the caller may borrow. */
static int keep_in_environment(tvmrt_module* mod, const char* name, tvmrt_func* f) {
  tvmrt_strmap_slot* slot;
  int rc = 0;
  (void)pthread_mutex_lock(&mod->lock);
  slot = tvmrt__strmap_insert(&mod->environment, name);
  if (slot == NULL) {
    rc = -1;
  } else if (slot->value == NULL) {
    slot->value = f;
    f = NULL;
  }
  (void)pthread_mutex_unlock(&mod->lock);
  if (f != NULL) tvmrt__release(&f->base);
  return rc;
}

static tvmrt_func* cached_environment(tvmrt_module* mod, const char* name) {
  const tvmrt_strmap_slot* slot;
  tvmrt_func* f;
  (void)pthread_mutex_lock(&mod->lock);
  slot = tvmrt__strmap_find(&mod->environment, name);
  f = slot == NULL ? NULL : slot->value;
  (void)pthread_mutex_unlock(&mod->lock);
  return f;
}

int TVMBackendGetFuncFromEnv(void* mod_node, const char* func_name, TVMFunctionHandle* out) {
  tvmrt_module* mod = mod_node;
  tvmrt_func* f = NULL;
  *out = NULL;
  if (func_name == NULL) return tvmrt__fail("TVMBackendGetFuncFromEnv: the name is NULL.");
  if (mod == NULL) { /* the registry holds it; a name that is removed later takes it along */
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
    f = cached_environment(mod, func_name);
  }
  *out = f;
  return 0;
}

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
