/* Names of element types: "float32", "int8x4", "bool", "bfloat16", "handle" ...
 *
 * Names are those of TVM and numpy. Codes are DLPack's, except bool, which TVM stores as uint1, and
 * two small floats that TVM numbered before DLPack did. Firmware reads the common names by the same
 * list (firmware/aot/dtype.h) and supports no others. */
#include "dtype.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../firmware/aot/dtype.h"

/* Codes of small floats. The first two are those of TVM 0.14 and later (6 means bool in DLPack,
 * which this runtime stores as uint1); the others are DLPack's. */
enum {
  CODE_E4M3 = 6,
  CODE_E5M2 = 7,
  CODE_E4M3FNUZ = 11,
  CODE_E5M2FNUZ = 13,
  CODE_E8M0FNU = 14,
  CODE_E2M1FN = 17,
  CODE_FIRST_CUSTOM = 129
};

typedef struct {
  char name[16];
  uint8_t code;
  uint8_t default_bits;
} base_type;

/* If two names have one code, the first is printed: uint8, not bool8. */
#define ROW(name, code, bits) {name, code, bits},
static const base_type base_types[] = {
    TVMRT_DTYPE_KINDS(ROW) /* also in firmware */
    {"e4m3_float", CODE_E4M3, 8},
    {"e5m2_float", CODE_E5M2, 8},
    {"e4m3fnuz_float", CODE_E4M3FNUZ, 8},
    {"e5m2fnuz_float", CODE_E5M2FNUZ, 8},
    {"e8m0fnu_float", CODE_E8M0FNU, 8},
    {"e2m1_float", CODE_E2M1FN, 4},
    {"complex", kDLComplex, 64},
    {"handle", kDLOpaqueHandle, 64},
};

/* NULL for types that a front end registered, and for future codes of DLPack. */
static const char* base_name(uint8_t code) {
  size_t i;
  for (i = 0; i < sizeof(base_types) / sizeof(base_types[0]); ++i) {
    if (base_types[i].code == code) return base_types[i].name;
  }
  return NULL;
}

void tvmrt__dtype_to_text(DLDataType dtype, char text[TVMRT_DTYPE_TEXT_BYTES]) {
  const char* name = base_name(dtype.code);
  char lanes[8] = "";
  if (dtype.lanes > 1) (void)snprintf(lanes, sizeof(lanes), "x%u", dtype.lanes);
  if (dtype.code == kDLUInt && dtype.bits == 1) {
    (void)snprintf(text, TVMRT_DTYPE_TEXT_BYTES, "bool%s", lanes);
  } else if (dtype.code == kDLOpaqueHandle) {
    (void)snprintf(text, TVMRT_DTYPE_TEXT_BYTES, dtype.bits == 0 ? "void" : "handle%s", lanes);
  } else if (name == NULL) {
    (void)snprintf(text, TVMRT_DTYPE_TEXT_BYTES, "custom[%u]%u%s", dtype.code, dtype.bits, lanes);
  } else {
    (void)snprintf(text, TVMRT_DTYPE_TEXT_BYTES, "%s%u%s", name, dtype.bits, lanes);
  }
}

/* Truncated, because the text may come from any file. */
static int bad_text(const char* text) {
  return tvmrt__fail_value(
      "'%.40s' is not a data type; expected a name such as float32, int8, uint8, bool, "
      "bfloat16 or float32x4.",
      text);
}

/* Parse the part after the name: bits and lanes, both optional. *out is written only on success. */
static int read_bits(const char* text, const char* tail, unsigned code, unsigned missing,
                     DLDataType* out) {
  DLDataType dtype = {(uint8_t)code, 0, 0};
  if (!tvmrt__read_bits(tail, '\0', missing, &dtype)) return bad_text(text);
  *out = dtype;
  return 0;
}

/* "custom[129]32": types that a front end registered are known by number only. */
static int read_custom(const char* text, DLDataType* out) {
  unsigned code;
  const char* tail = tvmrt__read_number(text + strlen("custom["), 0, &code);
  if (*tail != ']' || code < CODE_FIRST_CUSTOM || code > 255) return bad_text(text);
  return read_bits(text, tail + 1, code, 32, out);
}

/* Missing parts have defaults: "int" is int32, "float32x4" four lanes. */
int tvmrt__dtype_from_text(const char* text, DLDataType* out) {
  size_t i;
  if (text[0] == '\0' || strcmp(text, "void") == 0) {
    *out = (DLDataType){kDLOpaqueHandle, 0, 0};
    return 0;
  }
  if (strncmp(text, "custom[", 7) == 0) return read_custom(text, out);
  for (i = 0; i < sizeof(base_types) / sizeof(base_types[0]); ++i) {
    size_t length = strlen(base_types[i].name);
    if (strncmp(text, base_types[i].name, length) != 0) continue;
    return read_bits(text, text + length, base_types[i].code, base_types[i].default_bits, out);
  }
  return bad_text(text);
}
