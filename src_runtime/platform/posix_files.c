/* files.h on POSIX systems.
 *
 * Thin wrappers of system calls: errors are reported by errno, which callers turn into error
 * texts. */
#define _XOPEN_SOURCE 700 /* nftw() */
#define _DARWIN_C_SOURCE  /* macOS: mkdtemp() */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "files.h"

/* Borrowed from the path; the path itself if it has no folder. */
const char* tvmrt__file_name(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

/* Absolute. NULL also if memory is exhausted. */
char* tvmrt__real_path(const char* path) { return realpath(path, NULL); }

/* NULL with errno. "b" matters on other systems only. */
FILE* tvmrt__open_to_read(const char* path) { return fopen(path, "rb"); }

/* "x" is C11's: fails if the file exists. */
FILE* tvmrt__create_file(const char* path) { return fopen(path, "wbx"); }

/* Atomic: a reader of the name sees the complete old or new file. Both names must be in one folder,
 * since files cannot be renamed across file systems. */
int tvmrt__replace_file(const char* from, const char* to) { return rename(from, to); }

/* Processes that have it open or mapped keep it. */
int tvmrt__remove_file(const char* path) { return unlink(path); }

/* The caller owns the result; released by free(). */
char* tvmrt__temporary_folder(void) {
  const char* folder = getenv(TVMRT_TEMPORARY_VARIABLE);
  return strdup(folder == NULL || folder[0] == '\0' ? "/tmp" : folder);
}

/* Private to this user, as by mkdtemp(): files uploaded there are loaded as code. */
int tvmrt__make_unique_folder(char* path) { return mkdtemp(path) == NULL ? -1 : 0; }

/* Entries that cannot be removed are left. Always 0, since another result would end the walk. */
static int remove_one(const char* path, const struct stat* status, int kind, struct FTW* where) {
  (void)status;
  (void)kind;
  (void)where;
  (void)remove(path);
  return 0;
}

/* Depth first, without following links. The walk uses at most 16 descriptors; deeper folders are
 * reopened. */
void tvmrt__remove_folder(const char* path) {
  (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Checked without opening: a later open may still fail, and is then reported. */
bool tvmrt__is_readable(const char* path) { return access(path, R_OK) == 0; }

/* A missing folder counts as empty. A non-zero result of `f` ends the walk. "." and ".." are among
 * the names. The folder may change meanwhile: new files may or may not be listed. */
int tvmrt__each_in_folder(const char* folder, int (*f)(void* ctx, const char* name), void* ctx) {
  DIR* dir = opendir(folder);
  const struct dirent* entry;
  int rc = 0;
  if (dir == NULL) return 0;
  while (rc == 0 && (entry = readdir(dir)) != NULL) rc = f(ctx, entry->d_name);
  (void)closedir(dir);
  return rc;
}

/* Not inherited by programs that this one starts. */
tvmrt_file tvmrt__file_open(const char* path) { return open(path, O_RDONLY | O_CLOEXEC); }

void tvmrt__file_close(tvmrt_file file) { (void)close((int)file); }

/* False also if the file is too short. pread() does not move the descriptor's position, so threads
 * may share it. */
bool tvmrt__file_read_at(tvmrt_file file, uint64_t at, void* out, size_t bytes) {
  const off_t offset = (off_t)at;
  if (offset < 0 || (uint64_t)offset != at) return false;
  return pread((int)file, out, bytes, offset) == (ssize_t)bytes;
}

/* These numbers differ for different files, and for one file before and after a change. Without the
 * fraction of a second, a file that is overwritten twice within one second, in place and with the
 * same length, looks unchanged. */
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
