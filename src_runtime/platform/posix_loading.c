/* loading.h by dlopen().
 *
 * Handles are dlopen()'s and counted by it. What only glibc knows (sizes and kinds of symbols) has
 * a guess for other C libraries, good enough for the symbols of generated libraries. */
#define _GNU_SOURCE      /* glibc: symbols' sizes, what all libraries see */
#define _DARWIN_C_SOURCE /* macOS: libraries of addresses */
#include <dlfcn.h>

#include "loading.h"

#if defined(__linux__)
#include <link.h>
#endif

/* Local always: names of one network must not answer for those of another. A library that is
 * loaded again is counted, whatever the mode; RTLD_NOLOAD counts, too. */
void* tvmrt__library_load_file(const char* path, tvmrt_loading how) {
  static const int modes[] = {
      [TVMRT_LOAD_LAZILY] = RTLD_LAZY | RTLD_LOCAL,
      [TVMRT_LOAD_WHOLE] = RTLD_NOW | RTLD_LOCAL,
      [TVMRT_LOAD_IF_LOADED] = RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD,
  };
  return dlopen(path, modes[how]);
}

/* What it fails with helps nobody: the handle is gone for the caller either way. */
void tvmrt__library_unload(void* handle) { (void)dlclose(handle); }

void* tvmrt__library_symbol(void* handle, const char* name) { return dlsym(handle, name); }

/* Of this thread's last call, once: dlerror() forgets what it has told. */
const char* tvmrt__library_error(void) {
  const char* text = dlerror();
  return text == NULL ? "unknown reason" : text;
}

/* Opened again under the path that the loader knows it by, as global; the count that this adds is
 * never given back. */
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

/* Whatever the program or a library that was shown has under the name; NULL if nothing. */
void* tvmrt__visible_symbol(const char* name) { return dlsym(RTLD_DEFAULT, name); }

/* The path as the loader has it, which lives as long as the library. */
const char* tvmrt__library_of(const void* address) {
  Dl_info info;
  return dladdr(address, &info) == 0 ? NULL : info.dli_fname;
}

#if defined(__GLIBC__)
/* From the library's own symbol table. dladdr1() finds the nearest symbol below an address: one
 * that does not begin there is another. */
static const ElfW(Sym) * elf_symbol(void* address) {
  Dl_info info;
  void* entry = NULL;
  if (dladdr1(address, &info, &entry, RTLD_DL_SYMENT) == 0 || info.dli_saddr != address)
    return NULL;
  return entry;
}

/* As the linker wrote it; who uses a size from a file compares it with what the file holds. */
size_t tvmrt__symbol_bytes(void* address) {
  const ElfW(Sym)* sym = elf_symbol(address);
  return sym == NULL ? 0 : (size_t)sym->st_size;
}

/* Some names are a function of one compiler and a text of another, as __tvm_main__ is. What no
 * table knows is taken for code, as most names are. */
bool tvmrt__symbol_is_function(void* address) {
  const ElfW(Sym)* sym = elf_symbol(address);
  return sym == NULL || (sym->st_info & 0xf) != STT_OBJECT;
}
#else
/* Not known: constants are then copied, as nothing shows that they lie in the library. */
size_t tvmrt__symbol_bytes(void* address) {
  (void)address;
  return 0;
}

/* A name in C of fewer than 256 letters and its NUL are a text. Instructions look like one by
 * chance alone, and only where a NUL ends them. */
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
