/* Firmware runtime: data types from text.
 *
 * The list of names is in dtype.h and shared with the host. Errors have no text: readers of graphs
 * reject the graph, and String2DLDataType() returns a type with 0 bits. */
#include "dtype.h"

#include <tvm/runtime/crt/packed_func.h>

typedef struct kind {
  char name[7];
  uint8_t code;
  uint8_t bits; /* if the text has none */
} kind;

#define ROW(name, code, bits) {name, code, bits},
static const kind kinds[] = {TVMRT_DTYPE_KINDS(ROW)};

/* The text after a name, or NULL if it does not begin with the name. */
static const char* skip_prefix(const char* text, const char* name) {
  for (; *name != '\0'; ++name, ++text) {
    if (*text != *name) return NULL;
  }
  return text;
}

/* `end` is the character that must follow: NUL, or the quotation mark of a JSON text. */
int tvmrt__read_dtype(const char* text, char end, DLDataType* out) {
  const kind* k = kinds;
  for (; k < kinds + sizeof(kinds) / sizeof(kinds[0]); ++k) {
    const char* p = skip_prefix(text, k->name);
    if (p == NULL) continue;
    out->code = k->code;
    return tvmrt__read_bits(p, end, k->bits, out);
  }
  return 0;
}

/* 0 bits and 0 lanes if `s` is not a type, also for NULL. */
DLDataType String2DLDataType(const char* s) {
  DLDataType dtype = {0, 0, 0};
  if (s == NULL || !tvmrt__read_dtype(s, '\0', &dtype)) dtype.code = dtype.bits = 0;
  if (dtype.bits == 0) dtype.lanes = 0;
  return dtype;
}
