/*
 * Built programs of devices on disk.
 *
 * A file holds the texts of its key and the bytes, each as a u64 length and its bytes. Its name is a
 * hash of the key; the texts are compared when it is read, so that another entry under the same name is
 * no more than a miss. Files are written aside and renamed.
 */
#include "store.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_BYTES 64 /* of a file, behind its folder, while it is written too */

static uint64_t hash_text(uint64_t hash, const char* text) {
  for (; *text != '\0'; ++text) hash = (hash ^ (uint8_t)*text) * UINT64_C(1099511628211);
  return hash * UINT64_C(1099511628211); /* so that the texts' border counts */
}

/* Make a folder and those above it; whether it is there. */
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

bool store_entry_find(const store* of, const char* const* key, store_entry* out) {
  const char* folder = getenv(of->variable);
  const char* cache = getenv("XDG_CACHE_HOME");
  const char* home = getenv("HOME");
  const size_t room = sizeof(out->path) - NAME_BYTES;
  uint64_t hash = UINT64_C(14695981039346656037);
  size_t i;
  int n;
  out->key = key;
  if (folder != NULL) {
    n = snprintf(out->path, room, "%s", folder);
  } else if (cache != NULL && cache[0] == '/') {
    n = snprintf(out->path, room, "%s/tvmrt/%s", cache, of->name);
  } else if (home != NULL && home[0] == '/') {
    n = snprintf(out->path, room, "%s/.cache/tvmrt/%s", home, of->name);
  } else {
    return false;
  }
  if (n <= 0 || (size_t)n >= room || !make_folder(out->path)) return false;
  for (i = 0; key[i] != NULL; ++i) hash = hash_text(hash, key[i]);
  (void)snprintf(out->path + n, NAME_BYTES / 2, "/%016llx.%s", (unsigned long long)hash,
                 of->suffix);
  return true;
}

static bool read_bytes(FILE* file, void* out, size_t size) {
  return size == 0 || fread(out, size, 1, file) == 1;
}

/* Whether the next string of the file is this one. */
static bool read_same(FILE* file, const char* text) {
  uint64_t size;
  size_t length = strlen(text), i;
  if (!read_bytes(file, &size, sizeof(size)) || size != length) return false;
  for (i = 0; i < length; ++i) {
    if (fgetc(file) != (uint8_t)text[i]) return false;
  }
  return true;
}

void* store_entry_read(const store_entry* entry, size_t* out_bytes) {
  FILE* file = fopen(entry->path, "rb");
  struct stat info;
  void* bytes = NULL;
  uint64_t size = 0;
  bool fits = file != NULL;
  size_t i;
  if (file == NULL) return NULL;
  for (i = 0; fits && entry->key[i] != NULL; ++i) fits = read_same(file, entry->key[i]);
  fits = fits && read_bytes(file, &size, sizeof(size)) && fstat(fileno(file), &info) == 0 &&
         size > 0 && size <= (uint64_t)info.st_size;
  if (fits) bytes = malloc((size_t)size);
  if (bytes != NULL && !read_bytes(file, bytes, (size_t)size)) {
    free(bytes);
    bytes = NULL;
  }
  (void)fclose(file);
  *out_bytes = (size_t)size;
  return bytes;
}

static bool write_string(FILE* file, const void* bytes, size_t size) {
  uint64_t length = size;
  return fwrite(&length, sizeof(length), 1, file) == 1 &&
         (size == 0 || fwrite(bytes, size, 1, file) == 1);
}

void store_entry_write(const store_entry* entry, const void* bytes, size_t size) {
  char aside[sizeof(entry->path) + 32];
  bool done = true;
  FILE* file;
  size_t i;
  (void)snprintf(aside, sizeof(aside), "%s.%ld", entry->path, (long)getpid());
  file = fopen(aside, "wb");
  if (file == NULL) return;
  for (i = 0; done && entry->key[i] != NULL; ++i) {
    done = write_string(file, entry->key[i], strlen(entry->key[i]));
  }
  done = done && write_string(file, bytes, size);
  if (fclose(file) != 0) done = false;
  if (!done || rename(aside, entry->path) != 0) (void)remove(aside);
}
