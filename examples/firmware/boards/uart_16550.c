/* Serial port of the QEMU board virt: a 16550 connected to the PLIC. The boot code sets its speed. */
#include "boards/uart.h"

enum { DATA = 0, WAKE_UP = 1, STATE = 5 }; /* bytes from UART on */
enum { HAS_COME = 1, MAY_SEND = 0x20 };    /* bits of STATE, and of WAKE_UP */

static volatile uint8_t* const uart = (volatile uint8_t*)UART;
static volatile uint32_t* const priority = (volatile uint32_t*)0x0C000000; /* of every line */
static volatile uint32_t* const enable = (volatile uint32_t*)0x0C002000;   /* a bit a line */
static volatile uint32_t* const claim = (volatile uint32_t*)0x0C200004;

/* Interrupts end the processor's sleep, and are masked, so that nothing else happens. */
void uart_start(void) {
  priority[UART_LINE] = 1;
  enable[UART_LINE / 32] = 1u << (UART_LINE % 32);
  uart[WAKE_UP] = HAS_COME;
  /* mie.MEIE */
  __asm volatile(".option push\n.option arch, +zicsr\ncsrs mie, %0\n.option pop" ::"r"(0x800));
}

uint8_t uart_read(void) {
  while ((uart[STATE] & HAS_COME) == 0) {
    const uint32_t line = *claim;
    if (line != 0) {
      *claim = line;
    } else {
      __asm volatile("wfi" ::: "memory");
    }
  }
  return uart[DATA];
}

void uart_write(uint8_t byte) {
  while ((uart[STATE] & MAY_SEND) == 0) {
  }
  uart[DATA] = byte;
}
