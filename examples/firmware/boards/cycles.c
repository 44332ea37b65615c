/*
 * Counter that a traced network uses to measure its operators. QEMU has no cycle counter for
 * Cortex-M, so this reads the boards' clock of 25 or 20 MHz; with -icount, QEMU lets it advance
 * with the executed instructions. On a chip, read DWT->CYCCNT instead.
 */
#include <stdint.h>

uint32_t tvmrt_platform_cycles(void);

#if defined(__riscv)
uint32_t tvmrt_platform_cycles(void) {
  unsigned long cycles;
  __asm volatile(".option push\n.option arch, +zicsr\ncsrr %0, mcycle\n.option pop"
                 : "=r"(cycles)
                 :
                 : "memory");
  return (uint32_t)cycles;
}
#else
uint32_t tvmrt_platform_cycles(void) { return *(const volatile uint32_t*)CLOCK; }
#endif
