/* Mutations of serialised modules and params: strings that keep a correct length field,
   duplicated or removed entries, counts that are off by one. One in three mutations is
   libFuzzer's own. Integers have 8 bytes, little-endian. */
#include <stdbool.h>

#include "fuzz.h"

enum { MAX_PART = 1 << 12 };

size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed);

static uint64_t read_number(const uint8_t* at) {
  uint64_t value = 0;
  int i;
  for (i = 7; i >= 0; --i) value = value << 8 | at[i];
  return value;
}

static void write_number(uint8_t* at, uint64_t value) {
  int i;
  for (i = 0; i < 8; ++i, value >>= 8) at[i] = (uint8_t)value;
}

/* The first offset from `from` on, wrapping around, of an integer that may be the length of the
   following text; size if there is none. */
static size_t find_length(const uint8_t* data, size_t size, size_t from) {
  size_t i;
  for (i = 0; i + 8 < size; ++i) {
    size_t at = (from + i) % (size - 8);
    uint64_t length = read_number(data + at);
    if (length > 0 && length < MAX_PART && length <= size - at - 8) return at;
  }
  return size;
}

/* `old` bytes at `at` become `fresh` ones. Returns the new size, or the old one where it is too much. */
static size_t splice(uint8_t* data, size_t size, size_t max_size, size_t at, size_t old,
                     const uint8_t* fresh, size_t fresh_size) {
  if (size - old + fresh_size > max_size) return size;
  memmove(data + at + fresh_size, data + at + old, size - at - old);
  if (fresh_size != 0) memcpy(data + at, fresh, fresh_size);
  return size - old + fresh_size;
}

/* Another string of another length, with a correct length field. */
static size_t change_text(uint8_t* data, size_t size, size_t max_size, size_t at) {
  static uint8_t part[2 * MAX_PART];
  size_t length = (size_t)read_number(data + at);
  size_t fresh;
  size_t changed;
  memcpy(part, data + at + 8, length);
  fresh = LLVMFuzzerMutate(part, length, sizeof(part));
  changed = splice(data, size, max_size, at + 8, length, part, fresh);
  if (changed != size || fresh == length) write_number(data + at, fresh);
  return changed;
}

static size_t change_at(uint8_t* data, size_t size, size_t max_size, size_t at, unsigned int seed) {
  static const uint64_t edges[] = {0, 1, 2, 3, 255, 1u << 16, 1ull << 32, ~0ull, 1ull << 63};
  static uint8_t part[MAX_PART + 8];
  uint64_t number = read_number(data + at);
  size_t whole = (size_t)number + 8;
  switch (seed % 6) {
    case 0:
      write_number(data + at, seed / 8 % 2 == 0 ? number + 1 : number - 1);
      return size;
    case 1:
      write_number(data + at, edges[seed / 8 % (sizeof(edges) / sizeof(edges[0]))]);
      return size;
    case 2: /* twice */
      memcpy(part, data + at, whole);
      return splice(data, size, max_size, at, 0, part, whole);
    case 3: /* not at all */
      return splice(data, size, max_size, at, whole, NULL, 0);
    default:
      return change_text(data, size, max_size, at);
  }
}

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  bool has_total = size >= 16 && read_number(data) == size - 8;
  size_t begin = has_total ? 8 : 0;
  size_t at;
  if (size < 24 || seed % 3 == 0) return LLVMFuzzerMutate(data, size, max_size);
  at = begin + find_length(data + begin, size - begin, seed / 512 % (size - begin));
  if (at >= size) return LLVMFuzzerMutate(data, size, max_size);
  size = change_at(data, size, max_size, at, seed / 4);
  if (has_total && size >= 8) write_number(data, size - 8);
  return size;
}
