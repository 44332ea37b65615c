/* files.h on POSIX systems.
 *
 * Calls of the system and little else: errors are told by errno, which callers turn into
 * sentences. */
#define _XOPEN_SOURCE 700 /* walks over folders */
#define _DARWIN_C_SOURCE  /* macOS: folders of temporary names */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "files.h"

/* Borrowed from the path; the path itself where it names no folder. */
const char* tvmrt__file_name(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

/* NULL with errno. "b" is for other systems' sake: here files are bytes anyway. */
FILE* tvmrt__open_to_read(const char* path) { return fopen(path, "rb"); }

/* "x" is C11's: fails where the file is there. */
FILE* tvmrt__create_file(const char* path) { return fopen(path, "wbx"); }

/* In one step: who opens the name sees the old file or the new one, whole. Both names lie in one
 * folder, since no file is renamed from one disk to another. */
int tvmrt__replace_file(const char* from, const char* to) { return rename(from, to); }

/* Whoever has it open or mapped keeps what he has. */
int tvmrt__remove_file(const char* path) { return unlink(path); }

/* The caller's to free. */
char* tvmrt__temporary_folder(void) {
  const char* folder = getenv(TVMRT_TEMPORARY_VARIABLE);
  return strdup(folder == NULL || folder[0] == '\0' ? "/tmp" : folder);
}

/* For this user alone, as mkdtemp() makes it: what is uploaded there is loaded as code. */
int tvmrt__make_unique_folder(char* path) { return mkdtemp(path) == NULL ? -1 : 0; }

/* What cannot be removed is left, and the walk goes on. What it returns would end the walk, so it
 * is 0 always. */
static int remove_one(const char* path, const struct stat* status, int kind, struct FTW* where) {
  (void)status;
  (void)kind;
  (void)where;
  (void)remove(path);
  return 0;
}

/* From inside out, and never through links to elsewhere. The walk holds 16 descriptors at most;
 * folders that lie deeper are opened again. */
void tvmrt__remove_folder(const char* path) {
  (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Asked without opening: what comes behind the answer may still fail, and is then told there. */
bool tvmrt__is_readable(const char* path) { return access(path, R_OK) == 0; }

/* No folder is an empty one. What `f` returns ends the walk where it is not 0. "." and ".." are
 * among the names. The folder may change meanwhile: whether a new file is shown is the system's
 * affair. */
int tvmrt__each_in_folder(const char* folder, int (*f)(void* ctx, const char* name), void* ctx) {
  DIR* dir = opendir(folder);
  const struct dirent* row;
  int rc = 0;
  if (dir == NULL) return 0;
  while (rc == 0 && (row = readdir(dir)) != NULL) rc = f(ctx, row->d_name);
  (void)closedir(dir);
  return rc;
}

/* Not handed on to programs that this one starts. */
tvmrt_file tvmrt__file_open(const char* path) { return open(path, O_RDONLY | O_CLOEXEC); }

void tvmrt__file_close(tvmrt_file file) { (void)close((int)file); }

/* False also where the file ends earlier. The descriptor has no place of its own that would move,
 * so threads may share it. */
bool tvmrt__file_read_at(tvmrt_file file, uint64_t at, void* out, size_t bytes) {
  const off_t place = (off_t)at;
  if (place < 0 || (uint64_t)place != at) return false;
  return pread((int)file, out, bytes, place) == (ssize_t)bytes;
}

/* Four numbers that differ wherever two files do, or one file before and after it was written.
 * Without the fraction of a second a file that is written over twice within one, in place and in
 * its length, looks like the same. */
bool tvmrt__file_identify(tvmrt_file file, tvmrt_file_id* out) {
  struct stat info;
  if (fstat((int)file, &info) != 0) return false;
  out->device = (uint64_t)info.st_dev;
  out->inode = (uint64_t)info.st_ino;
  out->size = (uint64_t)info.st_size;
  out->changed_s = (int64_t)info.st_mtime;
#if defined(__linux__)
  out->changed_ns = (int64_t)info.st_mtim.tv_nsec;
#else
  out->changed_ns = 0;
#endif
  return true;
}
