/* loading.h by dlopen().
 *
 * Handles are dlopen()'s and counted by it. Only glibc knows sizes and kinds of symbols; other C
 * libraries use heuristics that suffice for symbols of generated libraries. */
#define _GNU_SOURCE      /* glibc: symbol sizes, RTLD_DEFAULT */
#define _DARWIN_C_SOURCE /* macOS: dladdr() */
#include <dlfcn.h>

#include "loading.h"

#if defined(__linux__)
#include <link.h>
#endif

/* Always local: symbols of one network must not resolve in another. Each load is counted, in every
 * mode, also with RTLD_NOLOAD. */
void* tvmrt__library_load_file(const char* path, tvmrt_loading binding) {
  static const int modes[] = {
      [TVMRT_LOAD_LAZY] = RTLD_LAZY | RTLD_LOCAL,
      [TVMRT_LOAD_NOW] = RTLD_NOW | RTLD_LOCAL,
      [TVMRT_LOAD_IF_LOADED] = RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD,
  };
  return dlopen(path, modes[binding]);
}

/* The result is ignored: the caller has given up the handle either way. */
void tvmrt__library_unload(void* handle) { (void)dlclose(handle); }

void* tvmrt__library_symbol(void* handle, const char* name) { return dlsym(handle, name); }

/* The error of this thread's last call; dlerror() returns it only once. */
const char* tvmrt__library_error(void) {
  const char* text = dlerror();
  return text == NULL ? "unknown reason" : text;
}

/* Reopen under the path that the loader knows, as global; the additional reference is never
 * released. */
bool tvmrt__library_show(void* handle) {
#if defined(__linux__)
  struct link_map* map = NULL;
  return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 &&
         dlopen(map->l_name, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD) != NULL;
#else
  (void)handle;
  return false;
#endif
}

/* A symbol of the program or of a library that was made visible; NULL if there is none. */
void* tvmrt__visible_symbol(const char* name) { return dlsym(RTLD_DEFAULT, name); }

/* The path that the loader knows, which lives as long as the library. */
const char* tvmrt__library_of(const void* address) {
  Dl_info info;
  return dladdr(address, &info) == 0 ? NULL : info.dli_fname;
}

#if defined(__GLIBC__)
/* From the library's own symbol table. dladdr1() finds the nearest symbol below an address: one
 * that does not begin there is another symbol. */
static const ElfW(Sym) * elf_symbol(void* address) {
  Dl_info info;
  void* entry = NULL;
  if (dladdr1(address, &info, &entry, RTLD_DL_SYMENT) == 0 || info.dli_saddr != address)
    return NULL;
  return entry;
}

/* As written by the linker; callers compare it with the contents of the symbol. */
size_t tvmrt__symbol_bytes(void* address) {
  const ElfW(Sym)* sym = elf_symbol(address);
  return sym == NULL ? 0 : (size_t)sym->st_size;
}

/* Some names, such as __tvm_main__, are a function of one compiler and a text of another. Symbols
 * without a table entry count as code, as most are. */
bool tvmrt__symbol_is_function(void* address) {
  const ElfW(Sym)* sym = elf_symbol(address);
  return sym == NULL || (sym->st_info & 0xf) != STT_OBJECT;
}
#else
/* Unknown: constants are then copied, since they may lie outside of the library. */
size_t tvmrt__symbol_bytes(void* address) {
  (void)address;
  return 0;
}

/* Fewer than 256 characters of a C identifier and a NUL count as a text. Instructions match this
 * only by chance. */
bool tvmrt__symbol_is_function(void* address) {
  const unsigned char* text = address;
  size_t i;
  for (i = 0; i < 256 && text[i] != '\0'; ++i) {
    const bool letter = (text[i] | 32) >= 'a' && (text[i] | 32) <= 'z';
    if (!letter && text[i] != '_' && !(text[i] >= '0' && text[i] <= '9' && i > 0)) return true;
  }
  return i == 0 || i == 256;
}
#endif
