#include "text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void bytes_add(bytes* to, const void* data, size_t size) {
  if (to->failed || size == 0) return;
  if (size > to->capacity - to->size) {
    size_t capacity = to->capacity < 256 ? 256 : to->capacity;
    char* grown;
    while (capacity - to->size < size && capacity <= SIZE_MAX / 2) capacity *= 2;
    grown = capacity - to->size < size ? NULL : realloc(to->data, capacity);
    if (grown == NULL) {
      to->failed = true;
      return;
    }
    to->data = grown;
    to->capacity = capacity;
  }
  memcpy(to->data + to->size, data, size);
  to->size += size;
}

void bytes_free(bytes* of) {
  free(of->data);
  *of = (bytes){NULL, 0, 0, false};
}

char* text_new(const char* format, ...) {
  char* text = NULL;
  va_list list;
  va_start(list, format);
  if (vasprintf(&text, format, list) < 0) text = NULL;
  va_end(list);
  return text;
}

ort_status* fail(const ort_functions* ort, int code, const char* format, ...) {
  char text[4096];
  va_list list;
  va_start(list, format);
  if (vsnprintf(text, sizeof(text), format, list) < 0) text[0] = '\0';
  va_end(list);
  return ort->api.CreateStatus(code, text);
}

ort_status* fail_memory(const ort_functions* ort) {
  return fail(ort, ORT_FAIL,
              "tvmrt: out of memory; close other programs, or use a smaller network");
}

ort_status* write_file(const ort_functions* ort, const char* path, const void* data, size_t size) {
  char* aside = text_new("%s.new-%ld", path, process_number());
  FILE* file = aside == NULL ? NULL : fopen(aside, "wb");
  bool good = file != NULL && fwrite(data, 1, size, file) == size;
  ort_status* status = NULL;
  if (file != NULL && fclose(file) != 0) good = false;
  if (good && rename(aside, path) != 0) good = false;
  if (!good) {
    status = fail(ort, ORT_FAIL, "tvmrt: %s cannot be written (%s); choose another folder", path,
                  strerror(errno));
    if (file != NULL) (void)remove(aside);
  }
  free(aside);
  return status;
}

int read_tail(const char* path, size_t max_bytes, bytes* to) {
  FILE* file = fopen(path, "rb");
  long size = -1;
  size_t wanted;
  if (file == NULL) return -1;
  if (fseek(file, 0, SEEK_END) == 0) size = ftell(file);
  wanted = size < 0 ? 0 : (size_t)size < max_bytes ? (size_t)size : max_bytes;
  if (size >= 0 && fseek(file, -(long)wanted, SEEK_END) == 0) {
    char part[4096];
    size_t got;
    while ((got = fread(part, 1, sizeof(part), file)) > 0) bytes_add(to, part, got);
  }
  (void)fclose(file);
  return size < 0 || to->failed || to->size != wanted ? -1 : 0;
}
