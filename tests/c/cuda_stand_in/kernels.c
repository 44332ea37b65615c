/* libcuda: modules, and kernels that run on this machine. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <ucontext.h>
#include <unistd.h>

#include "driver.h"
#include "stand_in.h"

enum { MAX_THREADS = 1024, STACK_BYTES = 1 << 16 };

/* Modules --------------------------------------------------------------------------------------- */

/* As compiler.c writes them: a mark, a length, a shared object. */
EXPORT int cuModuleLoadData(void** out, const void* image) {
  char path[] = "/tmp/tvmrt-stand-in-XXXXXX";
  uint64_t size;
  int file;
  bool whole;
  FAIL_IF_ASKED();
  *out = NULL;
  if (memcmp(image, "STAND-IN", 8) != 0) return INVALID_IMAGE;
  memcpy(&size, (const char*)image + 8, sizeof(size));
  file = mkstemp(path);
  if (file < 0) return OUT_OF_MEMORY;
  whole = write(file, (const char*)image + 16, size) == (ssize_t)size;
  (void)close(file);
  if (whole) *out = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  (void)unlink(path);
  return *out == NULL ? INVALID_IMAGE : 0;
}

EXPORT int cuModuleUnload(void* module) {
  (void)dlclose(module);
  return 0;
}

typedef struct {
  unsigned int x, y, z;
} dim3;

typedef struct {
  void (*call)(void** parameters);
  int (*sizes)(int* out); /* of parameters in bytes; gives how many */
  dim3 *thread, *block, *threads, *blocks;
  void (**barrier)(void);
  const bool* has_barriers;
} function;

static void* symbol(void* module, const char* prefix, const char* name) {
  char text[256];
  (void)snprintf(text, sizeof(text), "%s%s", prefix, name);
  return dlsym(module, text);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the functions */
static function functions[4096];
static int num_functions;

EXPORT int cuModuleGetFunction(void** out, void* module, const char* name) {
  function f;
  int i;
  FAIL_IF_ASKED();
  *(void**)&f.call = symbol(module, "stand_in_call_", name);
  *(void**)&f.sizes = symbol(module, "stand_in_sizes_", name);
  if (f.call == NULL || f.sizes == NULL) return NOT_FOUND;
  f.thread = symbol(module, "stand_in_", "thread");
  f.block = symbol(module, "stand_in_", "block");
  f.threads = symbol(module, "stand_in_", "threads");
  f.blocks = symbol(module, "stand_in_", "blocks");
  f.barrier = symbol(module, "stand_in_", "barrier");
  f.has_barriers = symbol(module, "stand_in_", "has_barriers");
  (void)pthread_mutex_lock(&lock);
  for (i = 0; i < num_functions && functions[i].call != f.call; ++i) {
  }
  if (i == num_functions) functions[num_functions++] = f;
  functions[i] = f;
  (void)pthread_mutex_unlock(&lock);
  *out = &functions[i];
  return 0;
}

/* Kernels --------------------------------------------------------------------------------------- */

typedef struct {
  const function* f;
  unsigned int groups, group_size;
  int count;
  uint64_t values[128];
} call;

/* Threads of a block that meet at barriers: each has a stack, and they take turns. */
static ucontext_t turns, threads[MAX_THREADS];
static bool ended[MAX_THREADS];
static unsigned int current, left;
static void* given[128];
static const function* running;

static void barrier(void) { (void)swapcontext(&threads[current], &turns); }

static void begin_thread(void) {
  running->call(given);
  ended[current] = true;
}

static void run_block_with_barriers(const function* f, unsigned int size) {
  static char* stacks;
  if (stacks == NULL) stacks = malloc((size_t)MAX_THREADS * STACK_BYTES);
  running = f;
  left = size;
  *f->barrier = barrier;
  for (unsigned int t = 0; t < size; ++t) {
    (void)getcontext(&threads[t]);
    threads[t].uc_stack.ss_sp = stacks + (size_t)t * STACK_BYTES;
    threads[t].uc_stack.ss_size = STACK_BYTES;
    threads[t].uc_link = &turns;
    ended[t] = false;
    makecontext(&threads[t], begin_thread, 0);
  }
  while (left > 0) {
    for (current = 0; current < size; ++current) {
      if (ended[current]) continue;
      f->thread->x = current;
      (void)swapcontext(&turns, &threads[current]);
      left -= ended[current];
    }
  }
}

static void run_kernel(void* bytes) {
  call* c = bytes;
  for (int i = 0; i < c->count; ++i) given[i] = &c->values[i];
  *c->f->threads = (dim3){c->group_size, 1, 1};
  *c->f->blocks = (dim3){c->groups, 1, 1};
  for (unsigned int b = 0; b < c->groups; ++b) {
    c->f->block->x = b;
    if (*c->f->has_barriers) {
      run_block_with_barriers(c->f, c->group_size);
      continue;
    }
    for (unsigned int t = 0; t < c->group_size; ++t) {
      c->f->thread->x = t;
      c->f->call(given);
    }
  }
}

EXPORT int cuLaunchKernel(void* f, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                          unsigned int block_x, unsigned int block_y, unsigned int block_z,
                          unsigned int shared_bytes, void* where, void** parameters, void** extra) {
  int sizes[128];
  call c = {.f = f, .groups = grid_x, .group_size = block_x};
  FAIL_IF_ASKED();
  if (grid_y * grid_z * block_y * block_z != 1 || block_x > MAX_THREADS || shared_bytes != 0 ||
      extra != NULL || grid_x == 0 || block_x == 0) {
    return INVALID_VALUE;
  }
  c.count = c.f->sizes(sizes);
  for (int i = 0; i < c.count; ++i) memcpy(&c.values[i], parameters[i], (size_t)sizes[i]);
  return stand_in_enqueue(where, run_kernel, &c, sizeof(c));
}
