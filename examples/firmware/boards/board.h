/*
 * Interface of a board to programs. This folder does it by semihosting: a debugger or QEMU on
 * the other side prints, writes files and takes the exit code. A product has a UART in place of
 * board_write, and nothing of the rest.
 */
#ifndef BOARD_H_
#define BOARD_H_

#include <stddef.h>

/* Print text. */
void board_write(const char* text);

/* Write a file on the machine of the debugger; 0 on success. */
int board_save(const char* name, const void* data, size_t bytes);

/* Stop; the debugger gets the code. */
_Noreturn void board_exit(int code);

#endif /* BOARD_H_ */
