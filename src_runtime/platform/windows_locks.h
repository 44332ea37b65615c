/* threads.h on Windows, without including its header, which defines many names: locks and
 * conditions are single pointers there, initialised by 0. */
#ifndef TVMRT_SRC_RUNTIME_PLATFORM_WINDOWS_LOCKS_H_
#define TVMRT_SRC_RUNTIME_PLATFORM_WINDOWS_LOCKS_H_

#include <stdbool.h>
#include <stddef.h>

#include "compiler.h"

typedef struct tvmrt_mutex {
  void* srw_lock;
} tvmrt_mutex;
typedef struct tvmrt_rwlock {
  void* srw_lock;
} tvmrt_rwlock;
typedef struct tvmrt_cond {
  void* variable;
} tvmrt_cond;
typedef struct tvmrt_once {
  void* once;
} tvmrt_once;
typedef void* tvmrt_os_thread;
typedef unsigned long tvmrt_thread_id;
#define TVMRT_MUTEX_INIT \
  { NULL }
#define TVMRT_RWLOCK_INIT \
  { NULL }
#define TVMRT_ONCE_INIT \
  { NULL }

TVMRT_SDK int tvmrt__mutex_init(tvmrt_mutex* m);
TVMRT_SDK void tvmrt__mutex_free(tvmrt_mutex* m);
TVMRT_SDK void tvmrt__lock(tvmrt_mutex* m);
TVMRT_SDK void tvmrt__unlock(tvmrt_mutex* m);

TVMRT_SDK void tvmrt__lock_read(tvmrt_rwlock* l);
TVMRT_SDK void tvmrt__unlock_read(tvmrt_rwlock* l);
TVMRT_SDK void tvmrt__lock_write(tvmrt_rwlock* l);
TVMRT_SDK void tvmrt__unlock_write(tvmrt_rwlock* l);
TVMRT_SDK void tvmrt__rwlock_renew(tvmrt_rwlock* l);

TVMRT_SDK int tvmrt__cond_init(tvmrt_cond* c);
TVMRT_SDK void tvmrt__cond_free(tvmrt_cond* c);
TVMRT_SDK void tvmrt__wait(tvmrt_cond* c, tvmrt_mutex* m);
TVMRT_SDK bool tvmrt__wait_until(tvmrt_cond* c, tvmrt_mutex* m, double deadline);
TVMRT_SDK void tvmrt__wake_one(tvmrt_cond* c);
TVMRT_SDK void tvmrt__wake_all(tvmrt_cond* c);

TVMRT_SDK void tvmrt__call_once(tvmrt_once* once, void (*f)(void));
TVMRT_SDK void tvmrt__thread_yield(void);
TVMRT_SDK tvmrt_thread_id tvmrt__thread_id(void);
TVMRT_SDK bool tvmrt__is_thread(tvmrt_thread_id id);

#endif
