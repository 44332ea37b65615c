/* Libraries that export functions of tvm-ffi, `__tvm_ffi_<name>`.
 *
 * A plug-in converts their calls; it is loaded by the first one. It also has the functions of
 * libtvm_ffi that such libraries call. If the process has no libtvm_ffi, these are made visible
 * before the library is loaded; otherwise the first error in one of its functions would end the
 * process. */
#include "ffi_library.h"

#include <stdlib.h>
#include <string.h>

#include "../platform/elf.h"
#include "../platform/files.h"
#include "../platform/loading.h"

static const char kPrefix[] = "__tvm_ffi_";

/* ---- the plug-in ---- */

/* Call a function of the plug-in; `name` NULL: without an argument. */
static int call_bridge(const char* function, const char* name, void** out) {
  TVMValue value = {.v_str = name};
  TVMValue made = {.v_handle = NULL};
  int type = kTVMStr;
  int code = kTVMNullptr;
  tvmrt_func* f = NULL;
  int rc;
  TVMRT_RETURN_IF_ERROR(tvmrt__global_get(function, &f));
  if (f == NULL) {
    return tvmrt__fail(
        "OSError: functions of tvm-ffi need the plug-in tvm_ffi, which this installation lacks.");
  }
  rc = TVMFuncCall(f, &value, &type, name == NULL ? 0 : 1, &made, &code);
  tvmrt__release(&f->base);
  if (out != NULL) *out = made.v_handle;
  return rc;
}

static int start_bridge(void) { return call_bridge("tvmrt.tvm_ffi.start", NULL, NULL); }

/* *out is NULL if the plug-in has no such function. */
static int bridge_symbol(const char* name, void** out) {
  return call_bridge("tvmrt.tvm_ffi.symbol", name, out);
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

/* *out is owned, and retains `owner`, whose code it calls; NULL, with result 0, if the library has
 * no such function. */
int tvmrt__ffi_find(const tvmrt_library_source* source, tvmrt_module* owner, const char* name,
                    tvmrt_func** out) {
  static const char maker[] = "tvmrt.tvm_ffi.from_safe_call";
  const bool is_main = strcmp(name, "__tvm_main__") == 0;
  void* symbol = own_symbol(source, is_main ? "main" : name);
  TVMValue args[3], made;
  int codes[3] = {kTVMOpaqueHandle, kTVMNullptr, kTVMModuleHandle};
  int code = kTVMNullptr;
  *out = NULL;
  if (symbol == NULL) return 0;
  TVMRT_RETURN_IF_ERROR(start_bridge());
  args[0].v_handle = symbol;
  args[1].v_handle = NULL;
  args[2].v_handle = owner;
  TVMRT_RETURN_IF_ERROR(tvmrt__global_call(maker, args, codes, 3, &made, &code));
  *out = made.v_handle;
  return 0;
}

/* Functions that a library of tvm-ffi calls through variables that its loader fills. If the plug-in
 * cannot be started they stay NULL: the library's other functions work without them. */
void tvmrt__ffi_fill_variables(const tvmrt_library_source* source) {
  static const char* const names[] = {"__TVMFFIErrorSetRaisedFromCStr", "__TVMFFIFunctionCall",
                                      "__TVMFFIHandleInitOnce"};
  size_t i;
  for (i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
    size_t ignored;
    /* lint: a variable of the library */
    void** slot = source->symbol(source->ctx, names[i], &ignored);
    if (slot == NULL) continue;
    if (*slot == NULL) (void)bridge_symbol(names[i] + 2, slot);
  }
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

/* Make the tvm-ffi functions that a library references visible, or report missing ones. */
static int provide_symbols(const char* path, const char* names, size_t size) {
  static const char prefix[] = "TVMFFI";
  void* own = NULL;
  const char* name;
  for (name = names; name < names + size; name = tvmrt__next_name(name)) {
    if (strncmp(name, prefix, sizeof(prefix) - 1) != 0) continue;
    if (tvmrt__visible_symbol(name) != NULL) continue;
    TVMRT_RETURN_IF_ERROR(bridge_symbol(name, &own));
    if (own == NULL) {
      return tvmrt__fail(
          "OSError: %s needs the library of tvm-ffi, for %s: install apache-tvm-ffi and import "
          "tvm_ffi before, or load libtvm_ffi.so with RTLD_GLOBAL.",
          path, name);
    }
    TVMRT_RETURN_IF_ERROR(call_bridge("tvmrt.tvm_ffi.show", NULL, NULL));
  }
  return 0;
}

/* Called before the library is opened: a missing function would end the process at its first call.
 * Files that are not ELF are accepted. */
int tvmrt__ffi_prepare(const char* path) {
  elf_file file;
  char* names = NULL;
  size_t size = 0;
  int rc = 0;
  file.file = tvmrt__file_open(path);
  if (file.file == TVMRT_NO_FILE) return 0; /* dlopen() reports the reason */
  if (read_at(&file, 0, &file.head, sizeof(file.head)) &&
      memcmp(file.head.e_ident, ELFMAG, SELFMAG) == 0 &&
      file.head.e_phentsize == sizeof(ElfW(Phdr))) {
    names = read_names(&file, &size);
  }
  tvmrt__file_close(file.file);
  if (names != NULL) rc = provide_symbols(path, names, size);
  free(names);
  return rc;
}
#else
/* Only ELF files are inspected; on other systems the loader reports missing functions. */
int tvmrt__ffi_prepare(const char* path) {
  (void)path;
  return 0;
}
#endif
