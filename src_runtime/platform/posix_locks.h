/* threads.h by POSIX threads, inlined. */
#ifndef TVMRT_SRC_RUNTIME_PLATFORM_POSIX_LOCKS_H_
#define TVMRT_SRC_RUNTIME_PLATFORM_POSIX_LOCKS_H_

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "compiler.h"

typedef pthread_mutex_t tvmrt_mutex;
typedef pthread_rwlock_t tvmrt_rwlock;
typedef pthread_cond_t tvmrt_cond;
typedef pthread_once_t tvmrt_once;
typedef pthread_t tvmrt_os_thread;
typedef pthread_t tvmrt_thread_id;
#define TVMRT_MUTEX_INIT PTHREAD_MUTEX_INITIALIZER
#define TVMRT_RWLOCK_INIT PTHREAD_RWLOCK_INITIALIZER
#define TVMRT_ONCE_INIT PTHREAD_ONCE_INIT

static inline int tvmrt__mutex_init(tvmrt_mutex* m) { return pthread_mutex_init(m, NULL); }
static inline void tvmrt__mutex_free(tvmrt_mutex* m) { (void)pthread_mutex_destroy(m); }
static inline void tvmrt__lock(tvmrt_mutex* m) { (void)pthread_mutex_lock(m); }
static inline void tvmrt__unlock(tvmrt_mutex* m) { (void)pthread_mutex_unlock(m); }

static inline void tvmrt__lock_read(tvmrt_rwlock* l) { (void)pthread_rwlock_rdlock(l); }
static inline void tvmrt__unlock_read(tvmrt_rwlock* l) { (void)pthread_rwlock_unlock(l); }
static inline void tvmrt__lock_write(tvmrt_rwlock* l) { (void)pthread_rwlock_wrlock(l); }
static inline void tvmrt__unlock_write(tvmrt_rwlock* l) { (void)pthread_rwlock_unlock(l); }
static inline void tvmrt__rwlock_renew(tvmrt_rwlock* l) { (void)pthread_rwlock_init(l, NULL); }

TVMRT_SDK int tvmrt__cond_init(tvmrt_cond* c);
static inline void tvmrt__cond_free(tvmrt_cond* c) { (void)pthread_cond_destroy(c); }
static inline void tvmrt__wait(tvmrt_cond* c, tvmrt_mutex* m) { (void)pthread_cond_wait(c, m); }
TVMRT_SDK bool tvmrt__wait_until(tvmrt_cond* c, tvmrt_mutex* m, double deadline);
static inline void tvmrt__wake_one(tvmrt_cond* c) { (void)pthread_cond_signal(c); }
static inline void tvmrt__wake_all(tvmrt_cond* c) { (void)pthread_cond_broadcast(c); }

static inline void tvmrt__call_once(tvmrt_once* once, void (*f)(void)) {
  (void)pthread_once(once, f);
}
static inline void tvmrt__thread_yield(void) { (void)sched_yield(); }
static inline tvmrt_thread_id tvmrt__thread_id(void) { return pthread_self(); }
static inline bool tvmrt__is_thread(tvmrt_thread_id id) {
  return pthread_equal(id, pthread_self()) != 0;
}

#endif
