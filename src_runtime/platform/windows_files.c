/* files.h on Windows.
 *
 * Paths are UTF-8 and may have either slash. errno is set as on other systems, since callers report
 * it. */
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "files.h"
#include "system.h"
#include "windows_api.h"

#define ASIDE L".tvmrt-aside" /* suffix of files that could not be removed */

static void remove_tree(const wchar_t* folder);

/* Borrowed from the path. A drive without a slash, as in "c:name", counts as a folder too. */
const char* tvmrt__file_name(const char* path) {
  const char* name = path;
  for (; *path != '\0'; ++path) {
    if (*path == '/' || *path == '\\' || *path == ':') name = path + 1;
  }
  return name;
}

/* Links are rare there, and kept. */
char* tvmrt__real_path(const char* path) { return _strdup(path); }

/* errno for the error of a Windows function; rare errors map to EIO. */
static void set_errno(void) {
  switch (GetLastError()) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
      errno = ENOENT;
      break;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
      errno = EACCES;
      break;
    case ERROR_DISK_FULL:
      errno = ENOSPC;
      break;
    default:
      errno = EIO;
  }
}

/* The path as a wide string, or NULL with errno. */
static wchar_t* wide_path(const char* path) {
  wchar_t* wide = tvmrt__utf8_to_wide(path);
  if (wide == NULL) errno = EINVAL;
  return wide;
}

/* "b": in text mode Windows ends a file at the first byte 26 and drops carriage returns. */
FILE* tvmrt__open_to_read(const char* path) {
  wchar_t* wide = wide_path(path);
  FILE* file = wide == NULL ? NULL : _wfopen(wide, L"rb");
  free(wide);
  return file;
}

/* Not by fopen()'s "x", which the older C library of Windows lacks. */
FILE* tvmrt__create_file(const char* path) {
  wchar_t* wide = wide_path(path);
  FILE* file;
  int fd = -1;
  if (wide == NULL) return NULL;
  fd = _wopen(wide, _O_CREAT | _O_EXCL | _O_WRONLY | _O_BINARY, _S_IREAD | _S_IWRITE);
  free(wide);
  if (fd < 0) return NULL;
  file = _fdopen(fd, "wb");
  if (file == NULL) (void)_close(fd);
  return file;
}

/* A loaded library cannot be removed or overwritten, but renamed: it stays in the same folder until
 * that is removed, under a name that folder listings skip. Process id and count make the name
 * unique across threads and processes. */
static bool rename_away(const wchar_t* path) {
  static volatile LONG count;
  const size_t capacity = wcslen(path) + 48;
  wchar_t* other = malloc(capacity * sizeof(*other));
  bool done;
  if (other == NULL) return false;
  (void)_snwprintf(other, capacity, L"%ls.%lu.%ld" ASIDE, path, GetCurrentProcessId(),
                   InterlockedIncrement(&count));
  done = MoveFileExW(path, other, 0);
  free(other);
  return done;
}

/* A file that is in use as a library is renamed first, then the new file takes its name. This is
 * not atomic: for a moment there is no such file, and if the second step fails the old one keeps
 * the temporary name. */
int tvmrt__replace_file(const char* from, const char* to) {
  wchar_t* old = wide_path(from);
  wchar_t* new = wide_path(to);
  int rc = -1;
  if (old != NULL && new != NULL) {
    if (MoveFileExW(old, new, MOVEFILE_REPLACE_EXISTING) ||
        (rename_away(new) && MoveFileExW(old, new, 0))) {
      rc = 0;
    } else {
      set_errno();
    }
  }
  free(old);
  free(new);
  return rc;
}

/* A loaded library is renamed instead: callers only need its name to be free. */
int tvmrt__remove_file(const char* path) {
  wchar_t* wide = wide_path(path);
  int rc = -1;
  if (wide != NULL) {
    if (DeleteFileW(wide) || (GetLastError() != ERROR_FILE_NOT_FOUND && rename_away(wide))) {
      rc = 0;
    } else {
      set_errno();
    }
  }
  free(wide);
  return rc;
}

/* The caller owns the result; released by free(). A wide character takes at most 3 bytes of UTF-8.
 * The fallback is the current folder. */
char* tvmrt__temporary_folder(void) {
  wchar_t wide[MAX_PATH + 1];
  const DWORD size = GetTempPathW(MAX_PATH + 1, wide);
  char* path = malloc((MAX_PATH + 1) * 3);
  size_t end;
  if (path == NULL) return NULL;
  if (size == 0 || size > MAX_PATH || !tvmrt__wide_to_utf8(wide, path, (MAX_PATH + 1) * 3)) {
    memcpy(path, ".", 2);
  }
  end = strlen(path);
  if (end > 3 && path[end - 1] == '\\') path[end - 1] = '\0'; /* not of a drive */
  return path;
}

/* Temporary folders are private to the user there. 32 letters, so each takes 5 bits of the number.
 * Retries only if the name was taken. */
int tvmrt__make_unique_folder(char* path) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz012345";
  char* end = path + strlen(path) - 6;
  int attempt;
  for (attempt = 0; attempt < 100; ++attempt) {
    uint64_t bits = tvmrt__random_number();
    wchar_t* wide;
    bool made;
    int i;
    for (i = 0; i < 6; ++i, bits >>= 5) end[i] = letters[bits & 31];
    wide = wide_path(path);
    if (wide == NULL) return -1;
    made = CreateDirectoryW(wide, NULL);
    free(wide);
    if (made) return 0;
    if (GetLastError() != ERROR_ALREADY_EXISTS) break;
  }
  set_errno();
  return -1;
}

/* Remove one entry of a folder, with its contents unless it is a link. Of a link only the entry is
 * removed, not its target. If memory for the path is exhausted, the entry is left. */
static void remove_entry(const wchar_t* folder, const WIN32_FIND_DATAW* entry) {
  const size_t capacity = wcslen(folder) + wcslen(entry->cFileName) + 2;
  const bool is_folder = (entry->dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
  wchar_t* path;
  if (wcscmp(entry->cFileName, L".") == 0 || wcscmp(entry->cFileName, L"..") == 0) return;
  path = malloc(capacity * sizeof(*path));
  if (path == NULL) return;
  (void)_snwprintf(path, capacity, L"%ls/%ls", folder, entry->cFileName);
  if (!is_folder) {
    (void)DeleteFileW(path);
  } else if ((entry->dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0) {
    (void)RemoveDirectoryW(path);
  } else {
    remove_tree(path);
  }
  free(path);
}

/* Files that cannot be removed, such as libraries in use, are left. */
static void remove_tree(const wchar_t* folder) {
  const size_t capacity = wcslen(folder) + 3;
  wchar_t* pattern = malloc(capacity * sizeof(*pattern));
  WIN32_FIND_DATAW entry;
  HANDLE search;
  if (pattern == NULL) return;
  (void)_snwprintf(pattern, capacity, L"%ls/*", folder);
  search = FindFirstFileW(pattern, &entry);
  free(pattern);
  if (search != INVALID_HANDLE_VALUE) {
    do {
      remove_entry(folder, &entry);
    } while (FindNextFileW(search, &entry));
    (void)FindClose(search);
  }
  (void)RemoveDirectoryW(folder);
}

/* A path of invalid UTF-8 cannot exist here. */
void tvmrt__remove_folder(const char* path) {
  wchar_t* wide = wide_path(path);
  if (wide != NULL) remove_tree(wide);
  free(wide);
}

/* By opening it: the system's query checks only the read-only attribute. */
bool tvmrt__is_readable(const char* path) {
  const tvmrt_file file = tvmrt__file_open(path);
  if (file == TVMRT_NO_FILE) return false;
  tvmrt__file_close(file);
  return true;
}

/* Renamed files in use are skipped, and names that cannot be converted to UTF-8. */
static int for_each_file(const wchar_t* pattern, int (*f)(void* ctx, const char* name), void* ctx) {
  WIN32_FIND_DATAW entry;
  HANDLE search = FindFirstFileW(pattern, &entry);
  char name[MAX_PATH * 3 + 1];
  int rc = 0;
  if (search == INVALID_HANDLE_VALUE) return 0;
  do {
    if (wcsstr(entry.cFileName, ASIDE) != NULL) continue;
    if (tvmrt__wide_to_utf8(entry.cFileName, name, sizeof(name))) rc = f(ctx, name);
  } while (rc == 0 && FindNextFileW(search, &entry));
  (void)FindClose(search);
  return rc;
}

/* Either slash works before the asterisk. If memory is exhausted, the folder counts as empty. */
int tvmrt__each_in_folder(const char* folder, int (*f)(void* ctx, const char* name), void* ctx) {
  const size_t size = strlen(folder);
  char* pattern = malloc(size + 3);
  wchar_t* wide;
  int rc = 0;
  if (pattern == NULL) return 0;
  memcpy(pattern, folder, size);
  memcpy(pattern + size, "/*", 3);
  wide = tvmrt__utf8_to_wide(pattern);
  free(pattern);
  if (wide != NULL) rc = for_each_file(wide, f, ctx);
  free(wide);
  return rc;
}

/* Other processes may write, rename or remove the file meanwhile, as on other systems. */
tvmrt_file tvmrt__file_open(const char* path) {
  const DWORD share = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
  wchar_t* wide = wide_path(path);
  HANDLE file = INVALID_HANDLE_VALUE;
  if (wide != NULL) {
    file = CreateFileW(wide, GENERIC_READ, share, NULL, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, NULL);
  }
  free(wide);
  return file == INVALID_HANDLE_VALUE ? TVMRT_NO_FILE : (tvmrt_file)file;
}

void tvmrt__file_close(tvmrt_file file) { (void)CloseHandle((HANDLE)file); }

/* The structure only passes the position, as the handle is not asynchronous. At most 2 GiB, since
 * the system counts in 32 bits; no caller reads more. */
bool tvmrt__file_read_at(tvmrt_file file, uint64_t at, void* out, size_t bytes) {
  OVERLAPPED offset = {0};
  DWORD num_read = 0;
  if (bytes > 0x7fffffff) return false;
  offset.Offset = (DWORD)at;
  offset.OffsetHigh = (DWORD)(at >> 32);
  return ReadFile((HANDLE)file, out, (DWORD)bytes, &num_read, &offset) && num_read == bytes;
}

/* As on other systems; ticks count from 1601, which is irrelevant for comparisons. */
bool tvmrt__file_identify(tvmrt_file file, tvmrt_file_id* out) {
  BY_HANDLE_FILE_INFORMATION info;
  uint64_t ticks; /* of 100 ns */
  if (!GetFileInformationByHandle((HANDLE)file, &info)) return false;
  ticks = (uint64_t)info.ftLastWriteTime.dwHighDateTime << 32 | info.ftLastWriteTime.dwLowDateTime;
  out->device = info.dwVolumeSerialNumber;
  out->inode = (uint64_t)info.nFileIndexHigh << 32 | info.nFileIndexLow;
  out->size = (uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow;
  out->changed_s = (int64_t)(ticks / 10000000);
  out->changed_ns = (int64_t)(ticks % 10000000) * 100;
  return true;
}
