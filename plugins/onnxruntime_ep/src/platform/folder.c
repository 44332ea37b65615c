/* Permissions of folders. */
#include <sys/stat.h>

#include "../job.h"

bool is_open_to_others(const char* folder) {
  struct stat info;
  return stat(folder, &info) == 0 && (info.st_mode & S_IWOTH) != 0 && (info.st_mode & S_ISVTX) == 0;
}
