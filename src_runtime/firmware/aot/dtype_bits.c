/* Numbers in names of data types; also used by the host. */
#include "dtype.h"

/* Stops if one more digit could exceed 16 bits; the remaining digit then makes the name invalid. */
const char* tvmrt__read_number(const char* text, unsigned missing, unsigned* out) {
  unsigned value = 0;
  const char* p = text;
  for (; *p >= '0' && *p <= '9' && value <= 6553; ++p) value = value * 10 + (unsigned)(*p - '0');
  *out = p == text ? missing : value;
  return p;
}

/* Casts narrow; the comparisons detect it. A bool has one bit: its `missing` is 1, and no other
 * number is valid. */
int tvmrt__read_bits(const char* text, char end, unsigned missing, DLDataType* out) {
  unsigned bits;
  unsigned lanes = 1;
  const char* p = tvmrt__read_number(text, missing, &bits);
  if (*p == 'x') p = tvmrt__read_number(p + 1, 0, &lanes);
  out->bits = (uint8_t)bits;
  out->lanes = (uint16_t)lanes;
  return *p == end && bits != 0 && lanes != 0 && out->bits == bits && out->lanes == lanes &&
         (missing != 1 || bits == 1);
}
