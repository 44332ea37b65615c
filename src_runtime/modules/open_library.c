/* Opening a file as a shared library, ensuring that the current file of the path is loaded.
 *
 * dlopen() compares the path before the file: if an older library of that path is still in use, it
 * returns that one. So the file's identity is kept with each handle, and another spelling of the
 * path is tried if the handle belongs to another file: dlopen() then compares the file itself, and
 * shares an already loaded one. A spelling is an ordinary path, so debuggers, profilers and $ORIGIN
 * work. */
#include <inttypes.h>
#include <string.h>

#include "../platform/elf.h"
#include "../platform/loading.h"
#include "module.h"

/* Maximum number of libraries of one path in use at once, approximately. */
enum { MAX_SPELLINGS = TVMRT_PATHS_HAVE_SPELLINGS ? 4096 : 1 };

/* "/a/b.so", "/a/./b.so", "/a//./b.so", ...: the number in binary, with "/" for 0 and "./" for
 * 1. */
static int format_path(const char* path, unsigned number, tvmrt_buf* out) {
  const char* name = tvmrt__file_name(path);
  out->size = 0;
  /* A name without a folder would be searched in the system's folders: a file is meant. */
  TVMRT_RETURN_IF_ERROR(name == path ? tvmrt__buf_puts(out, "./")
                                     : tvmrt__buf_append(out, path, (size_t)(name - path)));
  for (; number != 0; number >>= 1) {
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, (number & 1) != 0 ? "./" : "/"));
  }
  return tvmrt__buf_puts(out, name);
}

/* A file that was renamed into place has another inode; an overwritten one has another time or
 * size. */
static bool same_file(const tvmrt_file_id* a, const tvmrt_file_id* b) {
  return a->device == b->device && a->inode == b->inode;
}

/* A file that was overwritten in place keeps its inode: only size and time differ. */
static bool same_bytes(const tvmrt_file_id* a, const tvmrt_file_id* b) {
  return a->size == b->size && a->changed_s == b->changed_s && a->changed_ns == b->changed_ns;
}

#if TVMRT_HAS_ELF
#if defined(__x86_64__)
enum { OWN_MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { OWN_MACHINE = EM_AARCH64 };
#elif defined(__riscv)
enum { OWN_MACHINE = EM_RISCV };
#elif defined(__arm__)
enum { OWN_MACHINE = EM_ARM };
#else
enum { OWN_MACHINE = EM_NONE };
#endif

/* Names as in this project's targets. */
static const char* machine_name(unsigned machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "aarch64";
    case EM_RISCV:
      return "riscv64";
    case EM_ARM:
      return "32-bit ARM";
    default:
      return "another processor";
  }
}

/* For a file of another machine dlopen() reports that there is no such file. */
static int check_machine(const ElfW(Ehdr) * head, const tvmrt_open_options* options) {
  if (OWN_MACHINE == EM_NONE || head->e_machine == OWN_MACHINE) return 0;
  return tvmrt__fail(
      "OSError: %s %s: it is for %s, this machine is %s; compile it for the target "
      "that it is loaded on.",
      options->failed, options->path, machine_name(head->e_machine), machine_name(OWN_MACHINE));
}

/* The system whose linker writes files with this first word; NULL for all others. */
static const char* system_of(const unsigned char* ident) {
  static const struct {
    unsigned char magic[4];
    size_t size;
    const char* name;
  } formats[] = {
      {{'M', 'Z', 0, 0}, 2, "Windows"},
      {{0xcf, 0xfa, 0xed, 0xfe}, 4, "macOS"},
      {{0xce, 0xfa, 0xed, 0xfe}, 4, "macOS"},
      {{0xca, 0xfe, 0xba, 0xbe}, 4, "macOS"},
  };
  size_t i;
  for (i = 0; i < sizeof(formats) / sizeof(formats[0]); ++i) {
    if (memcmp(ident, formats[i].magic, formats[i].size) == 0) return formats[i].name;
  }
  return NULL;
}

#if defined(__linux__)
#define OWN_SYSTEM "Linux "
#else
#define OWN_SYSTEM ""
#endif

static int check_system(const ElfW(Ehdr) * head, const tvmrt_open_options* options) {
  const char* name = system_of(head->e_ident);
  if (name == NULL) return 0;
  return tvmrt__fail("OSError: %s %s: it is a library for %s, this machine is " OWN_SYSTEM
                     "%s; compile it for this machine, which is the default target.",
                     options->failed, options->path, name, machine_name(OWN_MACHINE));
}

/* Accessing a mapping beyond the end of its file raises a signal; dlopen() does not check. */
static int check_complete(tvmrt_file file, uint64_t size, const tvmrt_open_options* options) {
  ElfW(Ehdr) head;
  ElfW(Phdr) part;
  unsigned i;
  if (!tvmrt__file_read_at(file, 0, &head, sizeof(head))) return 0; /* dlopen() reports it */
  if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return check_system(&head, options);
  TVMRT_RETURN_IF_ERROR(check_machine(&head, options));
  if (head.e_phentsize != sizeof(part)) return 0;
  for (i = 0; i < head.e_phnum; ++i) {
    const uint64_t at = head.e_phoff + (uint64_t)i * sizeof(part);
    if (!tvmrt__file_read_at(file, at, &part, sizeof(part))) break;
    if (part.p_type != PT_LOAD || (part.p_offset <= size && part.p_filesz <= size - part.p_offset))
      continue;
    return tvmrt__fail("OSError: %s %s: it is truncated: %" PRIu64
                       " bytes are expected, the file has %" PRIu64 "; export or copy it again.",
                       options->failed, options->path, (uint64_t)(part.p_offset + part.p_filesz),
                       size);
  }
  return 0;
}
#else
static int check_complete(tvmrt_file file, uint64_t size, const tvmrt_open_options* options) {
  (void)file;
  (void)size;
  (void)options;
  return 0;
}
#endif

/* Identity of the file at a path; all zero if it cannot be read, which dlopen() reports better. */
static int identify(const char* spelling, const tvmrt_open_options* options, tvmrt_file_id* out) {
  const tvmrt_file file = tvmrt__file_open(spelling);
  int rc = 0;
  memset(out, 0, sizeof(*out));
  if (file == TVMRT_NO_FILE) return 0;
  if (tvmrt__file_identify(file, out)) rc = check_complete(file, out->size, options);
  tvmrt__file_close(file);
  return rc;
}

/* Whether a library is loaded under this spelling of its path. */
static bool is_taken(const char* spelling) {
  void* handle = tvmrt__library_load_file(spelling, TVMRT_LOAD_IF_LOADED);
  if (handle == NULL) return false;
  tvmrt__library_unload(handle);
  return true;
}

/* Whether `handle` belongs to the file `now`. The file of a library loaded by other code is
 * unknown, unless dlopen() compared the file, as it does for a new spelling. */
static int check_handle(void* handle, bool was_taken, const tvmrt_file_id* now,
                        const tvmrt_open_options* options, bool* out_right) {
  tvmrt_file_id known;
  *out_right = !was_taken;
  if (!options->file_of(handle, &known)) return 0;
  *out_right = same_file(&known, now) && same_bytes(&known, now);
  if (!same_file(&known, now) || *out_right) return 0;
  return tvmrt__fail(
      "OSError: %s was overwritten while it was loaded, and cannot be used; release everything "
      "loaded from it and load it again. Replace libraries by renaming, as export_library does.",
      options->path);
}

/* Open the path in one spelling; *out_handle is NULL if that gives another file. */
static int try_spelling(const char* spelling, const tvmrt_open_options* options, bool is_first,
                        void** out_handle, tvmrt_file_id* out_id) {
  tvmrt_file_id after;
  bool was_taken;
  bool right = false;
  void* handle;
  int rc;
  *out_handle = NULL;
  TVMRT_RETURN_IF_ERROR(identify(spelling, options, out_id));
  was_taken = is_first && is_taken(spelling);
  handle = tvmrt__library_load_file(spelling, options->loading);
  if (handle == NULL) {
    return tvmrt__fail("OSError: %s %s: %s.", options->failed, options->path,
                       tvmrt__library_error());
  }
  rc = identify(spelling, options, &after);
  if (rc == 0) rc = check_handle(handle, was_taken, out_id, options, &right);
  if (rc == 0 && right && same_file(&after, out_id) && same_bytes(&after, out_id)) {
    *out_handle = handle;
    return 0;
  }
  tvmrt__library_unload(handle);
  return rc;
}

/* The first spelling is the path itself, and nearly always right. *out_handle is owned by the
 * caller; *out_id identifies its file. Tries again if the path is replaced meanwhile. */
int tvmrt__map_library(const tvmrt_open_options* options, void** out_handle,
                       tvmrt_file_id* out_id) {
  tvmrt_buf spelling = {NULL, 0, 0};
  unsigned i;
  int rc = 0;
  *out_handle = NULL;
  for (i = 0; rc == 0 && *out_handle == NULL && i < MAX_SPELLINGS; ++i) {
    rc = format_path(options->path, i, &spelling);
    if (rc == 0) rc = try_spelling(spelling.data, options, i == 0, out_handle, out_id);
  }
  tvmrt__buf_free(&spelling);
  if (rc == 0 && *out_handle == NULL && MAX_SPELLINGS == 1) {
    return tvmrt__fail(
        "OSError: %s %s: an older library with this path is in use; release everything loaded from "
        "it, or rename the new file.",
        options->failed, options->path);
  }
  if (rc == 0 && *out_handle == NULL) {
    rc = tvmrt__fail(
        "OSError: %s %s: %d older libraries of that path are in use, or it is being replaced "
        "constantly.",
        options->failed, options->path, MAX_SPELLINGS);
  }
  return rc;
}
