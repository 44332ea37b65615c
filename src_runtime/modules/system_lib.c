/* The system library: symbols that statically linked code registers from its constructors, and the
 * functions of the table in code generated for firmware.
 *
 * Constructors run before main() and may register from several libraries, so the tables are created
 * on first use and have a lock. There is one module per prefix, never freed: its code is part of
 * the program. If a library is registered after the module was created, names that were looked up
 * before are not found. */
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/crt/module.h>

#include "../platform/threads.h"
#include "module.h"

static tvmrt_mutex lock = TVMRT_MUTEX_INIT;
static tvmrt_strmap symbols; /* name -> address */
static tvmrt_strmap modules; /* prefix -> root module, retained for the life of the process */

/* Called from constructors, in unspecified order. A repeated name gets the later address. */
int TVMBackendRegisterSystemLibSymbol(const char* name, void* ptr) {
  tvmrt_strmap_slot* slot;
  if (name == NULL) return tvmrt__fail("TVMBackendRegisterSystemLibSymbol: the name is NULL.");
  tvmrt__lock(&lock);
  slot = tvmrt__strmap_insert(&symbols, name);
  if (slot != NULL) slot->value = ptr;
  tvmrt__unlock(&lock);
  return slot == NULL ? -1 : 0;
}

/* The lock is not held when the address is used: symbols are never removed. */
static void* find_symbol(const char* name) {
  const tvmrt_strmap_slot* slot;
  void* address;
  tvmrt__lock(&lock);
  slot = tvmrt__strmap_find(&symbols, name);
  address = slot == NULL ? NULL : slot->value;
  tvmrt__unlock(&lock);
  return address;
}

#if TVMRT_HAS_WEAK
/* NULL in a program without code generated for firmware. */
TVMRT_WEAK const TVMModule* TVMSystemLibEntryPoint(void);

static const TVMModule* image_module(void) {
  return TVMSystemLibEntryPoint == NULL ? NULL : TVMSystemLibEntryPoint();
}
#else
/* Without weak symbols, the program must export the function visibly. */
static const TVMModule* image_module(void) {
  const TVMModule* (*entry)(void) = NULL;
  void* symbol = tvmrt__visible_symbol("TVMSystemLibEntryPoint");
  memcpy(&entry, &symbol, sizeof(entry));
  return entry == NULL ? NULL : entry();
}
#endif

/* The address of a function of the image's table. ISO C has no such conversion; all supported hosts
 * have. */
static void* image_function(const char* name) {
  const TVMModule* image = image_module();
  tvm_function_index_t index;
  void* address;
  if (image == NULL || TVMFuncRegistry_Lookup(image->registry, name, &index) != kTvmErrorNoError) {
    return NULL;
  }
  memcpy(&address, &image->registry->funcs[index], sizeof(address));
  return address;
}

/* ctx is the prefix: tries `prefix + name` first, then `name`. */
static void* prefixed_symbol(void* ctx, const char* name, size_t* out_size) {
  const char* prefix = ctx;
  tvmrt_buf full = {NULL, 0, 0};
  void* address = NULL;
  *out_size = 0; /* a registered address has no known size */
  if (prefix[0] != '\0' && tvmrt__buf_puts(&full, prefix) == 0 &&
      tvmrt__buf_puts(&full, name) == 0) {
    address = find_symbol(full.data);
  }
  tvmrt__buf_free(&full);
  if (address == NULL) address = find_symbol(name);
  return address != NULL ? address : image_function(name);
}

/* Only functions are registered, except for the two names below, which are not looked up as
 * such. */
static bool is_function(void* ctx, void* symbol) {
  (void)ctx;
  (void)symbol;
  return true;
}

/* The source's context is the prefix, freed by its close. */
static int load_system_lib(const char* prefix, tvmrt_module** out) {
  tvmrt_library_source source = {prefixed_symbol, is_function, free, NULL, {0}};
  source.ctx = tvmrt__strdup(prefix);
  if (source.ctx == NULL) return -1;
  return tvmrt__library_load(&source, out);
}

/* Called with the lock held. */
static tvmrt_module* find_module(const char* prefix) {
  const tvmrt_strmap_slot* slot = tvmrt__strmap_find(&modules, prefix);
  return slot == NULL ? NULL : slot->value;
}

/* Keep the first module of a prefix; *mod becomes that one, retained for the caller. */
static int keep_module(const char* prefix, tvmrt_module** mod) {
  tvmrt_strmap_slot* slot;
  tvmrt_module* duplicate = NULL;
  tvmrt__lock(&lock);
  slot = tvmrt__strmap_insert(&modules, prefix);
  if (slot != NULL && slot->value != NULL) duplicate = *mod;
  if (slot != NULL && slot->value == NULL) slot->value = *mod;
  if (slot != NULL) {
    *mod = slot->value;
    tvmrt__retain(&(*mod)->base);
  }
  tvmrt__unlock(&lock);
  tvmrt__module_release(duplicate);
  if (slot == NULL) tvmrt__module_release(*mod);
  return slot == NULL ? -1 : 0;
}

/* Loads without the lock, since loading looks up symbols; the second thread discards its module. */
static int get_system_lib(const char* prefix, tvmrt_module** out) {
  tvmrt__lock(&lock);
  *out = find_module(prefix);
  if (*out != NULL) tvmrt__retain(&(*out)->base);
  tvmrt__unlock(&lock);
  if (*out != NULL) return 0;
  TVMRT_RETURN_IF_ERROR(load_system_lib(prefix, out));
  return keep_module(prefix, out);
}

/* ([prefix]) -> module; repeated calls return one module. */
TVMRT_NATIVE(system_lib) {
  const char* prefix = "";
  tvmrt_module* mod = NULL;
  TVMRT_COUNTED_ARGS(0, 1);
  if (num_args == 1) TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 0, &prefix));
  TVMRT_RETURN_IF_ERROR(get_system_lib(prefix, &mod));
  return tvmrt__ret_object(out, out_code, &mod->base);
}

#define FUNCTIONS(X) X("runtime.SystemLib", system_lib)
const tvmrt_builtins tvmrt__system_lib_builtins = TVMRT_BUILTINS(FUNCTIONS);
