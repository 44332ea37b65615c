/* Libraries that export functions of tvm-ffi, `__tvm_ffi_<name>`.
 *
 * Their calls are converted by libtvmrt_tvm_ffi.so, which lies beside this library and is loaded with
 * the first of them. It also has the functions of libtvm_ffi that they call: where the process has no
 * libtvm_ffi, those are made visible before a library that asks for them is loaded, since a library
 * whose function raises its first error would end the process otherwise.
 */
#include "ffi_library.h"

#include <stdlib.h>
#include <string.h>

#include "../platform/elf.h"
#include "../platform/files.h"
#include "../platform/loading.h"
#include "../platform/threads.h"

static const char kBridge[] = TVMRT_LIBRARY_PREFIX "tvmrt_tvm_ffi" TVMRT_LIBRARY_SUFFIX;
static const char kPrefix[] = "__tvm_ffi_";
/* Two threads may meet their first function of tvm-ffi at once. */
static tvmrt_mutex start_lock = TVMRT_MUTEX_INIT;
static void* bridge; /* its handle, once it was started */

/* ---- the bridge ---- */

/* The bridge lies in the folder of the library that this code is in, found by the address of a
 * variable of it. Without a path the system looks where it looks for libraries. */
static int open_bridge(void** out) {
  tvmrt_buf path = {NULL, 0, 0};
  int (*start)(void) = NULL;
  void* symbol;
  const char* own = tvmrt__library_of(&bridge);
  int rc = -1;
  *out = NULL;
  if (own != NULL) {
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(&path, own, (size_t)(tvmrt__file_name(own) - own)));
  }
  if (tvmrt__buf_puts(&path, kBridge) == 0) {
    void* handle = tvmrt__library_load_file(path.data, TVMRT_LOAD_WHOLE);
    symbol = handle == NULL ? NULL : tvmrt__library_symbol(handle, "tvmrt_tvm_ffi_start");
    memcpy(&start, &symbol, sizeof(start));
    if (start == NULL) {
      (void)tvmrt__fail(
          "OSError: functions of tvm-ffi need %s, which lies beside libtvm_runtime.so where tvmrt "
          "is installed as a whole: %s.",
          kBridge, handle == NULL ? tvmrt__library_error() : "it has no tvmrt_tvm_ffi_start");
    } else if (start() == 0) {
      *out = handle; /* never closed: what it made may live to the end of the process */
      rc = 0;
    }
  }
  tvmrt__buf_free(&path);
  return rc;
}

/* Without the lock while it starts, since that calls the registry; who comes second opens it again. */
static int start_bridge(void** out) {
  void* made = NULL;
  int rc = 0;
  tvmrt__lock(&start_lock);
  *out = bridge;
  tvmrt__unlock(&start_lock);
  if (*out != NULL) return 0;
  rc = open_bridge(&made);
  if (rc != 0) return rc;
  tvmrt__lock(&start_lock);
  if (bridge == NULL) bridge = made;
  *out = bridge;
  tvmrt__unlock(&start_lock);
  return 0;
}

/* tvmrt.tvm_ffi.start(): enter the functions of the bridge in the registry. */
TVMRT_NATIVE(start) {
  void* handle;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 0, 0));
  return start_bridge(&handle);
}

/* ---- functions ---- */

/* NULL also without memory for the name: the function then counts as missing. */
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

/* *out is owned; NULL, and 0, where the library has no such function. It holds `owner`, whose code
 * it calls. */
int tvmrt__ffi_find(const tvmrt_library_source* source, tvmrt_module* owner, const char* name,
                    tvmrt_func** out) {
  static const char maker[] = "tvmrt.tvm_ffi.from_safe_call";
  const bool is_main = strcmp(name, "__tvm_main__") == 0;
  void* symbol = own_symbol(source, is_main ? "main" : name);
  TVMValue args[3], made;
  int codes[3] = {kTVMOpaqueHandle, kTVMNullptr, kTVMModuleHandle};
  int code = kTVMNullptr;
  void* handle;
  *out = NULL;
  if (symbol == NULL) return 0;
  TVMRT_RETURN_IF_ERROR(start_bridge(&handle));
  args[0].v_handle = symbol;
  args[1].v_handle = NULL;
  args[2].v_handle = owner;
  TVMRT_RETURN_IF_ERROR(tvmrt__global_call(maker, args, codes, 3, &made, &code));
  *out = made.v_handle;
  return 0;
}

/* What a library of tvm-ffi calls through variables that its loader fills. A bridge that cannot be
 * started leaves them NULL: the library's other functions work without. */
void tvmrt__ffi_fill_variables(const tvmrt_library_source* source) {
  static const char* const names[] = {"__TVMFFIErrorSetRaisedFromCStr", "__TVMFFIFunctionCall",
                                      "__TVMFFIHandleInitOnce"};
  void* handle = NULL;
  size_t i;
  for (i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
    size_t ignored;
    void** slot = source->symbol(source->ctx, names[i], &ignored);
    if (slot == NULL) continue;
    /* lint: a variable of the library */
    if (*slot != NULL || start_bridge(&handle) != 0) continue;
    *slot = tvmrt__library_symbol(handle, names[i] + 2);
  }
}

/* ---- what a library asks for ---- */

#if TVMRT_HAS_ELF
/* A damaged file may say any size: the names of real libraries are far below this. */
enum { MAX_NAMES_BYTES = 64 << 20 };

typedef struct elf_file {
  tvmrt_file file;
  ElfW(Ehdr) head;
} elf_file;

/* False where the file ends before: it is then left to the loader to tell. */
static bool read_at(const elf_file* file, uint64_t at, void* out, size_t bytes) {
  return tvmrt__file_read_at(file->file, at, out, bytes);
}

/* Where in the file an address of the image lies; or the segment of a type, at `address` 0. */
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

/* The names of the symbols that a library has or wants, malloc()ed and with a NUL at the end. The
 * size is the file's word, and bounded before memory is asked for. */
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

/* Libraries that are loaded later find what the bridge has. */
static int make_visible(void* handle) {
  if (tvmrt__library_show(handle)) return 0;
  return tvmrt__fail("OSError: %s cannot be made visible.", kBridge);
}

/* Make the functions visible that a library names, or say which of them there are not. */
static int supply(const char* path, const char* names, size_t size) {
  static const char prefix[] = "TVMFFI";
  void* handle = NULL;
  const char* name;
  for (name = names; name < names + size; name = tvmrt__next_name(name)) {
    if (strncmp(name, prefix, sizeof(prefix) - 1) != 0) continue;
    if (tvmrt__visible_symbol(name) != NULL) continue;
    if (handle == NULL) TVMRT_RETURN_IF_ERROR(start_bridge(&handle));
    if (tvmrt__library_symbol(handle, name) == NULL) {
      return tvmrt__fail(
          "OSError: %s needs the library of tvm-ffi, for %s: install apache-tvm-ffi and import "
          "tvm_ffi before, or load libtvm_ffi.so with RTLD_GLOBAL.",
          path, name);
    }
    if (make_visible(handle) != 0) return -1;
  }
  return 0;
}

/* Called before the library is opened: a function that nobody has would end the process when it
 * is first called. What is no ELF file passes. */
int tvmrt__ffi_prepare(const char* path) {
  elf_file file;
  char* names = NULL;
  size_t size = 0;
  int rc = 0;
  file.file = tvmrt__file_open(path);
  if (file.file == TVMRT_NO_FILE) return 0; /* dlopen() tells why */
  if (read_at(&file, 0, &file.head, sizeof(file.head)) &&
      memcmp(file.head.e_ident, ELFMAG, SELFMAG) == 0 &&
      file.head.e_phentsize == sizeof(ElfW(Phdr))) {
    names = read_names(&file, &size);
  }
  tvmrt__file_close(file.file);
  if (names != NULL) rc = supply(path, names, size);
  free(names);
  return rc;
}
#else
/* Only files of ELF are looked into; elsewhere the system's loader tells what is missing. */
int tvmrt__ffi_prepare(const char* path) {
  (void)path;
  return 0;
}
#endif

#define FUNCTIONS(X) X("tvmrt.tvm_ffi.start", start)
const tvmrt_builtins tvmrt__ffi_library_builtins = TVMRT_BUILTINS(FUNCTIONS);
