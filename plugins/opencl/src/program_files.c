/* Binaries of programs on disk.
 *
 * A file contains the texts of its key and the binary, each as a u64 length and its bytes. Its name
 * is a hash of the key; the texts are compared on reading, so a hash collision is only a miss.
 * Files are written under another name and renamed. File errors are ignored. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "opencl.h"

#define NAME_BYTES 32 /* of a file name after its folder */

#define PATH_BYTES 4096

/* FNV-1a, which is sufficient for names, since the texts are compared as well. */
static uint64_t hash_text(uint64_t hash, const char* text) {
  for (; *text != '\0'; ++text) hash = (hash ^ (uint8_t)*text) * UINT64_C(1099511628211);
  return hash * UINT64_C(1099511628211); /* so that the boundary between texts matters */
}

/* Make a folder and its parents; return whether it exists. The path is modified temporarily. The
 * folder is accessible only to this user, since its files are loaded. */
static bool make_folder(char* path) {
  char* at;
  for (at = path + 1; *at != '\0'; ++at) {
    if (*at != '/') continue;
    *at = '\0';
    (void)mkdir(path, 0700);
    *at = '/';
  }
  return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* Find the file of a key; false if nothing is cached. The folder is the user's, else in the
 * desktop's cache folder, else in the home folder. An empty name disables the cache. Folders are
 * created here. `out` has PATH_BYTES. */
static bool find_file(const char* const* key, char* out) {
  const char* folder = getenv("TVMRT_OPENCL_CACHE");
  const char* cache = getenv("XDG_CACHE_HOME");
  const char* home = getenv("HOME");
  const size_t capacity = PATH_BYTES - NAME_BYTES;
  uint64_t hash = UINT64_C(14695981039346656037);
  size_t i;
  int n;
  if (folder != NULL) {
    n = snprintf(out, capacity, "%s", folder);
  } else if (cache != NULL && cache[0] == '/') {
    n = snprintf(out, capacity, "%s/tvmrt/opencl", cache);
  } else if (home != NULL && home[0] == '/') {
    n = snprintf(out, capacity, "%s/.cache/tvmrt/opencl", home);
  } else {
    return false;
  }
  if (n <= 0 || (size_t)n >= capacity || !make_folder(out)) return false;
  for (i = 0; key[i] != NULL; ++i) hash = hash_text(hash, key[i]);
  (void)snprintf(out + n, NAME_BYTES, "/%016llx.clbin", (unsigned long long)hash);
  return true;
}

/* A truncated or damaged file is a miss. */
static bool read_bytes(FILE* file, void* out, size_t size) {
  return size == 0 || fread(out, size, 1, file) == 1;
}

/* Whether the next string of the file equals `text`. Compared byte by byte, without allocating the
 * length claimed by the file. */
static bool read_and_compare(FILE* file, const char* text) {
  uint64_t size;
  size_t length = strlen(text), i;
  if (!read_bytes(file, &size, sizeof(size)) || size != length) return false;
  for (i = 0; i < length; ++i) {
    if (fgetc(file) != (uint8_t)text[i]) return false;
  }
  return true;
}

/* The driver checks the content of the binary. */
void* opencl_read_binary(const char* const* key, size_t* out_size) {
  char path[PATH_BYTES];
  FILE* file = find_file(key, path) ? fopen(path, "rb") : NULL;
  struct stat info;
  void* bytes = NULL;
  uint64_t size = 0;
  bool fits = file != NULL;
  size_t i;
  if (file == NULL) return NULL;
  for (i = 0; fits && key[i] != NULL; ++i) fits = read_and_compare(file, key[i]);
  fits = fits && read_bytes(file, &size, sizeof(size)) && fstat(fileno(file), &info) == 0 &&
         /* the length is only a claim */
         size > 0 && size <= (uint64_t)info.st_size;
  if (fits) bytes = malloc((size_t)size);
  if (bytes != NULL && !read_bytes(file, bytes, (size_t)size)) {
    free(bytes);
    bytes = NULL;
  }
  (void)fclose(file);
  *out_size = (size_t)size;
  return bytes;
}

/* In the machine's byte order, since files are used on one machine. */
static bool write_string(FILE* file, const void* bytes, size_t size) {
  uint64_t length = size;
  return fwrite(&length, sizeof(length), 1, file) == 1 &&
         (size == 0 || fwrite(bytes, size, 1, file) == 1);
}

/* The file is renamed when it is complete, since other processes may use the name at any moment. */
void opencl_write_binary(const char* const* key, const void* bytes, size_t size) {
  char path[PATH_BYTES], temporary[PATH_BYTES + 32];
  bool done = true;
  FILE* file;
  size_t i;
  if (!find_file(key, path)) return;
  /* unique per process, so simultaneous writers do not conflict */
  (void)snprintf(temporary, sizeof(temporary), "%s.%ld", path, (long)getpid());
  file = fopen(temporary, "wb");
  if (file == NULL) return;
  for (i = 0; done && key[i] != NULL; ++i) done = write_string(file, key[i], strlen(key[i]));
  done = done && write_string(file, bytes, size);
  if (fclose(file) != 0) done = false;
  if (!done || rename(temporary, path) != 0) (void)remove(temporary);
}
