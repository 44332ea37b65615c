/*
 * Flips bits in two builds of one network, "plain" and "guarded", and counts what the guard detects.
 *
 *     harness SEED FLIPS RUNS
 *
 * A flip is in the weights before a run, or in the workspace between two operators; half of each if
 * the network has both, and none if it has neither. The plain build shows whether a flip changes the
 * answer, or crashes the network. RUNS runs without flips count false alarms.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "networks.h" /* of inject.py: sizes, the two networks, their weights, random inputs */

enum { PLAIN, GUARDED, BUILDS };
enum { CRASHED = -1000000 }; /* no error code of a network */

typedef struct {
  long injected, changed, detected, silent, alarms;
} counts;

static uint64_t state;

static uint32_t draw(uint32_t end) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint32_t)((state >> 16) % end);
}

static unsigned char* weight_byte(int build, uint32_t byte) {
  for (int i = 0; i < WEIGHTS; ++i) {
    if (byte < weights[i].size) return weights[i].data[build] + byte;
    byte -= weights[i].size;
  }
  abort();
}

static void make_writable(void) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  for (int i = 0; i < WEIGHTS; ++i) {
    for (int b = 0; b < BUILDS; ++b) {
      const uintptr_t first = (uintptr_t)weights[i].data[b] / page * page;
      const uintptr_t end = (uintptr_t)weights[i].data[b] + weights[i].size;
      if (mprotect((void*)first, end - first, PROT_READ | PROT_WRITE) != 0) abort();
    }
  }
}

/* Run a build; flip this bit of the workspace before step `border`, unless it is negative. */
static int32_t run(int build, unsigned char* to, int border, uint32_t bit) {
  int32_t code = begin(build, to);
  for (int i = 0; i < STEPS && code == 0; ++i) {
    if (i == border) workspaces[build][bit / 8] ^= (unsigned char)(1 << bit % 8);
    code = step(build);
    if (code == STEP_MORE) code = 0;
  }
  return code;
}

static sigjmp_buf before_run;

static void on_crash(int number) { siglongjmp(before_run, number); }

/* Run a build; a flipped index may lead out of the memory of the program. */
static int32_t run_or_crash(int build, unsigned char* to, int border, uint32_t bit) {
  return sigsetjmp(before_run, 1) != 0 ? CRASHED : run(build, to, border, bit);
}

static unsigned char golden[OUTPUT_BYTES], plain[OUTPUT_BYTES], guarded[OUTPUT_BYTES];

static void inject(counts* c, int in_weights) {
  const uint32_t bit = draw(8 * (in_weights ? WEIGHT_BYTES : WORKSPACE_BYTES));
  const int border = in_weights ? -1 : (int)draw(STEPS);
  const unsigned char mask = (unsigned char)(1 << bit % 8);
  for (int b = 0; in_weights && b < BUILDS; ++b) *weight_byte(b, bit / 8) ^= mask;
  const int32_t failed = run_or_crash(PLAIN, plain, border, bit);
  int32_t code = in_weights ? idle() : 0;
  if (code == 0) code = run_or_crash(GUARDED, guarded, border, bit);
  for (int b = 0; in_weights && b < BUILDS; ++b) *weight_byte(b, bit / 8) ^= mask;
  reset_idle();
  const int changed = failed != 0 || memcmp(plain, golden, OUTPUT_BYTES) != 0;
  ++c->injected;
  c->changed += changed;
  c->detected += changed && code != 0 && code != CRASHED;
  c->silent += code == CRASHED || (code == 0 && memcmp(guarded, golden, OUTPUT_BYTES) != 0);
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  state = strtoull(argv[1], NULL, 10) * 2654435769u + 88172645463325252u;
  const int places = (WEIGHT_BYTES > 0) + (WORKSPACE_BYTES > 0);
  const long flips = places > 0 ? atol(argv[2]) : 0, runs = atol(argv[3]);
  counts c[2] = {{0}, {0}};
  long alarms = 0, differ = 0;
  make_writable();
  if (signal(SIGSEGV, on_crash) == SIG_ERR || signal(SIGBUS, on_crash) == SIG_ERR) return 4;
  for (long i = 0; i < flips; ++i) {
    if (i % 50 == 0) {
      fill_inputs();
      if (run(PLAIN, golden, -1, 0) != 0) return 3;
    }
    const int in_weights = places == 2 ? i % 2 == 0 : WEIGHT_BYTES > 0;
    inject(&c[!in_weights], in_weights);
  }
  for (long i = 0; i < runs; ++i) {
    if (i % 16 == 0) {
      fill_inputs();
      if (run(PLAIN, golden, -1, 0) != 0) return 3;
    }
    alarms += run(GUARDED, guarded, -1, 0) != 0 || idle() != 0;
    differ += memcmp(guarded, golden, OUTPUT_BYTES) != 0;
  }
  for (int i = 0; i < 2; ++i) {
    printf("%s %ld %ld %ld %ld\n", i == 0 ? "weights" : "tensors", c[i].injected, c[i].changed,
           c[i].detected, c[i].silent);
  }
  printf("runs %ld %ld %ld\n", runs, alarms, differ);
  return 0;
}
