/* Libraries that export functions of tvm-ffi, `__tvm_ffi_<name>`, or call libtvm_ffi.
 *
 * A plug-in converts the calls of their functions; it is loaded by the first one. Loading a library
 * needs neither the plug-in nor libtvm_ffi: networks work without, through their packed functions. */
#include "ffi_library.h"

#include <stdlib.h>
#include <string.h>

#include "../platform/elf.h"
#include "../platform/files.h"
#include "../platform/threads.h"

static const char kPrefix[] = "__tvm_ffi_";

/* ---- the plug-in ---- */

/* Call a function of the plug-in. */
static int call_bridge(const char* function, TVMValue* args, int* codes, int count, void** out) {
  TVMValue made = {.v_handle = NULL};
  int code = kTVMNullptr;
  tvmrt_func* f = NULL;
  int rc;
  TVMRT_RETURN_IF_ERROR(tvmrt__global_get(function, &f));
  if (f == NULL) {
    return tvmrt__fail(
        "OSError: functions of tvm-ffi need the plug-in tvm_ffi, which this installation lacks; "
        "install a tvmrt that has it.");
  }
  rc = TVMFuncCall(f, args, codes, count, &made, &code);
  tvmrt__release(&f->base);
  *out = made.v_handle;
  return rc;
}

/* ---- functions ---- */

/* NULL also if memory for the name is exhausted: the function then counts as missing. */
static void* own_symbol(const tvmrt_library_source* source, const char* name) {
  tvmrt_buf full = {NULL, 0, 0};
  size_t ignored;
  void* symbol = NULL;
  if (tvmrt__buf_printf(&full, "%s%s", kPrefix, name) == 0) {
    symbol = source->symbol(source->ctx, full.data, &ignored);
  }
  tvmrt__buf_free(&full);
  /* lint: the address is the library's, only its size is not needed */
  return symbol;
}

/* Set the variables through which a library calls libtvm_ffi, before any of its functions is called
 * and when libtvm_ffi is loaded. */
static int fill_variables(const tvmrt_library_source* source) {
  static tvmrt_mutex lock = TVMRT_MUTEX_INIT; /* two threads may look up functions concurrently */
  static const char* const names[] = {"__TVMFFIErrorSetRaisedFromCStr", "__TVMFFIFunctionCall",
                                      "__TVMFFIHandleInitOnce"};
  const char* missing = NULL;
  size_t i;
  tvmrt__lock(&lock);
  for (i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
    size_t ignored;
    /* lint: a variable of the library */
    void** slot = source->symbol(source->ctx, names[i], &ignored);
    if (slot == NULL || *slot != NULL) continue;
    *slot = tvmrt__visible_symbol(names[i] + 2);
    if (*slot == NULL) missing = names[i] + 2;
  }
  tvmrt__unlock(&lock);
  if (missing == NULL) return 0;
  return tvmrt__fail(
      "OSError: a function of tvm-ffi needs %s, which no library shows: load libtvm_ffi with "
      "RTLD_GLOBAL, as import tvm_ffi does.",
      missing);
}

/* *out is owned, and retains `owner`, whose code it calls; NULL, with result 0, if the library has
 * no such function. */
int tvmrt__ffi_find(const tvmrt_library_source* source, tvmrt_module* owner, const char* name,
                    tvmrt_func** out) {
  const bool is_main = strcmp(name, "__tvm_main__") == 0;
  TVMValue args[2] = {{.v_handle = own_symbol(source, is_main ? "main" : name)},
                      {.v_handle = owner}};
  int codes[2] = {kTVMOpaqueHandle, kTVMModuleHandle};
  void* made = NULL;
  *out = NULL;
  if (args[0].v_handle == NULL) return 0;
  TVMRT_RETURN_IF_ERROR(call_bridge("tvmrt.tvm_ffi.from_safe_call", args, codes, 2, &made));
  if (fill_variables(source) != 0) {
    (void)TVMFuncFree(made); /* has no other user */
    return -1;
  }
  *out = made;
  return 0;
}

/* ---- undefined symbols of a library ---- */

#if TVMRT_HAS_ELF
/* A damaged file may state any size: string tables of real libraries are far smaller. */
enum { MAX_NAMES_BYTES = 64 << 20 };

typedef struct elf_file {
  tvmrt_file file;
  ElfW(Ehdr) head;
} elf_file;

/* False if the file is too short: the loader then reports that. */
static bool read_at(const elf_file* file, uint64_t at, void* out, size_t bytes) {
  return tvmrt__file_read_at(file->file, at, out, bytes);
}

/* The segment that contains an address of the image; or the first segment of a type, with `address`
 * 0. */
static bool find_segment(const elf_file* file, uint32_t type, uint64_t address, ElfW(Phdr) * out) {
  unsigned i;
  for (i = 0; i < file->head.e_phnum; ++i) {
    if (!read_at(file, file->head.e_phoff + (uint64_t)i * sizeof(*out), out, sizeof(*out))) break;
    if (out->p_type != type) continue;
    if (type != PT_LOAD || (address >= out->p_vaddr && address - out->p_vaddr < out->p_filesz)) {
      return true;
    }
  }
  return false;
}

/* The string table of a library's defined and undefined symbols, malloc()ed, with a NUL at its end.
 * The size in the file is bounded before memory is allocated. */
static char* read_names(const elf_file* file, size_t* out_size) {
  uint64_t at = 0, size = 0, i;
  ElfW(Phdr) dynamic, part;
  ElfW(Dyn) entry;
  char* names;
  if (!find_segment(file, PT_DYNAMIC, 0, &dynamic)) return NULL;
  for (i = 0; i < dynamic.p_filesz / sizeof(entry); ++i) {
    if (!read_at(file, dynamic.p_offset + i * sizeof(entry), &entry, sizeof(entry))) return NULL;
    if (entry.d_tag == DT_STRTAB) at = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRSZ) size = entry.d_un.d_val;
    if (entry.d_tag == DT_NULL) break;
  }
  if (size == 0 || size > MAX_NAMES_BYTES || !find_segment(file, PT_LOAD, at, &part)) return NULL;
  names = malloc((size_t)size + 1);
  if (names == NULL) return NULL;
  if (!read_at(file, part.p_offset + (at - part.p_vaddr), names, (size_t)size)) {
    free(names);
    return NULL;
  }
  names[size] = '\0';
  *out_size = (size_t)size;
  return names;
}

/* Whether a library's symbol table has names of libtvm_ffi that no loaded library provides. */
static bool lacks_symbols(const char* names, size_t size) {
  static const char prefix[] = "TVMFFI";
  const char* name;
  for (name = names; name < names + size; name = tvmrt__next_name(name)) {
    if (strncmp(name, prefix, sizeof(prefix) - 1) == 0 && tvmrt__visible_symbol(name) == NULL) {
      return true;
    }
  }
  return false;
}

/* Files that are not ELF, or cannot be read, are left to dlopen(). */
static bool needs_ffi(const char* path) {
  elf_file file;
  char* names = NULL;
  size_t size = 0;
  bool needed;
  file.file = tvmrt__file_open(path);
  if (file.file == TVMRT_NO_FILE) return false;
  if (read_at(&file, 0, &file.head, sizeof(file.head)) &&
      memcmp(file.head.e_ident, ELFMAG, SELFMAG) == 0 &&
      file.head.e_phentsize == sizeof(ElfW(Phdr))) {
    names = read_names(&file, &size);
  }
  tvmrt__file_close(file.file);
  needed = names != NULL && lacks_symbols(names, size);
  free(names);
  return needed;
}
#else
/* Only ELF files are inspected; other systems report missing functions when a library is loaded. */
static bool needs_ffi(const char* path) {
  (void)path;
  return false;
}
#endif

/* A missing function would end the process at its first call, so it is reported when the library is
 * loaded. Weak ones may be missing: without libtvm_ffi the library loads nevertheless. */
tvmrt_loading tvmrt__ffi_binding(const char* path) {
  void* ignored;
  if (!needs_ffi(path)) return TVMRT_LOAD_LAZY;
  (void)call_bridge("tvmrt.tvm_ffi.load", NULL, NULL, 0, &ignored); /* dlopen() says what lacks */
  return TVMRT_LOAD_NOW;
}

/* dlopen() names a function, or the file that the library is linked with. */
int tvmrt__ffi_explain(const char* path) {
  static const char kind[] = "OSError: ";
  const char* why = TVMGetLastError();
  if (strstr(why, "TVMFFI") == NULL && strstr(why, "libtvm_ffi") == NULL) return -1;
  if (strncmp(why, kind, sizeof(kind) - 1) == 0) why += sizeof(kind) - 1;
  return tvmrt__fail(
      "OSError: %.200s needs libtvm_ffi, which this process has not loaded: pip install "
      "apache-tvm-ffi and import tvm_ffi before, or load libtvm_ffi with RTLD_GLOBAL (%s)",
      path, why);
}
