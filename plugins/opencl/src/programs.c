/* Built programs of a device.
 *
 * A file holds the texts of its key and the bytes, each as a u64 length and its bytes. Its name
 * is a hash of the key; the texts are compared when it is read, so that another entry under the
 * same name is no more than a miss. Files are written aside and renamed. Nothing about them is an
 * error. */
#include "programs.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "told.h"

/* Files --------------------------------------------------------------------------------------- */

#define NAME_BYTES 64 /* of a file, behind its folder, while it is written too */

typedef struct {
  char path[4096];
  const char* const* key; /* ends with NULL */
} entry;

/* FNV-1a: short, and good enough for names, as the texts themselves are compared. */
static uint64_t hash_text(uint64_t hash, const char* text) {
  for (; *text != '\0'; ++text) hash = (hash ^ (uint8_t)*text) * UINT64_C(1099511628211);
  return hash * UINT64_C(1099511628211); /* so that the texts' border counts */
}

/* Make a folder and those above it; whether it is there. The path is written to and is whole
 * again afterwards. For this user alone: what lies there is loaded. */
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

/* False if nothing is to be kept. Where the user says, else where the desktop keeps caches, else
 * in the home folder. An empty name turns keeping off. A path that is too long is none. Folders
 * are made here, also for a program that is then found. */
static bool find_entry(const program_store* of, const char* const* key, entry* out) {
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

/* A file that ends early is a miss, as one that is damaged. */
static bool read_bytes(FILE* file, void* out, size_t size) {
  return size == 0 || fread(out, size, 1, file) == 1;
}

/* Whether the next string of the file is this one. Byte by byte, without memory for a text of any
 * length that a file may claim. */
static bool read_same(FILE* file, const char* text) {
  uint64_t size;
  size_t length = strlen(text), i;
  if (!read_bytes(file, &size, sizeof(size)) || size != length) return false;
  for (i = 0; i < length; ++i) {
    if (fgetc(file) != (uint8_t)text[i]) return false;
  }
  return true;
}

/* NULL if there is none that fits. The bytes are the caller's (free()). What they say is the
 * driver's affair: it refuses what it did not write. */
static void* read_entry(const entry* e, size_t* out_bytes) {
  FILE* file = fopen(e->path, "rb");
  struct stat info;
  void* bytes = NULL;
  uint64_t size = 0;
  bool fits = file != NULL;
  size_t i;
  if (file == NULL) return NULL;
  for (i = 0; fits && e->key[i] != NULL; ++i) fits = read_same(file, e->key[i]);
  fits = fits && read_bytes(file, &size, sizeof(size)) && fstat(fileno(file), &info) == 0 &&
         /* a length is only a claim */
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

/* In the machine's own byte order: files are of one machine. */
static bool write_string(FILE* file, const void* bytes, size_t size) {
  uint64_t length = size;
  return fwrite(&length, sizeof(length), 1, file) == 1 &&
         (size == 0 || fwrite(bytes, size, 1, file) == 1);
}

/* What fails here is made again another time. Renamed when it is whole, since other processes may
 * read or write the same name at any moment. */
static void write_entry(const entry* e, const void* bytes, size_t size) {
  char aside[sizeof(e->path) + 32];
  bool done = true;
  FILE* file;
  size_t i;
  /* a name of this process's own: two that write at once do not mix */
  (void)snprintf(aside, sizeof(aside), "%s.%ld", e->path, (long)getpid());
  file = fopen(aside, "wb");
  if (file == NULL) return;
  for (i = 0; done && e->key[i] != NULL; ++i) {
    done = write_string(file, e->key[i], strlen(e->key[i]));
  }
  done = done && write_string(file, bytes, size);
  if (fclose(file) != 0) done = false;
  if (!done || rename(aside, e->path) != 0) (void)remove(aside);
}

/* The list ------------------------------------------------------------------------------------ */

/* One that was made in this process; the list owns it until it is closed. */
struct program {
  char* source;
  char* options;
  void* made;
  struct program* next;
};

/* Not what was made, which only its maker can release. */
static void free_program(struct program* p) {
  free(p->source);
  free(p->options);
  free(p);
}

/* The program becomes the list's; it is released if there is no memory. At the head: plans are
 * made one after the other, often of the same program. Its texts are copied: those of a node live
 * as long as its region, and the list longer. */
static void* keep(program_list* list, const program_text* text, void* made) {
  struct program* p = calloc(1, sizeof(*p));
  if (p != NULL) {
    p->source = strdup(text->source);
    p->options = strdup(text->options);
  }
  if (p == NULL || p->source == NULL || p->options == NULL) {
    if (p != NULL) free_program(p);
    list->maker->release(list->context, made);
    (void)device_fail("out of memory");
    return NULL;
  }
  p->made = made;
  p->next = list->first;
  list->first = p;
  return made;
}

/* By source and options; the device and the driver are the same for all of a list. Whole texts
 * are compared, as a hash alone could give another program. */
static void* find(const program_list* list, const program_text* text) {
  const struct program* p;
  for (p = list->first; p != NULL; p = p->next) {
    if (strcmp(p->source, text->source) == 0 && strcmp(p->options, text->options) == 0) {
      return p->made;
    }
  }
  return NULL;
}

/* NULL without an error where the driver does not take the bytes. */
static void* load(const program_list* list, const program_text* text, const entry* on_disk) {
  size_t size = 0;
  void* bytes = read_entry(on_disk, &size);
  void* made = bytes == NULL ? NULL : list->maker->load(list->context, text, bytes, size);
  free(bytes);
  return made;
}

/* What is kept on disk is a favour: a program that cannot be written works as well. Its error
 * stays set for the caller. */
static void* build(const program_list* list, const program_text* text, const entry* on_disk) {
  void* bytes = NULL;
  size_t size = 0;
  void* made = list->maker->build(list->context, text, &bytes, &size);
  if (made != NULL && bytes != NULL && on_disk != NULL) write_entry(on_disk, bytes, size);
  free(bytes);
  /* lint: a maker gives an object of its own, never the places for its bytes */
  return made;
}

/* Called with the lock held, also while it compiles: who wants the same program waits and gets
 * it. So programs of one device compile one after the other, which most drivers ask for anyway. */
static void* find_or_make(program_list* list, const program_text* text, const char* const* key) {
  entry of_key;
  const entry* on_disk;
  void* made = find(list, text);
  if (made != NULL) return made;
  on_disk = find_entry(list->disk, key, &of_key) ? &of_key : NULL;
  if (on_disk != NULL) made = load(list, text, on_disk);
  if (made == NULL) made = build(list, text, on_disk);
  return made == NULL ? NULL : keep(list, text, made);
}

/* `maker` tells programs_close() whether there is a lock. */
int programs_open(program_list* list, const program_maker* maker, const program_store* disk,
                  void* context) {
  *list = (program_list){.disk = disk, .context = context};
  if (pthread_mutex_init(&list->lock, NULL) != 0) return device_fail("out of memory");
  list->maker = maker;
  return 0;
}

/* By whoever owns the list, when nobody asks it any more. Programs that regions still run would
 * be released below them; devices end when no region is left. */
void programs_close(program_list* list) {
  if (list->maker == NULL) return;
  while (list->first != NULL) {
    struct program* p = list->first;
    list->first = p->next;
    list->maker->release(list->context, p->made);
    free_program(p);
  }
  (void)pthread_mutex_destroy(&list->lock);
  list->maker = NULL;
}

/* Any thread. Texts and key are borrowed for the call. */
void* programs_get(program_list* list, const program_text* text, const char* const* key) {
  void* made;
  (void)pthread_mutex_lock(&list->lock);
  made = find_or_make(list, text, key);
  (void)pthread_mutex_unlock(&list->lock);
  return made;
}
