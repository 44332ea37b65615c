/* Firmware runtime: data types from text: a kind, bits, and lanes after an 'x'. */
#include "dtype.h"

#include <tvm/runtime/crt/packed_func.h>

typedef struct kind {
  char name[7];
  uint8_t code;
} kind;

static const kind kinds[] = {
    {"int", kDLInt}, {"uint", kDLUInt}, {"float", kDLFloat}, {"bfloat", kDLBfloat}};

/* The text after a name, or NULL if it does not begin with it. */
static const char* after(const char* text, const char* name) {
  for (; *name != '\0'; ++name, ++text) {
    if (*text != *name) return NULL;
  }
  return text;
}

/* A number of at most 16 bits; `missing` if there is no digit. */
static const char* read_number(const char* text, unsigned missing, unsigned* out) {
  unsigned value = 0;
  const char* p = text;
  for (; *p >= '0' && *p <= '9' && value < 6553; ++p) value = value * 10 + (unsigned)(*p - '0');
  *out = p == text ? missing : value;
  return p;
}

int tvmrt__read_dtype(const char* text, char end, DLDataType* out) {
  const char* p = after(text, "bool");
  unsigned bits = 1;
  unsigned lanes = 1;
  size_t i;
  out->code = kDLUInt;
  for (i = 0; p == NULL && i < sizeof(kinds) / sizeof(kinds[0]); ++i) {
    p = after(text, kinds[i].name);
    if (p == NULL) continue;
    out->code = kinds[i].code;
    p = read_number(p, 32, &bits);
  }
  if (p != NULL && *p == 'x') p = read_number(p + 1, 0, &lanes);
  if (p == NULL || *p != end || bits == 0 || bits > 128 || lanes == 0) return 0;
  out->bits = (uint8_t)bits;
  out->lanes = (uint16_t)lanes;
  return 1;
}

DLDataType String2DLDataType(const char* s) {
  DLDataType dtype = {0, 0, 0};
  if (s == NULL || !tvmrt__read_dtype(s, '\0', &dtype)) dtype.code = dtype.bits = 0;
  if (dtype.bits == 0) dtype.lanes = 0;
  return dtype;
}
