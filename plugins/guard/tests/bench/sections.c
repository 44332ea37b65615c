/*
 * Flips bits of constants of a guarded network, one before each run, and prints a letter for each:
 *
 *     d  the run returned an error code        n  no error code, and the right outputs
 *     w  no error code, but wrong outputs      c  the run crashed, or did not end
 *
 * flips.bin has the flips as pairs of words: address and bit. On a host, each flip has its own
 * process. On a board, the program ends after the first wrong output, or crashes; the caller
 * then starts it again. flips.bin begins with the flip to start with.
 */
#include "sections.h" /* of sections.py: the network with its inputs and outputs */

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static unsigned char golden[OUTPUT_BYTES];

static char result_of_run(void) {
  int32_t code = idle();
  memset(outputs, 0, sizeof(outputs));
  if (code == 0) code = run();
  return code != 0 ? 'd' : memcmp(outputs, golden, sizeof(golden)) == 0 ? 'n' : 'w';
}

static void flip(uintptr_t address, unsigned bit) {
  *(volatile unsigned char*)address ^= (unsigned char)(1u << bit);
}

#ifdef BOARD
static char result_of_flip(uintptr_t address, unsigned bit) {
  flip(address, bit);
  const char result = result_of_run();
  flip(address, bit);
  reset_idle();
  return result;
}
#else
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static char result_of_flip(uintptr_t address, unsigned bit) {
  const uintptr_t page = address / 4096 * 4096;
  int status;
  const pid_t child = fork();
  if (child < 0) exit(4);
  if (child == 0) {
    if (freopen("/dev/null", "w", stderr) == NULL) _exit('e');
    if (mprotect((void*)page, 4096, PROT_READ | PROT_WRITE) != 0) _exit('e');
    alarm(20);
    flip(address, bit);
    _exit(result_of_run());
  }
  if (waitpid(child, &status, 0) != child) exit(5);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 'e') exit(6);
  const int ended = WIFEXITED(status) && strchr("dnw", WEXITSTATUS(status)) != NULL;
  return ended ? (char)WEXITSTATUS(status) : 'c';
}
#endif

int main(void) {
  uint64_t of[2], first;
  FILE* const flips = fopen("flips.bin", "rb");
  if (flips == NULL || fread(&first, sizeof(first), 1, flips) != 1) return 2;
  fill_inputs();
  if (run() != 0) return 3;
  memcpy(golden, outputs, sizeof(golden));
  if (result_of_run() != 'n') return 3;
  if (fseek(flips, (long)(first * sizeof(of)), SEEK_CUR) != 0) return 2;
  while (fread(of, sizeof(of), 1, flips) == 1) {
    const char result = result_of_flip((uintptr_t)of[0], (unsigned)of[1]);
    putchar(result);
    fflush(stdout);
#ifdef BOARD
    if (result == 'w') return 0;
#endif
  }
  putchar('\n');
  return 0;
}
