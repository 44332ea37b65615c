/* Built programs of a device.
 *
 * A file contains the texts of its key and the binary, each as a u64 length and its bytes. Its name
 * is a hash of the key; the texts are compared on reading, so a hash collision is only a miss.
 * Files are written under another name and renamed. File errors are ignored. */
#include "program_cache.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "registration.h"

/* Files --------------------------------------------------------------------------------------- */

#define NAME_BYTES 64 /* of a file name after its folder, including its temporary suffix */

typedef struct {
  char path[4096];
  const char* const* key; /* ends with NULL */
} entry;

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
 * created here. */
static bool find_entry(const disk_cache* of, const char* const* key, entry* out) {
  const char* folder = getenv(of->variable);
  const char* cache = getenv("XDG_CACHE_HOME");
  const char* home = getenv("HOME");
  const size_t capacity = sizeof(out->path) - NAME_BYTES;
  uint64_t hash = UINT64_C(14695981039346656037);
  size_t i;
  int n;
  out->key = key;
  if (folder != NULL) {
    n = snprintf(out->path, capacity, "%s", folder);
  } else if (cache != NULL && cache[0] == '/') {
    n = snprintf(out->path, capacity, "%s/tvmrt/%s", cache, of->name);
  } else if (home != NULL && home[0] == '/') {
    n = snprintf(out->path, capacity, "%s/.cache/tvmrt/%s", home, of->name);
  } else {
    return false;
  }
  if (n <= 0 || (size_t)n >= capacity || !make_folder(out->path)) return false;
  for (i = 0; key[i] != NULL; ++i) hash = hash_text(hash, key[i]);
  (void)snprintf(out->path + n, NAME_BYTES / 2, "/%016llx.%s", (unsigned long long)hash,
                 of->suffix);
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

/* NULL if there is no matching file. The caller frees the bytes with free(). The driver checks
 * their content. */
static void* read_entry(const entry* e, size_t* out_bytes) {
  FILE* file = fopen(e->path, "rb");
  struct stat info;
  void* bytes = NULL;
  uint64_t size = 0;
  bool fits = file != NULL;
  size_t i;
  if (file == NULL) return NULL;
  for (i = 0; fits && e->key[i] != NULL; ++i) fits = read_and_compare(file, e->key[i]);
  fits = fits && read_bytes(file, &size, sizeof(size)) && fstat(fileno(file), &info) == 0 &&
         /* the length is only a claim */
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

/* In the machine's byte order, since files are used on one machine. */
static bool write_string(FILE* file, const void* bytes, size_t size) {
  uint64_t length = size;
  return fwrite(&length, sizeof(length), 1, file) == 1 &&
         (size == 0 || fwrite(bytes, size, 1, file) == 1);
}

/* Errors are ignored. The file is renamed when it is complete, since other processes may use the
 * name at any moment. */
static void write_entry(const entry* e, const void* bytes, size_t size) {
  char temporary[sizeof(e->path) + 32];
  bool done = true;
  FILE* file;
  size_t i;
  /* unique per process, so simultaneous writers do not conflict */
  (void)snprintf(temporary, sizeof(temporary), "%s.%ld", e->path, (long)getpid());
  file = fopen(temporary, "wb");
  if (file == NULL) return;
  for (i = 0; done && e->key[i] != NULL; ++i) {
    done = write_string(file, e->key[i], strlen(e->key[i]));
  }
  done = done && write_string(file, bytes, size);
  if (fclose(file) != 0) done = false;
  if (!done || rename(temporary, e->path) != 0) (void)remove(temporary);
}

/* The list ------------------------------------------------------------------------------------ */

/* A program of this process; owned by the list until it is closed. */
struct program {
  char* source;
  char* options;
  void* made;
  struct program* next;
};

/* Does not release `made`, which only its maker can. */
static void free_program(struct program* p) {
  free(p->source);
  free(p->options);
  free(p);
}

/* The list takes over the program, and releases it if out of memory. Added at the head, since plans
 * often use one program repeatedly. The texts are copied, since the list outlives the nodes. */
static void* keep(program_cache* list, const program_source* text, void* made) {
  struct program* p = calloc(1, sizeof(*p));
  if (p != NULL) {
    p->source = strdup(text->source);
    p->options = strdup(text->options);
  }
  if (p == NULL || p->source == NULL || p->options == NULL) {
    if (p != NULL) free_program(p);
    list->callbacks->release(list->context, made);
    (void)device_fail("out of memory");
    return NULL;
  }
  p->made = made;
  p->next = list->first;
  list->first = p;
  return made;
}

/* Search by source and options; device and driver are constant for a list. Whole texts are
 * compared, since hashes may collide. */
static void* find(const program_cache* list, const program_source* text) {
  const struct program* p;
  for (p = list->first; p != NULL; p = p->next) {
    if (strcmp(p->source, text->source) == 0 && strcmp(p->options, text->options) == 0) {
      return p->made;
    }
  }
  return NULL;
}

/* NULL without an error if the driver rejects the binary. */
static void* load(const program_cache* list, const program_source* text, const entry* on_disk) {
  size_t size = 0;
  void* bytes = read_entry(on_disk, &size);
  void* made = bytes == NULL ? NULL : list->callbacks->load(list->context, text, bytes, size);
  free(bytes);
  return made;
}

/* Failing to write the file is not an error. An error of the build stays set for the caller. */
static void* build(const program_cache* list, const program_source* text, const entry* on_disk) {
  void* bytes = NULL;
  size_t size = 0;
  void* made = list->callbacks->build(list->context, text, &bytes, &size);
  if (made != NULL && bytes != NULL && on_disk != NULL) write_entry(on_disk, bytes, size);
  free(bytes);
  /* lint: a maker gives an object of its own, never the places for its bytes */
  return made;
}

/* Called with the lock held, also during compilation, so that a thread that wants the same program
 * waits for it. Compilations for a device are therefore sequential, as most drivers require. */
static void* find_or_build(program_cache* list, const program_source* text,
                           const char* const* key) {
  entry of_key;
  const entry* on_disk;
  void* made = find(list, text);
  if (made != NULL) return made;
  on_disk = find_entry(list->disk, key, &of_key) ? &of_key : NULL;
  if (on_disk != NULL) made = load(list, text, on_disk);
  if (made == NULL) made = build(list, text, on_disk);
  return made == NULL ? NULL : keep(list, text, made);
}

/* A non-NULL `callbacks` indicates to program_cache_close() that the lock exists. */
int program_cache_open(program_cache* list, const program_callbacks* callbacks,
                       const disk_cache* disk, void* context) {
  *list = (program_cache){.disk = disk, .context = context};
  if (pthread_mutex_init(&list->lock, NULL) != 0) return device_fail("out of memory");
  list->callbacks = callbacks;
  return 0;
}

/* Called by the owner when the list is not used any more. Regions must not run its programs by
 * then; devices end after their last region. */
void program_cache_close(program_cache* list) {
  if (list->callbacks == NULL) return;
  while (list->first != NULL) {
    struct program* p = list->first;
    list->first = p->next;
    list->callbacks->release(list->context, p->made);
    free_program(p);
  }
  (void)pthread_mutex_destroy(&list->lock);
  list->callbacks = NULL;
}

/* Thread-safe. Texts and key are borrowed for the call. */
void* program_cache_get(program_cache* list, const program_source* text, const char* const* key) {
  void* made;
  (void)pthread_mutex_lock(&list->lock);
  made = find_or_build(list, text, key);
  (void)pthread_mutex_unlock(&list->lock);
  return made;
}
