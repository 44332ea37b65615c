/* The module that passes constants to accelerators' modules before their first call.
 *
 * TVM's libraries with parts for accelerators store the constants of these parts separately: this
 * module has them by name, and for each function of an import the names that it needs. The first
 * look-up of such a function calls its initialiser, `__init_<symbol>`, once, with an Array of the
 * constants. Thread-safe: the initialiser is called with the lock held, one at a time, and must not
 * look up functions of other clients in this module.
 *
 * Its payload has the constants, in the format of params; vec<string> symbols; u64 number of
 * symbols again; then for each symbol vec<string> names of its constants. */
#include <stdlib.h>
#include <string.h>

#include "../modules/module.h"
#include "../tensors/params.h"

/* One symbol of an import that needs constants. */
typedef struct client {
  char* symbol;
  char** vars; /* names of its constants, in the order of its initialiser's argument */
  size_t num_vars;
  bool ready;
} client;

typedef struct const_loader {
  tvmrt_module base;
  tvmrt_params consts;
  client* clients;
  size_t num_clients;
  tvmrt_mutex init_lock; /* one initialisation at a time */
  bool has_lock;
} const_loader;

/* Also for a partially read loader: the counts are always valid. */
static void const_loader_destroy(tvmrt_module* self) {
  const_loader* loader = (const_loader*)self;
  size_t i;
  for (i = 0; i < loader->num_clients; ++i) {
    free(loader->clients[i].symbol);
    tvmrt__free_strings(loader->clients[i].vars, loader->clients[i].num_vars);
  }
  free(loader->clients);
  tvmrt__params_free(&loader->consts);
  if (loader->has_lock) tvmrt__mutex_free(&loader->init_lock);
}

/* Fills an array of NULLs, so that a partially filled one may be released. */
static int gather(const const_loader* loader, const client* c, tvmrt_array* array) {
  size_t i;
  for (i = 0; i < c->num_vars; ++i) {
    tvmrt_tensor* t = tvmrt__params_find(&loader->consts, c->vars[i]);
    if (t == NULL) {
      return tvmrt__fail_value("function '%s' needs constant '%s', which the library lacks.",
                               c->symbol, c->vars[i]);
    }
    tvmrt__retain(&t->base);
    array->items[i] = &t->base;
  }
  return 0;
}

/* TVM's initialisers return an int that is 0 on success, or nothing. */
static int call_init(tvmrt_func* init, const client* c, tvmrt_array* array) {
  TVMValue arg;
  TVMValue ret;
  int code = kTVMObjectHandle;
  int ret_code;
  int rc;
  arg.v_handle = array;
  rc = TVMFuncCall(init, &arg, &code, 1, &ret, &ret_code);
  if (rc == 0 && ret_code == kTVMArgInt && ret.v_int64 != 0) {
    rc = tvmrt__fail("The initialiser of function '%s' returned %lld.", c->symbol,
                     (long long)ret.v_int64);
  }
  if (rc == 0) tvmrt__release(tvmrt__value_object(&ret, ret_code));
  return rc;
}

/* `__init_<symbol>` of an import's own functions; 0 with *out NULL if no import has one. */
static int find_init(const_loader* loader, const client* c, tvmrt_func** out) {
  tvmrt_buf name = {NULL, 0, 0};
  size_t i;
  int rc = tvmrt__buf_printf(&name, "__init_%s", c->symbol);
  *out = NULL;
  for (i = 0; rc == 0 && *out == NULL && i < loader->base.num_imports; ++i) {
    rc = tvmrt__module_get(loader->base.imports[i], name.data, false, out);
  }
  tvmrt__buf_free(&name);
  return rc;
}

/* Called with the lock held. */
static int initialise(const_loader* loader, client* c) {
  tvmrt_func* init;
  tvmrt_array* array;
  int rc;
  TVMRT_RETURN_IF_ERROR(find_init(loader, c, &init));
  if (init == NULL) {
    return tvmrt__fail_value(
        "no imported module has '__init_%s', which function '%s' needs "
        "to get its constants.",
        c->symbol, c->symbol);
  }
  array = tvmrt__array_new(c->num_vars);
  rc = array == NULL ? -1 : gather(loader, c, array);
  if (rc == 0) rc = call_init(init, c, array);
  tvmrt__release((tvmrt_object*)array);
  tvmrt__release(&init->base);
  c->ready = rc == 0;
  return rc;
}

/* NULL for names that need no constants. */
static client* find_client(const_loader* loader, const char* name) {
  size_t i;
  for (i = 0; i < loader->num_clients; ++i) {
    if (strcmp(loader->clients[i].symbol, name) == 0) return &loader->clients[i];
  }
  return NULL;
}

/* () -> Map of all constants, for tools that inspect a library. */
TVMRT_NATIVE(get_const_vars) {
  const const_loader* loader = resource_handle;
  TVMRT_ARGS("get_const_var_ndarray");
  return tvmrt__params_return(&loader->consts, out, out_code);
}

#define METHODS(X) X("get_const_var_ndarray", get_const_vars)
static const tvmrt_builtins own = TVMRT_BUILTINS(METHODS);

/* The function itself belongs to an import, and is found after its constants were passed; *out
 * stays empty if the name is unknown. */
static int const_loader_find(tvmrt_module* self, const char* name, tvmrt_lookup_result* out) {
  const_loader* loader = (const_loader*)self;
  client* c = find_client(loader, name);
  size_t i;
  int rc = 0;
  if (c == NULL) return tvmrt__find_native(&own, name, out);
  tvmrt__lock(&loader->init_lock);
  if (!c->ready) rc = initialise(loader, c); /* after a failure, the next look-up tries again */
  tvmrt__unlock(&loader->init_lock);
  for (i = 0; rc == 0 && out->func == NULL && i < self->num_imports; ++i) {
    rc = tvmrt__module_get(self->imports[i], name, true, &out->func);
  }
  return rc;
}

static const tvmrt_module_type const_loader_type = {
    .key = "const_loader",
    .find = const_loader_find,
    .destroy = const_loader_destroy,
};

/* *out must be released also if the lock could not be made; NULL if memory is exhausted. */
static int new_loader(const_loader** out) {
  *out = tvmrt__module_new(&const_loader_type, sizeof(**out));
  if (*out == NULL) return -1;
  (*out)->has_lock = tvmrt__mutex_init(&(*out)->init_lock) == 0;
  return (*out)->has_lock ? 0 : tvmrt__fail_memory(sizeof((*out)->init_lock));
}

/* Take ownership of a list of symbols; its texts move into the clients. */
static int take_symbols(const_loader* loader, char** symbols, size_t count) {
  size_t i;
  loader->clients = tvmrt__calloc(count, sizeof(*loader->clients));
  if (loader->clients == NULL) {
    tvmrt__free_strings(symbols, count);
    return -1;
  }
  loader->num_clients = count;
  for (i = 0; i < count; ++i) loader->clients[i].symbol = symbols[i];
  free(symbols);
  return 0;
}

/* On failure, data that was already read belongs to the loader, which frees it. */
static int read_clients(tvmrt_reader* in, const_loader* loader) {
  char** symbols;
  size_t count;
  size_t i;
  TVMRT_RETURN_IF_ERROR(tvmrt__read_strings(in, &symbols, &count));
  TVMRT_RETURN_IF_ERROR(take_symbols(loader, symbols, count));
  TVMRT_RETURN_IF_ERROR(tvmrt__read_count(in, 8, &count));
  if (count != loader->num_clients) {
    return tvmrt__reader_fail(in, "the numbers of constant lists and symbols differ");
  }
  for (i = 0; i < count; ++i) {
    client* c = &loader->clients[i];
    TVMRT_RETURN_IF_ERROR(tvmrt__read_strings(in, &c->vars, &c->num_vars));
  }
  return 0;
}

/* Called by the loader of libraries: reads the constants, then the symbols that need them. */
static int read_const_loader(tvmrt_reader* in, tvmrt_module** out) {
  const_loader* loader;
  int rc;
  *out = NULL;
  rc = new_loader(&loader);
  if (rc == 0) rc = tvmrt__params_read(in, false, &loader->consts);
  if (rc == 0) rc = read_clients(in, loader);
  if (rc == 0) {
    *out = &loader->base;
  } else {
    tvmrt__module_release(loader);
  }
  return rc;
}

TVMRT_LOADER(load, read_const_loader)

#define FUNCTIONS(X)                          \
  X(TVMRT_LOADER_PREFIX "const_loader", load) \
  X(TVMRT_LOADER_PREFIX "metadata", load) /* the name in 0.8 */
const tvmrt_builtins tvmrt__const_loader_builtins = TVMRT_BUILTINS(FUNCTIONS);
