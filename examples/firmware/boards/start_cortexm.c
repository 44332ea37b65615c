/* From reset to main on a Cortex-M: vector table, floating point unit, variables. */
#include <stdint.h>
#include <string.h>

#include "boards/board.h"

extern char data_begin[], data_end[], data_in_flash[], bss_begin[], bss_end[], thread_begin[];
extern char stack_top[];

int main(void);
_Noreturn void start(void);
void* __aeabi_read_tp(void);

static _Noreturn void fault(void) {
  board_write("fault\n");
  board_exit(99);
}

/* Word 0 is the stack's top, word 1 where reset begins; the processor reads both. */
__attribute__((used, section(".vectors"))) static const void* const vectors[16] = {
    stack_top,          (const void*)start, (const void*)fault, (const void*)fault,
    (const void*)fault, (const void*)fault, (const void*)fault,
};

void start(void) {
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
  *(volatile uint32_t*)0xE000ED88 |= 0xFu << 20; /* CPACR: coprocessors 10 and 11 on */
  __asm volatile("dsb\n\tisb");
#endif
  memcpy(data_begin, data_in_flash, (size_t)(data_end - data_begin));
  memset(bss_begin, 0, (size_t)(bss_end - bss_begin));
  board_exit(main());
}

/* Where the only thread's variables are, 8 bytes before the first; may change nothing but r0. */
__attribute__((naked)) void* __aeabi_read_tp(void) {
  __asm volatile("ldr r0, =thread_begin - 8\n\tbx lr");
}
