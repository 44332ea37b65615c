/*!
 * \file string_tensors.h
 * \brief Tensors of strings: each element is the address of a NUL-terminated UTF-8 string, as an
 * int64_t; 0 is the empty string.
 *
 * Strings of inputs belong to the caller, those of constants to the library. Strings that a run
 * creates are in a heap in the workspace, after 16 bytes: the used and the total size. Hosts only.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_STRING_TENSORS_H_
#define TVM_RUNTIME_KERNELS_OP_STRING_TENSORS_H_

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>

/*! \brief The C string of an element. */
static inline const char* tvmrt_text(int64_t element) {
  return element == 0 ? "" : (const char*)(intptr_t)element;
}

/* Set the error text of a failed run. */
static inline int tvmrt_text_fail(const char* kind, const char* where, const char* what) {
  char text[512];
  (void)snprintf(text, sizeof(text), "%s: %s %s", kind, where, what);
  TVMAPISetLastError(text);
  return -1;
}

/*! \brief Initialise an empty heap of `bytes` bytes. */
static inline void tvmrt_text_reset(uint8_t* heap, int64_t bytes) {
  const int64_t head[2] = {16, bytes};
  memcpy(heap, head, sizeof(head));
}

/*! \brief Allocate memory in a heap; NULL with an error that contains `where`. */
static inline char* tvmrt_text_allocate(const uint8_t* heap, size_t bytes, const char* where) {
  uint8_t* const own = (uint8_t*)(uintptr_t)heap;
  int64_t head[2];
  memcpy(head, own, sizeof(head));
  if (bytes > (uint64_t)(head[1] - head[0])) {
    char what[128];
    (void)snprintf(what, sizeof(what),
                   "creates more string data than the %lld bytes reserved per run",
                   (long long)head[1]);
    (void)tvmrt_text_fail("MemoryError", where, what);
    return NULL;
  }
  char* const found = (char*)own + head[0];
  head[0] += (int64_t)bytes;
  memcpy(own, head, sizeof(head));
  return found;
}

/*! \brief Copy a string of `count` bytes to a heap; 0 if it is full. */
static inline int64_t tvmrt_text_copy(const uint8_t* heap, const char* bytes, size_t count,
                                      const char* where) {
  char* const buffer = tvmrt_text_allocate(heap, count + 1, where);
  if (buffer == NULL) return 0;
  memcpy(buffer, bytes, count);
  buffer[count] = '\0';
  return (int64_t)(intptr_t)buffer;
}

/*! \brief y[i] = a[i] + b[i] as strings. Returns 0, or -1 if the heap is full. */
static inline int tvmrt_text_join(const uint8_t* heap, const int64_t* a, const int64_t* b,
                                  int64_t count, int64_t* y, const char* where) {
  for (int64_t i = 0; i < count; i++) {
    const char *first = tvmrt_text(a[i]), *second = tvmrt_text(b[i]);
    const size_t head = strlen(first), tail = strlen(second);
    char* const buffer = tvmrt_text_allocate(heap, head + tail + 1, where);
    if (buffer == NULL) return -1;
    memcpy(buffer, first, head);
    memcpy(buffer + head, second, tail + 1);
    y[i] = (int64_t)(intptr_t)buffer;
  }
  return 0;
}

/*!
 * \brief Look each element up among sorted keys; -1 if not found.
 * \param indices Index of each sorted key.
 */
static inline void tvmrt_text_find(const int64_t* x, int64_t count, const char* const* keys,
                                   const int64_t* indices, int64_t num_keys, int64_t* y) {
  for (int64_t i = 0; i < count; i++) {
    const char* const text = tvmrt_text(x[i]);
    int64_t low = 0, high = num_keys;
    y[i] = -1;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      const int order = strcmp(text, keys[middle]);
      if (order == 0) {
        y[i] = indices[middle];
        break;
      }
      if (order < 0) high = middle;
      if (order > 0) low = middle + 1;
    }
  }
}

/*! \brief The elements selected by keep_mask, then empty strings. */
static inline void tvmrt_text_keep(const int64_t* x, const uint8_t* keep_mask, int64_t count,
                                   int64_t* y, int64_t num_y) {
  int64_t found = 0;
  for (int64_t i = 0; i < count && found < num_y; i++) {
    if (keep_mask[i]) y[found++] = x[i];
  }
  while (found < num_y) y[found++] = 0;
}

/* Decode the code point at *p and advance; an invalid byte is decoded as 0xdc00 + byte. */
static inline uint32_t tvmrt_text_next(const unsigned char** p) {
  const unsigned char* s = *p;
  const uint32_t first = *s;
  const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc2 ? 1 : 0;
  uint32_t code = first & (0x7fu >> (more ? more + 1 : 0));
  *p = s + 1;
  if (first < 0x80) return first;
  for (int i = 1; i <= more; i++) {
    if ((s[i] & 0xc0) != 0x80) return 0xdc00u + first;
    code = code << 6 | (s[i] & 0x3fu);
  }
  if (more == 0) return 0xdc00u + first;
  *p = s + more + 1;
  return code;
}

/* Encode a code point as UTF-8, or restore an invalid byte; return the number of bytes. */
static inline size_t tvmrt_text_put(char* out, uint32_t code) {
  if (code < 0x80) {
    out[0] = (char)code;
    return 1;
  }
  if (code >= 0xdc80u && code <= 0xdcffu) {
    out[0] = (char)(code - 0xdc00u);
    return 1;
  }
  const int more = code >= 0x10000 ? 3 : code >= 0x800 ? 2 : 1;
  for (int i = more; i > 0; i--, code >>= 6) out[i] = (char)(0x80u | (code & 0x3fu));
  out[0] = (char)((0xff00u >> (more + 1) & 0xffu) | code);
  return (size_t)more + 1;
}

/*!
 * \brief Change the case of each element, code point by code point.
 * \param pairs [in] num_pairs of a code point and its replacement, sorted.
 * \return 0, or -1 if the heap is full.
 */
static inline int tvmrt_text_case(const uint8_t* heap, const int64_t* x, int64_t count,
                                  const int32_t* pairs, int32_t num_pairs, int64_t* y,
                                  const char* where) {
  for (int64_t i = 0; i < count; i++) {
    const unsigned char* p = (const unsigned char*)tvmrt_text(x[i]);
    /* a code point grows to at most three bytes per original byte */
    char* const buffer = tvmrt_text_allocate(heap, 3 * strlen((const char*)p) + 1, where);
    size_t used = 0;
    if (buffer == NULL) return -1;
    while (*p != 0) {
      uint32_t code = tvmrt_text_next(&p);
      int32_t low = 0, high = num_pairs;
      while (low < high) {
        const int32_t middle = (low + high) / 2;
        if ((uint32_t)pairs[2 * middle] < code)
          low = middle + 1;
        else
          high = middle;
      }
      if (low < num_pairs && (uint32_t)pairs[2 * low] == code) code = (uint32_t)pairs[2 * low + 1];
      used += tvmrt_text_put(buffer + used, code);
    }
    buffer[used] = '\0';
    y[i] = (int64_t)(intptr_t)buffer;
  }
  return 0;
}

/* End of the part at p; *next is set to the start of the next one, or NULL. Without a delimiter,
 * parts are words, and p is the start of one. */
static inline const char* tvmrt_text_part(const char* p, const char* delimiter, int last,
                                          const char** next) {
  static const char blanks[] = " \t\n\v\f\r";
  *next = NULL;
  if (delimiter[0] == '\0') {
    const char* end = last ? p + strlen(p) : p + strcspn(p, blanks);
    const char* const more = end + strspn(end, blanks);
    if (*more != '\0') *next = more;
    while (last && end > p && strchr(blanks, end[-1]) != NULL) end--;
    return end;
  }
  const char* const end = last ? NULL : strstr(p, delimiter);
  if (end == NULL) return p + strlen(p);
  *next = end + strlen(delimiter);
  return end;
}

/* Start of the first part, or NULL. */
static inline const char* tvmrt_text_first(const char* text, const char* delimiter) {
  const char* const p = delimiter[0] == '\0' ? text + strspn(text, " \t\n\v\f\r") : text;
  return delimiter[0] == '\0' && *p == '\0' ? NULL : p;
}

/*! \brief Number of parts of each element, at most `max_tokens`; an empty delimiter: words. */
static inline void tvmrt_text_parts(const int64_t* x, int64_t count, const char* delimiter,
                                    int64_t max_tokens, int64_t* y) {
  for (int64_t i = 0; i < count; i++) {
    const char* p = tvmrt_text_first(tvmrt_text(x[i]), delimiter);
    for (y[i] = 0; p != NULL;) {
      y[i]++;
      (void)tvmrt_text_part(p, delimiter, y[i] == max_tokens, &p);
    }
  }
}

/*!
 * \brief Split each element into a row of width, padded with empty strings.
 * \return 0, or -1 if the heap is full.
 */
static inline int tvmrt_text_split(const uint8_t* heap, const int64_t* x, int64_t count,
                                   const char* delimiter, int64_t max_tokens, int64_t width,
                                   int64_t* y, const char* where) {
  for (int64_t i = 0; i < count; i++) {
    const char* p = tvmrt_text_first(tvmrt_text(x[i]), delimiter);
    for (int64_t j = 0; j < width; j++) {
      const char *begin = p, *end;
      y[i * width + j] = 0;
      if (begin == NULL) continue;
      end = tvmrt_text_part(begin, delimiter, j + 1 == max_tokens, &p);
      y[i * width + j] = tvmrt_text_copy(heap, begin, (size_t)(end - begin), where);
      if (y[i * width + j] == 0) return -1;
    }
  }
  return 0;
}

/* 0: end of a text; 1: a non-word byte; 2: a word byte. */
static inline int tvmrt_text_kind(unsigned char c) {
  if (c == 0) return 0;
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ? 2
                                                                                                : 1;
}

/* The next token from *at on, which is advanced past it; NULL if there is none. */
static inline const unsigned char* tvmrt_text_token(const unsigned char* text,
                                                    const unsigned char** at,
                                                    const uint8_t* classes, const int32_t* table,
                                                    int32_t num_classes, int32_t default_label) {
  const int32_t width = num_classes + 3;
  for (const unsigned char* begin = *at; *begin != 0; begin++) {
    const unsigned char* end = NULL;
    const unsigned char* p = begin;
    int32_t points = 0;
    int32_t state = begin == text ? 0 : tvmrt_text_kind(begin[-1]);
    while (*p != 0) {
      state = table[state * width + classes[*p++]];
      if (table[state * width + num_classes + tvmrt_text_kind(*p)] != 0) end = p;
    }
    if (end == NULL) continue;
    *at = end;
    for (p = begin; p < end; p++) points += (*p & 0xc0) != 0x80;
    if (points >= default_label) return begin;
    begin = end - 1;
  }
  return NULL;
}

/*!
 * \brief Number of tokens that an automaton accepts in each element.
 * \param classes The class of each byte.
 * \param table   For each state the next one by class, then whether a token may end before the end
 * of the text, a non-word byte, a word byte. A token starts in state 0, 1 or 2 after these.
 * \param default_label   Minimum code points of a token.
 */
static inline void tvmrt_text_tokens_count(const int64_t* x, int64_t count, const uint8_t* classes,
                                           const int32_t* table, int32_t num_classes,
                                           int32_t default_label, int64_t* y) {
  for (int64_t i = 0; i < count; i++) {
    const unsigned char* const text = (const unsigned char*)tvmrt_text(x[i]);
    const unsigned char* at = text;
    for (y[i] = 0; tvmrt_text_token(text, &at, classes, table, num_classes, default_label) != NULL;)
      y[i]++;
  }
}

/*!
 * \brief The tokens of each element, a row of width, padded with `pad`.
 * \return 0, or -1 if the heap is full.
 */
static inline int tvmrt_text_tokens(const uint8_t* heap, const int64_t* x, int64_t count,
                                    const uint8_t* classes, const int32_t* table,
                                    int32_t num_classes, int32_t default_label, int64_t width,
                                    const char* pad, int64_t* y, const char* where) {
  for (int64_t i = 0; i < count; i++) {
    const unsigned char* const text = (const unsigned char*)tvmrt_text(x[i]);
    const unsigned char* at = text;
    for (int64_t j = 0; j < width; j++) {
      const unsigned char* const begin =
          tvmrt_text_token(text, &at, classes, table, num_classes, default_label);
      y[i * width + j] = (int64_t)(intptr_t)pad;
      if (begin == NULL) continue;
      y[i * width + j] = tvmrt_text_copy(heap, (const char*)begin, (size_t)(at - begin), where);
      if (y[i * width + j] == 0) return -1;
    }
  }
  return 0;
}

/* Check that a number extends to the end of an element. Return 0, or -1 with an error. */
static inline int tvmrt_text_check_end(const char* text, const char* end, const char* where) {
  if (end != text && end[strspn(end, " \t\n\v\f\r")] == '\0') return 0;
  char what[128];
  (void)snprintf(what, sizeof(what), "has '%.60s', which is not a valid number", text);
  return tvmrt_text_fail("ValueError", where, what);
}

/*! \brief Parse the elements as floats or integers. Return 0, or -1 with an error. */
static inline int tvmrt_text_to_float64(const int64_t* x, int64_t count, double* y,
                                        const char* where) {
  for (int64_t i = 0; i < count; i++) {
    char* end;
    y[i] = strtod(tvmrt_text(x[i]), &end);
    if (tvmrt_text_check_end(tvmrt_text(x[i]), end, where) != 0) return -1;
  }
  return 0;
}

static inline int tvmrt_text_to_int64(const int64_t* x, int64_t count, int64_t* y,
                                      const char* where) {
  for (int64_t i = 0; i < count; i++) {
    char* end;
    y[i] = (int64_t)strtoll(tvmrt_text(x[i]), &end, 10);
    if (tvmrt_text_check_end(tvmrt_text(x[i]), end, where) != 0) return -1;
  }
  return 0;
}

/*! \brief Format integers as strings. Return 0, or -1 if the heap is full. */
static inline int tvmrt_text_of_int64(const uint8_t* heap, const int64_t* x, int64_t count,
                                      int64_t* y, const char* where) {
  for (int64_t i = 0; i < count; i++) {
    char text[32];
    const int used = snprintf(text, sizeof(text), "%lld", (long long)x[i]);
    y[i] = tvmrt_text_copy(heap, text, (size_t)used, where);
    if (y[i] == 0) return -1;
  }
  return 0;
}

/*!
 * \brief Format floats as strings with the fewest digits that read back as the same float.
 * \param single Whether the values are float32's. Return 0, or -1 if the heap is full.
 */
static inline int tvmrt_text_of_float64(const uint8_t* heap, const double* x, int64_t count,
                                        int single, int64_t* y, const char* where) {
  for (int64_t i = 0; i < count; i++) {
    char text[40];
    int used = 0;
    for (int digits = 1; digits <= 17; digits++) {
      used = snprintf(text, sizeof(text), "%.*g", digits, x[i]);
      const double back = strtod(text, NULL);
      if (back == x[i] || (single && (float)back == (float)x[i])) break;
    }
    if (x[i] != x[i]) used = snprintf(text, sizeof(text), "nan"); /* of either sign */
    y[i] = tvmrt_text_copy(heap, text, (size_t)used, where);
    if (y[i] == 0) return -1;
  }
  return 0;
}

#endif /* TVM_RUNTIME_KERNELS_OP_STRING_TENSORS_H_ */
