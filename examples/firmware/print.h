/* Numbers as text, without stdio. */
#ifndef PRINT_H_
#define PRINT_H_

#include <stdint.h>

void print_text(const char* text);
void print_signed(int64_t number);
void print_unsigned(uint64_t number);
/* Nine significant digits, which tell any two floats apart: -1.25000000e+00. */
void print_real(double number);

#endif /* PRINT_H_ */
