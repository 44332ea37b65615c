/* The serial line of Arm's MPS2 and MPS3 boards. */
#include "boards/uart.h"

enum { DATA, STATE, CONTROL, CLEAR, DIVISOR };   /* words from UART on */
enum { FULL_TO_SEND = 1, HAS_COME = 2 };         /* bits of STATE, and of CLEAR */
enum { SEND_AND_RECEIVE = 3, WAKE_UP = 1 << 3 }; /* of CONTROL */
enum { BAUD = 115200 };

static volatile uint32_t* const uart = (volatile uint32_t*)UART;
/* Of the interrupt controller, a bit a line: enable, and no longer pending. */
static volatile uint32_t* const enable = (volatile uint32_t*)0xE000E100;
static volatile uint32_t* const unpend = (volatile uint32_t*)0xE000E280;

/* Interrupts end the processor's sleep, and are masked, so that nothing else happens. */
void uart_start(void) {
  __asm volatile("cpsid i");
  uart[DIVISOR] = CLOCK_HZ / BAUD;
  uart[CONTROL] = SEND_AND_RECEIVE | WAKE_UP;
  enable[UART_LINE / 32] = 1u << (UART_LINE % 32);
}

uint8_t uart_read(void) {
  for (;;) {
    uart[CLEAR] = HAS_COME;
    unpend[UART_LINE / 32] = 1u << (UART_LINE % 32);
    if ((uart[STATE] & HAS_COME) != 0) return (uint8_t)uart[DATA];
    __asm volatile("dsb\n\twfi" ::: "memory");
  }
}

void uart_write(uint8_t byte) {
  while ((uart[STATE] & FULL_TO_SEND) != 0) {
  }
  uart[DATA] = byte;
}
