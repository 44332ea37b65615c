/* Semihosting: a special breakpoint, an operation's number and a block of arguments. */
#include <stdint.h>
#include <string.h>

#include "boards/board.h"

enum { SYS_OPEN = 0x01, SYS_CLOSE = 0x02, SYS_WRITE0 = 0x04, SYS_WRITE = 0x05, SYS_EXIT = 0x20 };
enum { OPEN_WRITE_BINARY = 5, APPLICATION_EXIT = 0x20026 };

#if defined(__riscv)
intptr_t semihost(intptr_t operation, const void* arguments); /* start_riscv.c */
#else
static intptr_t semihost(intptr_t operation, const void* arguments) {
  register intptr_t r0 __asm("r0") = operation;
  register const void* r1 __asm("r1") = arguments;
  __asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}
#endif

void board_write(const char* text) { (void)semihost(SYS_WRITE0, text); }

int board_save(const char* name, const void* data, size_t bytes) {
  const intptr_t open[] = {(intptr_t)name, OPEN_WRITE_BINARY, (intptr_t)strlen(name)};
  const intptr_t file = semihost(SYS_OPEN, open);
  if (file < 0) return -1;
  const intptr_t write[] = {file, (intptr_t)data, (intptr_t)bytes};
  const intptr_t unwritten = semihost(SYS_WRITE, write);
  const intptr_t closed = semihost(SYS_CLOSE, &file);
  return unwritten == 0 && closed == 0 ? 0 : -1;
}

void board_exit(int code) {
  const intptr_t reason[] = {APPLICATION_EXIT, code};
  (void)semihost(SYS_EXIT, reason);
  for (;;) {
  }
}
