/*
 * Threads, locks, conditions.
 *
 *   tvmrt_mutex, TVMRT_MUTEX_INIT      a lock; a static one needs no tvmrt__mutex_init()
 *   tvmrt_recursive_mutex, TVMRT_RECURSIVE_MUTEX_INIT
 *                                      a static lock that its owner may take again
 *   tvmrt_rwlock, TVMRT_RWLOCK_INIT    many readers or one writer
 *   tvmrt_cond                         a condition, waited for with a tvmrt_mutex
 *   tvmrt_once, TVMRT_ONCE_INIT        done once in the process
 *   tvmrt_os_thread                    a started thread
 *   tvmrt_thread_id                    id of a thread, for comparisons
 *
 *   int tvmrt__mutex_init(m), tvmrt__cond_init(c)
 *                                      0, or non-zero if the system has none left
 *   tvmrt__mutex_free(m), tvmrt__cond_free(c)
 *   tvmrt__lock(m), tvmrt__unlock(m); recursive: tvmrt__lock_recursive(m), tvmrt__unlock_recursive(m)
 *   tvmrt__lock_read(l), tvmrt__unlock_read(l), tvmrt__lock_write(l), tvmrt__unlock_write(l)
 *   tvmrt__rwlock_renew(l)             in a child of fork: reset the lock, even if held
 *   tvmrt__wait(c, m)                  may return spuriously
 *   bool tvmrt__wait_until(c, m, when) may return spuriously; false once tvmrt__seconds() > `when`
 *   tvmrt__wake_one(c), tvmrt__wake_all(c)
 *   tvmrt__call_once(once, f)
 *   tvmrt__thread_yield()              let other threads run
 *   tvmrt_thread_id tvmrt__thread_id(), bool tvmrt__is_thread(id)
 */
#ifndef TVMRT_SRC_RUNTIME_PLATFORM_THREADS_H_
#define TVMRT_SRC_RUNTIME_PLATFORM_THREADS_H_

#if defined(_WIN32)
#include "windows_locks.h"
#else
#include "posix_locks.h"
#endif

#include <stdatomic.h>

/* One implementation for all systems, since POSIX ones need an initialisation that may fail. */
typedef struct tvmrt_recursive_mutex {
  tvmrt_mutex lock;
  _Atomic(tvmrt_thread_id) owner; /* read while others may write it; 0: none */
  unsigned depth;
} tvmrt_recursive_mutex;
#define TVMRT_RECURSIVE_MUTEX_INIT \
  { TVMRT_MUTEX_INIT, 0, 0 }

/* Only the owner can read its own id here, regardless of concurrent writes. */
static inline void tvmrt__lock_recursive(tvmrt_recursive_mutex* m) {
  if (!tvmrt__is_thread(atomic_load_explicit(&m->owner, memory_order_relaxed))) {
    tvmrt__lock(&m->lock);
    atomic_store_explicit(&m->owner, tvmrt__thread_id(), memory_order_relaxed);
  }
  ++m->depth;
}

static inline void tvmrt__unlock_recursive(tvmrt_recursive_mutex* m) {
  if (--m->depth != 0) return;
  atomic_store_explicit(&m->owner, (tvmrt_thread_id)0, memory_order_relaxed);
  tvmrt__unlock(&m->lock);
}

/* Run body(argument) on a new thread; 0, or the system's error number. Ignores its result. */
int tvmrt__thread_start(tvmrt_os_thread* out, void* (*body)(void*), void* argument);
/* Run body(argument) on a new thread that is not joined. */
TVMRT_SDK int tvmrt__thread_start_detached(void* (*body)(void*), void* argument);
/* Wait for the thread's end; call once. */
void tvmrt__thread_join(tvmrt_os_thread* thread);
/* Bind the thread to processor number `cpu_index`, modulo their number, of those that the process may
 * use; no-op if the system does not support or refuses it. */
void tvmrt__thread_bind(tvmrt_os_thread* thread, int cpu_index);

/* Call f(state) when the calling thread ends; replaces an earlier state. Nothing is called for a
 * NULL state. The process has one `f`. May skip the thread that ends the process. 0, or -1. */
int tvmrt__at_thread_end(void (*f)(void* state), void* state);

/* Call these before a fork of the process, and after it in the parent and in the child; each may be
 * NULL. No-op on systems without fork. */
TVMRT_SDK void tvmrt__at_fork(void (*before)(void), void (*in_parent)(void),
                              void (*in_child)(void));

/* Number of cores with a processor that the process may use, at least 1, and at most the number of
 * processors whose time a container may use. Processors that share a core's arithmetic units (SMT)
 * count once, where the system says which do. */
TVMRT_SDK int tvmrt__num_cores(void);

#endif
