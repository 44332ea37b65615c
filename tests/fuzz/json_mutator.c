/* Mutations that keep JSON valid: values are exchanged, duplicated, removed, or replaced by
   boundary values. One in four mutations is libFuzzer's own, of the bytes. Text before the first
   brace is unchanged. */
#include "fuzz.h"

enum { MAX_VALUES = 512, MAX_BYTES = 1 << 14 };

size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed);

/* Start and end of a value. */
typedef struct span {
  size_t begin, end;
} span;

typedef struct text {
  char bytes[MAX_BYTES];
  size_t size;
} text;

static size_t end_of_string(const char* s, size_t at, size_t size) {
  for (++at; at < size && s[at] != '"'; ++at) {
    if (s[at] == '\\') ++at;
  }
  return at < size ? at + 1 : size;
}

static size_t end_of_word(const char* s, size_t at, size_t size) {
  while (at < size && strchr(",]}: \n\t\r", s[at]) == NULL) ++at;
  return at;
}

/* Every value of the text; those that are not closed are left out. */
static size_t find_values(const char* s, size_t size, span* out) {
  size_t open[64];
  size_t depth = 0;
  size_t count = 0;
  size_t at = 0;
  while (at < size && count < MAX_VALUES) {
    size_t end = at + 1;
    if (s[at] == '{' || s[at] == '[') {
      if (depth == 64) return count;
      open[depth++] = at;
    } else if (s[at] == '}' || s[at] == ']') {
      if (depth > 0) out[count++] = (span){open[--depth], end};
    } else if (strchr(",: \n\t\r", s[at]) == NULL) {
      end = s[at] == '"' ? end_of_string(s, at, size) : end_of_word(s, at, size);
      out[count++] = (span){at, end};
    }
    at = end;
  }
  return count;
}

static void append(text* t, const char* bytes, size_t size) {
  if (size > MAX_BYTES - t->size) size = MAX_BYTES - t->size;
  memcpy(t->bytes + t->size, bytes, size);
  t->size += size;
}

/* The text with one value replaced, or removed with the adjacent comma if `bytes` is NULL. */
static void replaced(text* t, const char* s, size_t size, span old, const char* bytes, size_t n) {
  t->size = 0;
  if (bytes == NULL) {
    if (old.end < size && s[old.end] == ',') {
      ++old.end;
    } else if (old.begin > 0 && s[old.begin - 1] == ',') {
      --old.begin;
    }
  }
  append(t, s, old.begin);
  if (bytes != NULL) append(t, bytes, n);
  append(t, s + old.end, size - old.end);
}

static void doubled(text* t, const char* s, size_t size, span old) {
  t->size = 0;
  append(t, s, old.end);
  append(t, ",", 1);
  append(t, s + old.begin, size - old.begin);
}

static void change(text* t, const char* s, size_t size, unsigned int seed) {
  static const char* const edges[] = {"0",
                                      "-1",
                                      "1",
                                      "2",
                                      "8",
                                      "64",
                                      "9223372036854775807",
                                      "-9223372036854775808",
                                      "1e9",
                                      "65536",
                                      "[]",
                                      "{}",
                                      "null",
                                      "\"\"",
                                      "4294967296",
                                      "1.5",
                                      "2147483647",
                                      "-64",
                                      "[0]",
                                      "1e400",
                                      "true",
                                      "\"x\""};
  static span values[MAX_VALUES];
  size_t count = find_values(s, size, values);
  span old;
  t->size = 0;
  if (count == 0) {
    append(t, s, size);
    return;
  }
  old = values[seed / 8 % count];
  if (seed % 8 < 3) {
    const char* edge = edges[seed / 4096 % (sizeof(edges) / sizeof(edges[0]))];
    replaced(t, s, size, old, edge, strlen(edge));
  } else if (seed % 8 < 5) {
    span other = values[seed / 65536 % count];
    replaced(t, s, size, old, s + other.begin, other.end - other.begin);
  } else if (seed % 8 < 6) {
    replaced(t, s, size, old, NULL, 0);
  } else {
    doubled(t, s, size, old);
  }
}

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  static text made;
  const uint8_t* brace = size == 0 ? NULL : memchr(data, '{', size);
  size_t head;
  if (brace == NULL || seed % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
  head = (size_t)(brace - data);
  change(&made, (const char*)brace, size - head, seed / 4);
  if (made.size > max_size - head) made.size = max_size - head;
  memcpy(data + head, made.bytes, made.size);
  return head + made.size;
}
