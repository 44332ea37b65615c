#include "print.h"

#include "boards/board.h"

void print_text(const char* text) { board_write(text); }

void print_unsigned(uint64_t number) {
  char text[21], *at = text + sizeof(text) - 1;
  *at = '\0';
  do {
    *--at = (char)('0' + number % 10);
    number /= 10;
  } while (number != 0);
  board_write(at);
}

void print_signed(int64_t number) {
  if (number < 0) board_write("-");
  print_unsigned(number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

/* A positive number to [1, 10), and the power of ten that this took. */
static double scale(double number, int* exponent) {
  *exponent = 0;
  for (; number >= 10; ++*exponent) number /= 10;
  for (; number < 1; --*exponent) number *= 10;
  return number;
}

void print_real(double number) {
  int exponent = 0;
  if (number != number) {
    board_write("nan");
    return;
  }
  if (number < 0) {
    board_write("-");
    number = -number;
  }
  if (number > 1e300) {
    board_write("inf");
    return;
  }
  uint32_t digits = number > 0 ? (uint32_t)(scale(number, &exponent) * 1e8 + 0.5) : 0;
  if (digits == 1000000000u) { /* rounded up to 10 */
    digits = 100000000u;
    ++exponent;
  }
  print_unsigned(digits / 100000000u);
  char text[10] = ".";
  for (int i = 8; i > 0; --i, digits /= 10) text[i] = (char)('0' + digits % 10);
  board_write(text);
  board_write(exponent < 0 ? "e-" : "e+");
  const int size = exponent < 0 ? -exponent : exponent;
  if (size < 10) board_write("0");
  print_unsigned((uint64_t)size);
}
