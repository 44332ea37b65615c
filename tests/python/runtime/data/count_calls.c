/* Counts calls of allocators and locks on one thread: loaded with LD_PRELOAD.
 *
 * Each function is put in front of the C library's and counts if the calling thread is between
 * tvmrt_count_begin() and tvmrt_count_end(). A thread that sleeps by clock_nanosleep() is periodic:
 * it is counted from its first sleep to its last one, and the numbers are printed at exit. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static _Thread_local int counting;
static atomic_long num_calls;
static long num_periods, calls_of_periods;
static char names[2048];    /* of counted functions; only written by the first call of each site */
static char early[1 << 14]; /* dlsym() allocates before the functions are known */
static size_t early_used;

void tvmrt_count_begin(void) {
  names[0] = '\0';
  atomic_store(&num_calls, 0);
  counting = 1;
}

/* The calls since tvmrt_count_begin(); *text lists their functions. */
long tvmrt_count_end(const char** text) {
  counting = 0;
  *text = names;
  return atomic_load(&num_calls);
}

static void count(const char* name) {
  size_t used;
  if (!counting) return;
  atomic_fetch_add(&num_calls, 1);
  used = strlen(names);
  if (strstr(names, name) == NULL && used + strlen(name) + 2 < sizeof(names)) {
    memcpy(names + used, name, strlen(name));
    memcpy(names + used + strlen(name), " ", 2);
  }
}

#define NEXT(name)               \
  static __typeof__(&name) next; \
  if (next == NULL) *(void**)(&next) = dlsym(RTLD_NEXT, #name)

#define WRAP(result, name, parameters, arguments) \
  result name parameters {                        \
    NEXT(name);                                   \
    count(#name);                                 \
    return next arguments;                        \
  }

void* calloc(size_t count_of, size_t bytes) {
  static __typeof__(&calloc) next;
  static int searching;
  if (next == NULL) {
    if (searching) { /* by dlsym() below */
      void* found = early + early_used;
      early_used += (count_of * bytes + 15) / 16 * 16;
      return early_used <= sizeof(early) ? found : NULL;
    }
    searching = 1;
    *(void**)(&next) = dlsym(RTLD_NEXT, "calloc");
  }
  count("calloc");
  return next(count_of, bytes);
}

void free(void* block) {
  if ((char*)block >= early && (char*)block < early + sizeof(early)) return;
  NEXT(free);
  if (block != NULL) count("free");
  next(block);
}

WRAP(void*, malloc, (size_t bytes), (bytes))
WRAP(void*, realloc, (void* block, size_t bytes), (block, bytes))
WRAP(void*, memalign, (size_t align, size_t bytes), (align, bytes))
WRAP(void*, aligned_alloc, (size_t align, size_t bytes), (align, bytes))
WRAP(int, posix_memalign, (void** out, size_t align, size_t bytes), (out, align, bytes))
WRAP(void*, mmap, (void* at, size_t bytes, int protection, int flags, int file, off_t offset),
     (at, bytes, protection, flags, file, offset))
WRAP(int, munmap, (void* at, size_t bytes), (at, bytes))
WRAP(void*, sbrk, (intptr_t bytes), (bytes))
WRAP(int, brk, (void* end), (end))
WRAP(int, pthread_mutex_lock, (pthread_mutex_t * m), (m))
WRAP(int, pthread_mutex_trylock, (pthread_mutex_t * m), (m))
WRAP(int, pthread_rwlock_rdlock, (pthread_rwlock_t * l), (l))
WRAP(int, pthread_rwlock_wrlock, (pthread_rwlock_t * l), (l))
WRAP(int, pthread_spin_lock, (pthread_spinlock_t * l), (l))
WRAP(int, pthread_once, (pthread_once_t * once, void (*f)(void)), (once, f))
WRAP(int, pthread_cond_wait, (pthread_cond_t * c, pthread_mutex_t* m), (c, m))
WRAP(int, pthread_cond_signal, (pthread_cond_t * c), (c))
WRAP(int, pthread_cond_broadcast, (pthread_cond_t * c), (c))
WRAP(int, pthread_cond_timedwait,
     (pthread_cond_t * c, pthread_mutex_t* m, const struct timespec* t), (c, m, t))
WRAP(int, sem_wait, (sem_t * s), (s))
WRAP(int, sem_post, (sem_t * s), (s))
WRAP(int, pthread_create,
     (pthread_t * out, const pthread_attr_t* attr, void* (*f)(void*), void* argument),
     (out, attr, f, argument))
int clock_nanosleep(clockid_t clock, int flags, const struct timespec* t, struct timespec* left) {
  NEXT(clock_nanosleep);
  if (num_periods++ == 0) tvmrt_count_begin();
  calls_of_periods = atomic_load(&num_calls);
  return next(clock, flags, t, left);
}

__attribute__((destructor)) static void print_periods(void) {
  if (num_periods > 0) {
    fprintf(stderr, "counted: %ld in %ld periods %s\n", calls_of_periods, num_periods, names);
  }
}

WRAP(int, nanosleep, (const struct timespec* t, struct timespec* left), (t, left))
WRAP(int, sched_yield, (void), ())
