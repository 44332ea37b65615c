/* Little-endian byte streams and whole files.
 *
 * Readers walk borrowed memory, check its end at each step (firmware/graph/params_reader.c), and report
 * the position of an error. Counts are compared with the remaining bytes before memory is allocated
 * for them, so that a damaged file cannot exhaust memory. Files are written to a temporary name and
 * renamed: a reader of the path sees the old file or the new one. */
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
  in->bytes = (tvmrt_byte_reader){in->begin, in->begin + size, TVMRT_READ_OK};
}

/* Always -1. The reported position is that of the next read. */
int tvmrt__reader_fail(const tvmrt_reader* in, const char* why) {
  return tvmrt__fail_value("%s is damaged: %s at byte %zu of %zu.", in->what, why,
                           (size_t)(in->bytes.at - in->begin), (size_t)(in->bytes.end - in->begin));
}

/* Report the damage code that firmware's reader has recorded: after damage its reads do nothing. */
int tvmrt__reader_check(const tvmrt_reader* in) {
  static const char* const sentences[] = {
      [TVMRT_READ_TRUNCATED] = "it ends too early",
      [TVMRT_READ_COUNT_TOO_LARGE] = "a count is larger than the rest of the bytes allows",
      [TVMRT_READ_NOT_PARAMS] = "it is not a params file (wrong magic)",
      [TVMRT_READ_NOT_TENSOR] = "no tensor starts here (wrong magic)",
  };
  if (in->bytes.damage == TVMRT_READ_OK) return 0;
  return tvmrt__reader_fail(in, sentences[in->bytes.damage]);
}

/* *out points into the source bytes, and lives as long as they do. */
int tvmrt__read_bytes(tvmrt_reader* in, uint64_t size, const uint8_t** out) {
  *out = tvmrt__take_bytes(&in->bytes, size > SIZE_MAX ? SIZE_MAX : (size_t)size);
  return tvmrt__reader_check(in);
}

/* Byte by byte, independent of the machine's byte order and of alignment. */
int tvmrt__read_uint(tvmrt_reader* in, int bytes, uint64_t* out) {
  const uint8_t* p;
  int i;
  *out = 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__read_bytes(in, (uint64_t)bytes, &p));
  for (i = bytes - 1; i >= 0; --i) *out = *out << 8 | p[i];
  return 0;
}

/* `min_item_bytes` is the minimum size of one item, not 0: counts that exceed the remaining bytes
 * are refused before anything is allocated. */
int tvmrt__read_count(tvmrt_reader* in, uint64_t min_item_bytes, size_t* out) {
  *out = tvmrt__take_count(&in->bytes);
  if (*out > tvmrt__reader_left(in) / min_item_bytes) in->bytes.damage = TVMRT_READ_COUNT_TOO_LARGE;
  return tvmrt__reader_check(in);
}

/* Borrowed, without a NUL at its end: use tvmrt__read_string() for a C string. */
int tvmrt__read_view(tvmrt_reader* in, const char** out, size_t* out_size) {
  const uint8_t* p;
  *out = NULL;
  TVMRT_RETURN_IF_ERROR(tvmrt__read_count(in, 1, out_size));
  TVMRT_RETURN_IF_ERROR(tvmrt__read_bytes(in, *out_size, &p));
  *out = (const char*)p;
  return 0;
}

/* The caller owns *out; released by free(). */
int tvmrt__read_string(tvmrt_reader* in, char** out) {
  const char* text;
  size_t size;
  *out = NULL;
  TVMRT_RETURN_IF_ERROR(tvmrt__read_view(in, &text, &size));
  if (memchr(text, '\0', size) != NULL) return tvmrt__reader_fail(in, "a string contains NUL");
  *out = tvmrt__alloc(size + 1);
  if (*out == NULL) return -1;
  memcpy(*out, text, size);
  (*out)[size] = '\0';
  return 0;
}

/* 8 is the minimum size of a string: its length. On failure there is no list, and nothing to
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

/* Accepts NULL, and NULL entries, so a partly read list can be freed. */
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

/* The length is always 8 bytes, independent of the machine's size_t: files are portable. */
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

/* In chunks, without querying the size: pipes and files of /proc have none. */
static int read_all(FILE* file, const char* path, tvmrt_buf* out) {
  size_t num_read;
  do {
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_reserve(out, 65536));
    num_read = fread(out->data + out->size, 1, 65536, file);
    out->size += num_read;
    out->data[out->size] = '\0';
  } while (num_read != 0);
  if (ferror(file)) return tvmrt__fail("OSError: cannot read '%s': %s.", path, strerror(errno));
  return 0;
}

/* Appends to *out; on failure it keeps the bytes read so far. */
int tvmrt__read_file(const char* path, tvmrt_buf* out) {
  FILE* file = tvmrt__open_to_read(path);
  int rc;
  if (file == NULL) return tvmrt__fail("OSError: cannot open '%s': %s.", path, strerror(errno));
  rc = read_all(file, path, out);
  (void)fclose(file);
  return rc;
}

/* Create a new file next to the one to be replaced; *out is NULL, with errno, on failure. Its name
 * has the process id, since several processes may write the same path, and a count, for several
 * threads and for leftovers of a killed process with that id. */
static int open_temporary(const char* path, tvmrt_buf* name, FILE** out) {
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
  return fclose(file) == 0 && ok ? 0 : -1; /* a full disk is reported by closing */
}

/* errno is read for the error text before the temporary file is removed, which may change it. No
 * fsync: durability after a loss of power is not guaranteed. */
int tvmrt__write_file(const char* path, const void* data, size_t size) {
  tvmrt_buf temporary = {NULL, 0, 0};
  FILE* file = NULL;
  int rc = open_temporary(path, &temporary, &file);
  if (rc == 0 && (file == NULL || write_all(file, data, size) != 0 ||
                  tvmrt__replace_file(temporary.data, path) != 0)) {
    rc = tvmrt__fail("OSError: cannot write '%s': %s.", path, strerror(errno));
    if (file != NULL) (void)tvmrt__remove_file(temporary.data);
  }
  tvmrt__buf_free(&temporary);
  return rc;
}
