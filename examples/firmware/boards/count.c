/*
 * One run of a network between two functions, by whose addresses count_blocks.c knows when to
 * count. tvmrt inspect --board writes the file that has count_run(), and the inputs.
 */
#include "boards/board.h"

int count_run(void);
void count_inputs(void);
void count_begin(void);
void count_end(void);
void count_fail(void);

/* Each does something, so that no two are one function and none is left out. */
static volatile int stage;
__attribute__((noinline)) void count_begin(void) { stage = 1; }
__attribute__((noinline)) void count_end(void) { stage = 2; }
__attribute__((noinline)) void count_fail(void) { stage = 3; }

int main(void) {
  int code;
  count_inputs();
  count_begin();
  code = count_run();
  if (code != 0) count_fail();
  count_end();
  return code;
}

void board_write(const char* text) { (void)text; }

void board_exit(int code) {
  (void)code;
  count_fail();
  for (;;) {
  }
}
