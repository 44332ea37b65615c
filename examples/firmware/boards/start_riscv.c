/* From reset to main on RISC-V: stack and global pointer, trap, variables. */
#include <stdint.h>
#include <string.h>

#include "boards/board.h"

extern char data_begin[], data_end[], data_in_flash[], bss_begin[], bss_end[];

int main(void);
_Noreturn void start_c(void);
_Noreturn void fault(void);

/* tp is where the only thread's variables are. */
__asm(
    ".section .vectors, \"ax\"\n"
    ".global start\n"
    "start:\n"
    "  .option push\n"
    "  .option norelax\n"
    "  .option arch, +zicsr\n"
    "  la gp, __global_pointer$\n"
    "  la sp, stack_top\n"
    "  la tp, thread_begin\n"
    "  la t0, trap\n"
    "  csrw mtvec, t0\n"
    "  .option pop\n"
    "  tail start_c\n"
    "  .balign 4\n"
    "trap:\n"
    "  tail fault\n"
    /* The three instructions that mean semihosting must be uncompressed and side by side. */
    ".section .text.semihost, \"ax\"\n"
    ".option push\n"
    ".option norvc\n"
    ".option norelax\n"
    ".balign 16\n"
    ".global semihost\n"
    "semihost:\n"
    "  slli x0, x0, 0x1f\n"
    "  ebreak\n"
    "  srai x0, x0, 7\n"
    "  ret\n"
    ".option pop\n"
    ".text\n");

void fault(void) {
  board_write("fault\n");
  board_exit(99);
}

void start_c(void) {
  /* mstatus.FS and VS: the floating point unit and vectors on, where there are some */
  __asm volatile(".option push\n.option arch, +zicsr\ncsrs mstatus, %0\n.option pop" ::"r"(0x2200));
  memcpy(data_begin, data_in_flash, (size_t)(data_end - data_begin));
  memset(bss_begin, 0, (size_t)(bss_end - bss_begin));
  board_exit(main());
}
