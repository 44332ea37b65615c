/* The program around the checks: options, memory with guards, random numbers, reports.
 *
 *     checkasm [--seed N] [--test PART] [--data FILE]
 *
 * --seed changes the inputs, --test runs only the checks whose names have PART in them, --data names
 * the file of arrays that layers.py has written. */
#include "checkasm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>
#ifndef CK_BARE /* a board has no pages and no signals */
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum { GUARD = 64, PAGE = 1 << 16 /* the largest there is on Linux */ };

int ck_tasks = 1;
const char* ck_last_error = "";
static char now[512];
static const char* only = "";
static int failures, checks;
static FILE* arrays;
static uint32_t state[2] = {1, 2};

/* ---- memory ---- */

ck_buffer ck_new(size_t bytes, size_t align) {
  const size_t inside = (GUARD + bytes + align + PAGE - 1) / PAGE * PAGE;
  ck_buffer b;
#ifdef CK_BARE
  const size_t held = 2 * GUARD + bytes + align;
  (void)inside;
  b.mapped_bytes = held;
  b.mapped = malloc(held);
  if (b.mapped == NULL) exit(3);
  b.begin = (uint8_t*)b.mapped;
  b.data = (uint8_t*)(((uintptr_t)b.begin + GUARD + align - 1) & ~(uintptr_t)(align - 1));
  b.end = b.begin + held;
#else
  b.mapped_bytes = inside + PAGE;
  b.mapped = mmap(NULL, b.mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (b.mapped == MAP_FAILED) exit(3);
  b.end = (uint8_t*)b.mapped + inside;
  if (mprotect(b.end, PAGE, PROT_NONE) != 0) exit(3);
  b.data = (uint8_t*)((uintptr_t)(b.end - bytes) & ~(uintptr_t)(align - 1));
  b.begin = b.data - GUARD;
#endif
  b.bytes = bytes;
  memset(b.begin, 0xFF, (size_t)(b.end - b.begin));
  return b;
}

void ck_free(ck_buffer* b) {
  if (b->mapped == NULL) return;
#ifdef CK_BARE
  free(b->mapped);
#else
  munmap(b->mapped, b->mapped_bytes);
#endif
  memset(b, 0, sizeof(*b));
}

int ck_guards_intact(const ck_buffer* b) {
  for (const uint8_t* p = b->begin; p < b->data; p++) {
    if (*p != 0xFF) return 0;
  }
  for (const uint8_t* p = b->data + b->bytes; p < b->end; p++) {
    if (*p != 0xFF) return 0;
  }
  return 1;
}

ck_array ck_read(size_t size, size_t align) {
  ck_array a;
  uint32_t bytes = 0;
  memset(&a, 0, sizeof(a));
  if (fread(&bytes, 1, 4, arrays) != 4) exit(4);
  if (bytes == 0) return a;
  a.buffer = ck_new(bytes, align);
  a.count = (int)(bytes / size);
  if (fread(a.buffer.data, 1, bytes, arrays) != bytes) exit(4);
  return a;
}

/* ---- random numbers: xorshift64* ---- */

void ck_seed(uint32_t seed) {
  state[0] = seed * 2654435761u + 1;
  state[1] = seed ^ 0x9E3779B9u;
  for (int i = 0; i < 8; i++) (void)ck_random();
}

uint32_t ck_random(void) {
  uint64_t x = (uint64_t)state[0] << 32 | state[1];
  x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
  state[0] = (uint32_t)(x >> 32), state[1] = (uint32_t)x;
  return (uint32_t)((x * 0x2545F4914F6CDD1Dull) >> 32);
}

int ck_between(int least, int most) {
  return least + (int)(ck_random() % (uint32_t)(most - least + 1));
}

float ck_normal(void) { /* a sum of four is a good approximation */
  float sum = 0;
  for (int i = 0; i < 4; i++) sum += (float)(ck_random() >> 8) / 16777216.0f - 0.5f;
  return sum * 1.7320508f;
}

/* ---- results ---- */

void ck_begin(const char* format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(now, sizeof(now), format, list);
  va_end(list);
  checks++;
}

void ck_fail(const char* format, ...) {
  va_list list;
  va_start(list, format);
  printf("FAIL %s: ", now);
  vprintf(format, list);
  printf("\n");
  va_end(list);
  failures++;
}

int ck_is_wanted(const char* name) { return strstr(name, only) != NULL; }

/* ---- the runtime that kernels call ---- */

void* TVMBackendAllocWorkspace(int type, int id, uint64_t bytes, int code, int bits) {
  ck_buffer* b = (ck_buffer*)malloc(sizeof(*b));
  (void)type, (void)id, (void)code, (void)bits;
  *b = ck_new((size_t)bytes + 64, 64); /* whose first part knows the buffer */
  memcpy(b->data, &b, sizeof(b));
  return b->data + 64;
}

int TVMBackendFreeWorkspace(int type, int id, void* memory) {
  ck_buffer* b;
  (void)type, (void)id;
  memcpy(&b, (uint8_t*)memory - 64, sizeof(b));
  if (!ck_guards_intact(b)) ck_fail("bytes around the scratch memory were written");
  ck_free(b);
  free(b);
  return 0;
}

void TVMAPISetLastError(const char* message) { ck_last_error = message; }

int TVMBackendParallelLaunch(FTVMParallelLambda lambda, void* closure, int count) {
  TVMParallelGroupEnv env = {0, ck_tasks};
  (void)count;
  for (int task = 0; task < ck_tasks; task++) {
    if (lambda(task, &env, closure) != 0) return -1;
  }
  return 0;
}

#ifndef CK_BARE
static void crashed(int signal) {
  static const char text[] = "FAIL by a signal (11 is an access outside of the tensors): ";
  const char number[] = {(char)('0' + signal / 10), (char)('0' + signal % 10), ' ', 0};
  if (write(1, text, sizeof(text) - 1) < 0 || write(1, number, 3) < 0) _exit(2);
  if (write(1, now, strlen(now)) < 0 || write(1, "\n", 1) < 0) _exit(2);
  _exit(1);
}
#endif

int main(int count, char** words) {
  const char* data = "layers.bin";
  uint32_t seed = 1;
  for (int i = 1; i + 1 < count; i += 2) {
    if (strcmp(words[i], "--seed") == 0) seed = (uint32_t)strtoul(words[i + 1], NULL, 0);
    if (strcmp(words[i], "--test") == 0) only = words[i + 1];
    if (strcmp(words[i], "--data") == 0) data = words[i + 1];
  }
#ifndef CK_BARE
  signal(SIGSEGV, crashed);
  signal(SIGBUS, crashed);
  signal(SIGILL, crashed);
  signal(SIGFPE, crashed);
  signal(SIGABRT, crashed);
#endif
#if defined(__x86_64__) && defined(__linux__)
  (void)syscall(SYS_arch_prctl, 0x1023, 18); /* asks the system for the registers of AMX */
#endif
  arrays = fopen(data, "rb");
  if (arrays == NULL) {
    printf("cannot open %s\n", data);
    return 2;
  }
  ck_seed(seed);
  ck_all();
  fclose(arrays);
  printf("%d checks, %d failures, seed %u\n", checks, failures, (unsigned)seed);
  return failures > 0;
}
