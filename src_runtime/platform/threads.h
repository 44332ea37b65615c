/*
 * Threads, locks, conditions.
 *
 *   tvmrt_mutex, TVMRT_MUTEX_INIT      a lock; a static one needs no tvmrt__mutex_init()
 *   tvmrt_recursive_mutex, TVMRT_RECURSIVE_MUTEX_INIT
 *                                      one that its thread may take again, static
 *   tvmrt_rwlock, TVMRT_RWLOCK_INIT    many readers or one writer
 *   tvmrt_cond                         a condition, waited for under a tvmrt_mutex
 *   tvmrt_once, TVMRT_ONCE_INIT        done once in the process
 *   tvmrt_os_thread                    a thread that was started
 *   tvmrt_thread_id                    the calling thread, to be compared
 *
 *   int tvmrt__mutex_init(m), tvmrt__cond_init(c)
 *                                      0, or not where the system has none left
 *   tvmrt__mutex_free(m), tvmrt__cond_free(c)
 *   tvmrt__lock(m), tvmrt__unlock(m); tvmrt__lock_again(m), tvmrt__unlock_again(m) of recursive ones
 *   tvmrt__lock_read(l), tvmrt__unlock_read(l), tvmrt__lock_write(l), tvmrt__unlock_write(l)
 *   tvmrt__rwlock_renew(l)             in a child of fork: the lock as new, whoever held it
 *   tvmrt__wait(c, m)                  may return without having been woken
 *   bool tvmrt__wait_until(c, m, when) the same; false once tvmrt__seconds() is past `when`
 *   tvmrt__wake_one(c), tvmrt__wake_all(c)
 *   tvmrt__call_once(once, f)
 *   tvmrt__thread_yield()              let others run
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

/* The same on all systems, since those of POSIX would have to be made, which may fail. */
typedef struct tvmrt_recursive_mutex {
  tvmrt_mutex lock;
  _Atomic(tvmrt_thread_id) owner; /* read while depth may change; 0: nobody */
  unsigned depth;
} tvmrt_recursive_mutex;
#define TVMRT_RECURSIVE_MUTEX_INIT \
  { TVMRT_MUTEX_INIT, 0, 0 }

/* Only the owner finds itself there, whatever others write meanwhile. */
static inline void tvmrt__lock_again(tvmrt_recursive_mutex* m) {
  if (!tvmrt__is_thread(atomic_load_explicit(&m->owner, memory_order_relaxed))) {
    tvmrt__lock(&m->lock);
    atomic_store_explicit(&m->owner, tvmrt__thread_id(), memory_order_relaxed);
  }
  ++m->depth;
}

static inline void tvmrt__unlock_again(tvmrt_recursive_mutex* m) {
  if (--m->depth != 0) return;
  atomic_store_explicit(&m->owner, (tvmrt_thread_id)0, memory_order_relaxed);
  tvmrt__unlock(&m->lock);
}

/* Run body(argument) on a thread of its own; 0, or the system's number of what went wrong. What it
 * returns is not read. */
int tvmrt__thread_start(tvmrt_os_thread* out, void* (*body)(void*), void* argument);
/* The same for a thread that nobody joins. */
TVMRT_SDK int tvmrt__thread_start_detached(void* (*body)(void*), void* argument);
/* Wait for the thread's end, once. */
void tvmrt__thread_join(tvmrt_os_thread* thread);
/* Let the thread run on one processor of those that the process may use, number `place` of them and
 * round again; nothing where the system knows no such thing, or refuses. */
void tvmrt__thread_bind(tvmrt_os_thread* thread, int place);

/* Call f(state) when the calling thread ends, which replaces what was given before; a NULL state calls
 * nothing. The process has one `f`. The thread that ends the process may end without. 0, or -1. */
int tvmrt__at_thread_end(void (*f)(void* state), void* state);

/* Call these before a fork of the process, and behind it in the parent and in the child; each may be
 * NULL. Nothing on systems without fork. */
TVMRT_SDK void tvmrt__at_fork(void (*before)(void), void (*in_parent)(void),
                              void (*in_child)(void));

/* Number of processors that the process may use, at least 1. */
int tvmrt__num_processors(void);

#endif
