/* libcuda: memory, streams and events of a GPU that is this machine. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver.h"
#include "stand_in.h"

enum { MAX_BLOCKS = 8192, MAX_PINNED = 4096 };
static const size_t MEMORY_BYTES = (size_t)2 << 30;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Memory ---------------------------------------------------------------------------------------- */

typedef struct {
  char* address;
  size_t bytes;
} range;

static char* memory; /* of the GPU: nobody may touch it but what runs on a stream */
static range blocks[MAX_BLOCKS], pinned[MAX_PINNED];
static int num_blocks, num_pinned;

static void open_memory(bool open) {
  (void)mprotect(memory, MEMORY_BYTES, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

/* The first gap that is large enough; blocks are kept in the order of their addresses. */
EXPORT int cuMemAlloc_v2(uint64_t* out, size_t bytes) {
  const size_t wanted = (bytes + 511) / 512 * 512;
  char* at;
  int i;
  FAIL_IF_ASKED();
  (void)pthread_mutex_lock(&lock);
  at = memory;
  for (i = 0; i < num_blocks && (size_t)(blocks[i].address - at) < wanted; ++i) {
    at = blocks[i].address + blocks[i].bytes;
  }
  if (num_blocks == MAX_BLOCKS || wanted > (size_t)(memory + MEMORY_BYTES - at)) {
    (void)pthread_mutex_unlock(&lock);
    return OUT_OF_MEMORY;
  }
  memmove(&blocks[i + 1], &blocks[i], (size_t)(num_blocks++ - i) * sizeof(range));
  blocks[i] = (range){at, wanted};
  (void)pthread_mutex_unlock(&lock);
  *out = (uint64_t)(uintptr_t)at;
  return 0;
}

EXPORT int cuMemFree_v2(uint64_t address) {
  int i;
  FAIL_IF_ASKED();
  (void)pthread_mutex_lock(&lock);
  for (i = 0; i < num_blocks && (uint64_t)(uintptr_t)blocks[i].address != address; ++i) {
  }
  if (i == num_blocks) {
    (void)pthread_mutex_unlock(&lock);
    return INVALID_VALUE;
  }
  memmove(&blocks[i], &blocks[i + 1], (size_t)(--num_blocks - i) * sizeof(range));
  (void)pthread_mutex_unlock(&lock);
  return 0;
}

EXPORT int stand_in_blocks(void) { return num_blocks; }

EXPORT int cuMemAllocHost_v2(void** out, size_t bytes) {
  FAIL_IF_ASKED();
  (void)pthread_mutex_lock(&lock);
  *out = num_pinned < MAX_PINNED ? malloc(bytes) : NULL;
  if (*out != NULL) pinned[num_pinned++] = (range){*out, bytes};
  (void)pthread_mutex_unlock(&lock);
  return *out == NULL ? OUT_OF_MEMORY : 0;
}

EXPORT int cuMemFreeHost(void* address) {
  int i;
  FAIL_IF_ASKED();
  (void)pthread_mutex_lock(&lock);
  for (i = 0; i < num_pinned && pinned[i].address != (char*)address; ++i) {
  }
  if (i < num_pinned) pinned[i] = pinned[--num_pinned];
  (void)pthread_mutex_unlock(&lock);
  free(address);
  return 0;
}

static bool is_pinned(const void* address) {
  for (int i = 0; i < num_pinned; ++i) {
    if ((const char*)address >= pinned[i].address &&
        (const char*)address < pinned[i].address + pinned[i].bytes) {
      return true;
    }
  }
  return false;
}

/* Streams and events ---------------------------------------------------------------------------- */

typedef struct event {
  struct stream* where;
  long place; /* of the record in its stream's work; -1: never recorded */
} event;

typedef struct work {
  void (*run)(void*);
  void* bytes;
  event until; /* of another stream, to wait for; where NULL: none */
  struct work* next;
} work;

typedef struct stream {
  work *first, **last;
  long given, done;
} stream;

static void run_until(stream* s, long place);

/* With the lock held. */
static void run_one(stream* s) {
  work* w = s->first;
  s->first = w->next;
  if (s->first == NULL) s->last = &s->first;
  if (w->until.where != NULL) run_until(w->until.where, w->until.place);
  if (w->run != NULL) {
    open_memory(true);
    w->run(w->bytes);
    open_memory(false);
  }
  s->done++;
  free(w->bytes);
  free(w);
}

static void run_until(stream* s, long place) {
  while (s->done < place && s->first != NULL) run_one(s);
}

static int append(stream* s, void (*run)(void*), const void* bytes, size_t size, event until) {
  work* w = calloc(1, sizeof(*w));
  if (w == NULL) return OUT_OF_MEMORY;
  w->run = run;
  w->until = until;
  w->bytes = malloc(size + 1);
  if (w->bytes == NULL) {
    free(w);
    return OUT_OF_MEMORY;
  }
  if (size > 0) memcpy(w->bytes, bytes, size);
  (void)pthread_mutex_lock(&lock);
  *s->last = w;
  s->last = &w->next;
  s->given++;
  (void)pthread_mutex_unlock(&lock);
  return 0;
}

EXPORT int stand_in_enqueue(void* stream_, void (*run)(void*), const void* bytes, size_t size) {
  return append(stream_, run, bytes, size, (event){NULL, 0});
}

EXPORT int cuStreamCreate(void** out, unsigned int flags) {
  stream* s;
  FAIL_IF_ASKED();
  (void)flags;
  s = calloc(1, sizeof(*s));
  if (s == NULL) return OUT_OF_MEMORY;
  s->last = &s->first;
  *out = s;
  return 0;
}

EXPORT int cuStreamSynchronize(void* given) {
  stream* s = given;
  FAIL_IF_ASKED();
  (void)pthread_mutex_lock(&lock);
  run_until(s, s->given);
  (void)pthread_mutex_unlock(&lock);
  return 0;
}

EXPORT int cuStreamDestroy_v2(void* given) {
  stream* s = given;
  (void)pthread_mutex_lock(&lock);
  run_until(s, s->given);
  (void)pthread_mutex_unlock(&lock);
  free(s);
  return 0;
}

EXPORT int cuEventCreate(void** out, unsigned int flags) {
  event* e;
  FAIL_IF_ASKED();
  (void)flags;
  e = calloc(1, sizeof(*e));
  *out = e;
  return e == NULL ? OUT_OF_MEMORY : 0;
}

EXPORT int cuEventDestroy_v2(void* e) {
  free(e);
  return 0;
}

EXPORT int cuEventRecord(void* given, void* where) {
  event* e = given;
  FAIL_IF_ASKED();
  e->where = where;
  e->place = e->where->given;
  return 0;
}

EXPORT int cuStreamWaitEvent(void* given, void* until, unsigned int flags) {
  FAIL_IF_ASKED();
  (void)flags;
  return append(given, NULL, NULL, 0, *(const event*)until);
}

/* A step of the work, then the answer: who asks often enough gets there. */
EXPORT int cuEventQuery(void* given) {
  event* e = given;
  bool ready;
  FAIL_IF_ASKED();
  (void)pthread_mutex_lock(&lock);
  if (e->where != NULL && e->where->done < e->place) run_one(e->where);
  ready = e->where == NULL || e->where->done >= e->place;
  (void)pthread_mutex_unlock(&lock);
  return ready ? 0 : NOT_READY;
}

EXPORT int cuEventSynchronize(void* given) {
  event* e = given;
  FAIL_IF_ASKED();
  (void)pthread_mutex_lock(&lock);
  if (e->where != NULL) run_until(e->where, e->place);
  (void)pthread_mutex_unlock(&lock);
  return 0;
}

/* Copies ---------------------------------------------------------------------------------------- */

typedef struct {
  void* to;
  const void* from; /* NULL: the bytes behind this */
  size_t bytes;
} transfer;

static void run_transfer(void* given) {
  const transfer* t = given;
  memcpy(t->to, t->from == NULL ? (const void*)(t + 1) : t->from, t->bytes);
}

static bool inside(const void* address, size_t bytes) {
  for (int i = 0; i < num_blocks; ++i) {
    if ((const char*)address >= blocks[i].address &&
        (const char*)address + bytes <= blocks[i].address + blocks[i].bytes) {
      return true;
    }
  }
  return false;
}

EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* where) {
  transfer t = {(void*)(uintptr_t)to, from, bytes};
  char* whole;
  int rc;
  FAIL_IF_ASKED();
  if (!inside(t.to, bytes)) return INVALID_VALUE;
  if (is_pinned(from)) return stand_in_enqueue(where, run_transfer, &t, sizeof(t));
  whole = malloc(sizeof(t) + bytes); /* other memory is read before the call returns */
  if (whole == NULL) return OUT_OF_MEMORY;
  t.from = NULL;
  memcpy(whole, &t, sizeof(t));
  memcpy(whole + sizeof(t), from, bytes);
  rc = stand_in_enqueue(where, run_transfer, whole, sizeof(t) + bytes);
  free(whole);
  return rc;
}

EXPORT int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* where) {
  const transfer t = {to, (const void*)(uintptr_t)from, bytes};
  FAIL_IF_ASKED();
  if (!inside(t.from, bytes)) return INVALID_VALUE;
  return stand_in_enqueue(where, run_transfer, &t, sizeof(t));
}

EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* where) {
  const transfer t = {(void*)(uintptr_t)to, (const void*)(uintptr_t)from, bytes};
  FAIL_IF_ASKED();
  if (!inside(t.from, bytes) || !inside(t.to, bytes)) return INVALID_VALUE;
  return stand_in_enqueue(where, run_transfer, &t, sizeof(t));
}

/* The device ------------------------------------------------------------------------------------ */

EXPORT int cuInit(unsigned int flags) {
  FAIL_IF_ASKED();
  (void)flags;
  if (memory == NULL) {
    memory =
        mmap(NULL, MEMORY_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) memory = NULL;
  }
  return memory == NULL ? OUT_OF_MEMORY : 0;
}

EXPORT int cuDriverGetVersion(int* out) {
  FAIL_IF_ASKED();
  *out = 12040;
  return 0;
}

EXPORT int cuGetErrorName(int status, const char** out) {
  *out = status == NOT_FOUND ? "CUDA_ERROR_NOT_FOUND" : "CUDA_ERROR_OF_THE_STAND_IN";
  return 0;
}

EXPORT int cuGetErrorString(int status, const char** out) {
  (void)status;
  *out = "a call of the stand-in failed";
  return 0;
}

EXPORT int cuDeviceGetCount(int* out) {
  const char* shown = getenv("CUDA_VISIBLE_DEVICES");
  FAIL_IF_ASKED();
  *out = shown == NULL || shown[0] != '\0';
  return 0;
}

EXPORT int cuDeviceGet(int* out, int ordinal) {
  FAIL_IF_ASKED();
  *out = ordinal;
  return 0;
}

EXPORT int cuDeviceGetName(char* out, int bytes, int device) {
  FAIL_IF_ASKED();
  (void)device;
  (void)snprintf(out, (size_t)bytes, "Stand-in GPU");
  return 0;
}

EXPORT int cuDeviceGetAttribute(int* out, int attribute, int device) {
  FAIL_IF_ASKED();
  (void)device;
  *out = attribute == 75 ? 9 : 0;
  return 0;
}

EXPORT int cuDevicePrimaryCtxRetain(void** out, int device) {
  static int context;
  FAIL_IF_ASKED();
  (void)device;
  *out = &context;
  return 0;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
  (void)device;
  return 0;
}

EXPORT int cuCtxPushCurrent_v2(void* context) {
  FAIL_IF_ASKED();
  return context == NULL ? INVALID_VALUE : 0;
}

EXPORT int cuCtxPopCurrent_v2(void** out) {
  *out = NULL;
  return 0;
}
