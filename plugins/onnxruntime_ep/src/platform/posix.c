#include "posix.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

const char* temporary_folder(void) {
  const char* folder = getenv("TMPDIR");
  return folder != NULL && folder[0] != '\0' ? folder : "/tmp";
}

int write_temporary_library(char* path, const void* data, size_t size) {
  const int file = mkstemps(path, sizeof(".so") - 1);
  const char* at = data;
  int error = file < 0 ? errno : 0;
  while (error == 0 && size > 0) {
    const ssize_t written = write(file, at, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      error = written < 0 ? errno : EIO;
      break;
    }
    at += written;
    size -= (size_t)written;
  }
  if (file >= 0 && close(file) != 0 && error == 0) error = errno;
  if (file >= 0 && error != 0) (void)unlink(path);
  return error;
}

long process_number(void) { return (long)getpid(); }

void remove_file(const char* path) { (void)unlink(path); }

bool keep_library(const void* function) {
  const int mode = RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE;
  Dl_info info;
  return dladdr(function, &info) != 0 && dlopen(info.dli_fname, mode) != NULL;
}
