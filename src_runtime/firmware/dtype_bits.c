/* The numbers in names of data types; the host's too. */
#include "dtype.h"

/* Stops where one more digit could pass 16 bits; the digit that is left there makes the name
 * wrong. */
const char* tvmrt__read_number(const char* text, unsigned missing, unsigned* out) {
  unsigned value = 0;
  const char* p = text;
  for (; *p >= '0' && *p <= '9' && value <= 6553; ++p) value = value * 10 + (unsigned)(*p - '0');
  *out = p == text ? missing : value;
  return p;
}

/* Casts cut, comparisons find out. A bool is one bit: its `missing` says so, and no other number
 * fits. */
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
