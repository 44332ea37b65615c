/* files.h on Windows. */
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "files.h"
#include "windows_api.h"

const char* tvmrt__file_name(const char* path) {
  const char* name = path;
  for (; *path != '\0'; ++path) {
    if (*path == '/' || *path == '\\' || *path == ':') name = path + 1;
  }
  return name;
}

/* errno for what a call of Windows' own failed with. */
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

/* The path, or NULL with errno. */
static wchar_t* wide_path(const char* path) {
  wchar_t* wide = tvmrt__wide(path);
  if (wide == NULL) errno = EINVAL;
  return wide;
}

FILE* tvmrt__open_to_read(const char* path) {
  wchar_t* wide = wide_path(path);
  FILE* file = wide == NULL ? NULL : _wfopen(wide, L"rb");
  free(wide);
  return file;
}

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

int tvmrt__replace_file(const char* from, const char* to) {
  wchar_t* old = wide_path(from);
  wchar_t* new = wide_path(to);
  int rc = -1;
  if (old != NULL && new != NULL) {
    if (MoveFileExW(old, new, MOVEFILE_REPLACE_EXISTING)) {
      rc = 0;
    } else {
      set_errno();
    }
  }
  free(old);
  free(new);
  return rc;
}

bool tvmrt__is_readable(const char* path) {
  const tvmrt_file file = tvmrt__file_open(path);
  if (file == TVMRT_NO_FILE) return false;
  tvmrt__file_close(file);
  return true;
}

static int each(const wchar_t* pattern, int (*f)(void* ctx, const char* name), void* ctx) {
  WIN32_FIND_DATAW row;
  HANDLE search = FindFirstFileW(pattern, &row);
  char name[MAX_PATH * 3 + 1];
  int rc = 0;
  if (search == INVALID_HANDLE_VALUE) return 0;
  do {
    if (tvmrt__narrow(row.cFileName, name, sizeof(name))) rc = f(ctx, name);
  } while (rc == 0 && FindNextFileW(search, &row));
  (void)FindClose(search);
  return rc;
}

int tvmrt__each_in_folder(const char* folder, int (*f)(void* ctx, const char* name), void* ctx) {
  const size_t size = strlen(folder);
  char* pattern = malloc(size + 3);
  wchar_t* wide;
  int rc = 0;
  if (pattern == NULL) return 0;
  memcpy(pattern, folder, size);
  memcpy(pattern + size, "/*", 3);
  wide = tvmrt__wide(pattern);
  free(pattern);
  if (wide != NULL) rc = each(wide, f, ctx);
  free(wide);
  return rc;
}

/* Others may write, rename or remove the file meanwhile, as they may elsewhere. */
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

bool tvmrt__file_read_at(tvmrt_file file, uint64_t at, void* out, size_t bytes) {
  OVERLAPPED place = {0};
  DWORD got = 0;
  if (bytes > 0x7fffffff) return false;
  place.Offset = (DWORD)at;
  place.OffsetHigh = (DWORD)(at >> 32);
  return ReadFile((HANDLE)file, out, (DWORD)bytes, &got, &place) && got == bytes;
}

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
