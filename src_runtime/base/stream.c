/* Little-endian byte streams and whole files.
 *
 * Readers walk memory that belongs to somebody else, with an end that is checked at each step
 * (firmware/params_bytes.c), and fail with the place; counts are compared with what is left before
 * memory for as many is asked for, so that a damaged file cannot ask for all of it. Files are
 * written aside and renamed: a reader of the path sees the old one or the new one. */
#include "stream.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../platform/files.h"
#include "../platform/system.h"

/* The bytes and the name are borrowed until the last read. */
void tvmrt__reader_init(tvmrt_reader* in, const char* what, const void* data, size_t size) {
  in->what = what;
  in->begin = data;
  in->bytes = (tvmrt_bytes){in->begin, in->begin + size, TVMRT_BYTES_WHOLE};
}

/* Always -1. The place is where the next read would begin. */
int tvmrt__reader_fail(const tvmrt_reader* in, const char* why) {
  return tvmrt__fail_value("%s is damaged: %s at byte %zu of %zu.", in->what, why,
                           (size_t)(in->bytes.at - in->begin), (size_t)(in->bytes.end - in->begin));
}

/* What firmware's reader has found is a number that stays until it is asked for: steps behind it
 * read nothing. */
int tvmrt__reader_check(const tvmrt_reader* in) {
  static const char* const sentences[] = {
      [TVMRT_BYTES_END_EARLY] = "it ends too early",
      [TVMRT_BYTES_COUNT_TOO_MUCH] = "a count is larger than the rest of the bytes allows",
      [TVMRT_BYTES_NO_PARAMS] = "it is no params file (wrong magic)",
      [TVMRT_BYTES_NO_TENSOR] = "no tensor starts here (wrong magic)",
  };
  if (in->bytes.damage == TVMRT_BYTES_WHOLE) return 0;
  return tvmrt__reader_fail(in, sentences[in->bytes.damage]);
}

/* *out lies in what is read, and lives as long as that. */
int tvmrt__read_bytes(tvmrt_reader* in, uint64_t size, const uint8_t** out) {
  *out = tvmrt__bytes_take(&in->bytes, size > SIZE_MAX ? SIZE_MAX : (size_t)size);
  return tvmrt__reader_check(in);
}

/* Byte by byte, so that neither the machine's order nor the place of the number matters. */
int tvmrt__read_uint(tvmrt_reader* in, int bytes, uint64_t* out) {
  const uint8_t* p;
  int i;
  *out = 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__read_bytes(in, (uint64_t)bytes, &p));
  for (i = bytes - 1; i >= 0; --i) *out = *out << 8 | p[i];
  return 0;
}

/* `least_bytes` is what one of the things takes at least, and not 0: more of them than the rest
 * has room for are refused before anybody allocates for them. */
int tvmrt__read_count(tvmrt_reader* in, uint64_t least_bytes, size_t* out) {
  *out = tvmrt__bytes_count(&in->bytes);
  if (*out > tvmrt__reader_left(in) / least_bytes) in->bytes.damage = TVMRT_BYTES_COUNT_TOO_MUCH;
  return tvmrt__reader_check(in);
}

/* Borrowed, without a NUL behind it: whoever wants a C text reads a string. */
int tvmrt__read_view(tvmrt_reader* in, const char** out, size_t* out_size) {
  const uint8_t* p;
  *out = NULL;
  TVMRT_RETURN_IF_ERROR(tvmrt__read_count(in, 1, out_size));
  TVMRT_RETURN_IF_ERROR(tvmrt__read_bytes(in, *out_size, &p));
  *out = (const char*)p;
  return 0;
}

/* *out is the caller's, to be freed. */
int tvmrt__read_string(tvmrt_reader* in, char** out) {
  const char* text;
  size_t size;
  *out = NULL;
  TVMRT_RETURN_IF_ERROR(tvmrt__read_view(in, &text, &size));
  if (memchr(text, '\0', size) != NULL) return tvmrt__reader_fail(in, "a text contains a NUL");
  *out = tvmrt__alloc(size + 1);
  if (*out == NULL) return -1;
  memcpy(*out, text, size);
  (*out)[size] = '\0';
  return 0;
}

/* 8 is the least that a text takes: its length. On failure there is no list, and nothing to
 * free. */
int tvmrt__read_strings(tvmrt_reader* in, char*** out, size_t* out_count) {
  size_t count;
  size_t i;
  char** strings;
  *out = NULL;
  *out_count = 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__read_count(in, 8, &count));
  strings = tvmrt__calloc(count, sizeof(*strings));
  if (strings == NULL) return -1;
  for (i = 0; i < count; ++i) {
    if (tvmrt__read_string(in, &strings[i]) != 0) {
      tvmrt__free_strings(strings, i);
      return -1;
    }
  }
  *out = strings;
  *out_count = count;
  return 0;
}

/* NULL is no list; entries of NULL are passed over, so one half read can be freed. */
void tvmrt__free_strings(char** strings, size_t count) {
  size_t i;
  if (strings == NULL) return;
  for (i = 0; i < count; ++i) free(strings[i]);
  free(strings);
}

int tvmrt__write_uint(tvmrt_buf* out, int bytes, uint64_t value) {
  uint8_t raw[8];
  int i;
  for (i = 0; i < bytes; ++i) raw[i] = (uint8_t)(value >> (8 * i));
  return tvmrt__buf_append(out, raw, (size_t)bytes);
}

/* The length is always 8 bytes, whatever a size is on this machine: files go from one to
 * another. */
int tvmrt__write_data(tvmrt_buf* out, const void* data, size_t size) {
  TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 8, size));
  return tvmrt__buf_append(out, data, size);
}

int tvmrt__write_string(tvmrt_buf* out, const char* text) {
  return tvmrt__write_data(out, text, strlen(text));
}

int tvmrt__write_strings(tvmrt_buf* out, char* const* strings, size_t count) {
  size_t i;
  TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 8, count));
  for (i = 0; i < count; ++i) TVMRT_RETURN_IF_ERROR(tvmrt__write_string(out, strings[i]));
  return 0;
}

/* By pieces, and without asking for the size: pipes and files of /proc have none. */
static int read_all(FILE* file, const char* path, tvmrt_buf* out) {
  size_t got;
  do {
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_reserve(out, 65536));
    got = fread(out->data + out->size, 1, 65536, file);
    out->size += got;
    out->data[out->size] = '\0';
  } while (got != 0);
  if (ferror(file)) return tvmrt__fail("OSError: cannot read '%s': %s.", path, strerror(errno));
  return 0;
}

/* Appends to what *out has, and leaves in it what was read until it failed. */
int tvmrt__read_file(const char* path, tvmrt_buf* out) {
  FILE* file = tvmrt__open_to_read(path);
  int rc;
  if (file == NULL) return tvmrt__fail("OSError: cannot open '%s': %s.", path, strerror(errno));
  rc = read_all(file, path, out);
  (void)fclose(file);
  return rc;
}

/* A new file beside the one that it shall replace; NULL, and errno says why there is none. Its name
 * has the process's number, since several may write the same path, and a count, for several threads
 * and for what a process of that number left when it was killed. */
static int open_aside(const char* path, tvmrt_buf* name, FILE** out) {
  static atomic_uint count;
  do {
    name->size = 0;
    TVMRT_RETURN_IF_ERROR(
        tvmrt__buf_printf(name, "%s.%ld.%u.tmp", path, tvmrt__process_id(), count++));
    *out = tvmrt__create_file(name->data);
  } while (*out == NULL && errno == EEXIST);
  return 0;
}

/* Closes the file in any case. */
static int write_all(FILE* file, const void* data, size_t size) {
  const int ok = fwrite(data, 1, size, file) == size;
  return fclose(file) == 0 && ok ? 0 : -1; /* closing is what reports a full disk */
}

/* errno is read for the sentence before the file aside is removed, which may change it. Nothing
 * is forced to the disk: what a loss of power leaves is the system's affair. */
int tvmrt__write_file(const char* path, const void* data, size_t size) {
  tvmrt_buf aside = {NULL, 0, 0};
  FILE* file = NULL;
  int rc = open_aside(path, &aside, &file);
  if (rc == 0 && (file == NULL || write_all(file, data, size) != 0 ||
                  tvmrt__replace_file(aside.data, path) != 0)) {
    rc = tvmrt__fail("OSError: cannot write '%s': %s.", path, strerror(errno));
    if (file != NULL) (void)tvmrt__remove_file(aside.data);
  }
  tvmrt__buf_free(&aside);
  return rc;
}
