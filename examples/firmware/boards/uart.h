/* The board's serial line: 8 bits, no parity, no flow control. */
#ifndef UART_H_
#define UART_H_

#include <stdint.h>

void uart_start(void);

/* The next byte; the processor sleeps until it has come. */
uint8_t uart_read(void);

/* Waits until there is room for it. */
void uart_write(uint8_t byte);

#endif /* UART_H_ */
