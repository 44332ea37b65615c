/*
 * The workers of TVMBackendParallelLaunch.
 *
 * One pool serves the process, one launch at a time. A launch that finds it taken (nested, or from
 * another thread) runs on its caller alone, which is correct because the work is split by
 * env->num_task. A worker spins for 0.1 ms after a task, so that the next one starts at once, and
 * then sleeps. A task that its worker has not begun when the caller has finished its own task is
 * run by the caller, so that a busy machine causes no waiting.
 *
 * adaptive_threads.h decides the number of threads when using all would be slower.
 *
 * Environment, read once: TVM_NUM_THREADS or else OMP_NUM_THREADS; TVM_BIND_THREADS=1 binds each
 * worker to a processor (other runtimes do so by default, which slows programs that share a
 * machine); TVM_EXCLUDE_WORKER0=0 gives all tasks to workers, the caller only waits;
 * TVM_THREAD_POOL_SPIN_COUNT; TVM_THREAD_POOL_TRUCE=0 makes all launches use all threads.
 */
#include "thread_pool.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>

#include "../base/error.h"
#include "../platform/system.h"
#include "../platform/threads.h"
#include "adaptive_threads.h"
#include "function.h"

enum {
  MAX_WORKERS = 256,
  POLLS_PER_CLOCK_READ = 64, /* polls between two reads of the clock */
  SPINS_BEFORE_YIELD = 200,
  ERROR_BYTES = 256,
  CACHE_LINE = 64
};

/* States of a slot: the caller changes IDLE to POSTED, the thread that takes the task changes it to
 * RUNNING, its worker to DONE. QUIT ends the thread. */
typedef enum { IDLE, POSTED, RUNNING, DONE, QUIT } worker_state;

/* The parameters of a launch share a cache line with the state: both are transferred together. */
typedef struct worker {
  _Alignas(CACHE_LINE) _Atomic int state;
  _Atomic bool asleep;
  bool monitored;      /* whether the task measures its time without a processor */
  _Atomic int barrier; /* number of barriers that this slot's task has reached */
  int task_id;
  FTVMParallelLambda lambda;
  void* cdata;
  TVMParallelGroupEnv env;
  int rc;
  double off_cpu; /* seconds of a watched task during which its thread had no processor */
  char error[ERROR_BYTES];
  tvmrt_os_thread thread;
  tvmrt_mutex lock;
  tvmrt_cond wake;
} worker;

static worker workers[MAX_WORKERS]; /* slot 0 belongs to the caller and has no thread */
static _Atomic int num_started = 1; /* slots with a running thread, and slot 0 */
static atomic_flag pool_taken = ATOMIC_FLAG_INIT;
static _Atomic int requested_workers; /* 0: not yet read from the environment */
static _Atomic long spin_count;       /* polls; 0: by the clock */
static bool caller_works = true;      /* set before the first worker starts */
static bool bind_workers;             /* likewise */
static bool truces_enabled = true;    /* likewise */

/* Time that a worker polls for a task before it sleeps, in seconds. Waking it takes the caller ten
 * microseconds, and single-threaded steps between parallel ones take tens; 50, 100 and 200 are
 * equally fast in networks of 0.1 to 5 ms. Measured by the clock: a pause instruction takes 3 to 50
 * ns. */
static const double SPIN = 100e-6;
/* Time after which it yields now and then, in seconds. */
static const double SPIN_BEFORE_YIELD = 25e-6;

static tvmrt_once pool_once = TVMRT_ONCE_INIT;

/* Maximum number of threads of this thread's launches; 0, or NULL: no limit. */
static TVMRT_THREAD_POINTER const int* launch_limit;

const int* tvmrt__limit_launches(const int* threads) {
  const int* previous = launch_limit;
  launch_limit = threads;
  return previous;
}

/* Wait briefly; after a while yield, since the other thread may need the processor. */
static void spin_or_yield(int* spins) {
  if (++*spins < SPINS_BEFORE_YIELD) {
    tvmrt__relax();
  } else {
    tvmrt__thread_yield();
  }
}

/* Text that is not a positive number, or has trailing characters, is ignored: a typo must not stop
 * a program. */
static long number_from_env(const char* name, long missing) {
  const char* text = getenv(name);
  char* end;
  long value;
  if (text == NULL || text[0] == '\0') return missing;
  value = strtol(text, &end, 10);
  return *end == '\0' && value > 0 ? value : missing;
}

/* At least the caller, at most the number of slots. */
static int clamp_workers(long count) {
  return count < 1 ? 1 : (count > MAX_WORKERS ? MAX_WORKERS : (int)count);
}

/* Read again when a program returns to the default: the available processors may have changed. */
static int default_workers(void) {
  long count = number_from_env("TVM_NUM_THREADS", 0);
  if (count == 0) count = number_from_env("OMP_NUM_THREADS", 0);
  return clamp_workers(count == 0 ? tvmrt__num_cores() : count);
}

/* Maximum number of tasks of a launch, 1 or more. */
int tvmrt__num_threads(void) {
  int count = atomic_load_explicit(&requested_workers, memory_order_relaxed);
  if (count != 0) return count;
  count = default_workers();
  atomic_store_explicit(&requested_workers, count, memory_order_relaxed);
  return count;
}

/* Use `count` threads from now on; 0 restores the default of the environment. */
static void set_num_workers(int64_t count) {
  int chosen = count <= 0 ? default_workers() : count > MAX_WORKERS ? MAX_WORKERS : (int)count;
  atomic_store_explicit(&requested_workers, chosen, memory_order_relaxed);
}

/* Wall-clock time minus the thread's processor time; only differences are meaningful. */
static double off_cpu_seconds(void) { return tvmrt__seconds() - tvmrt__thread_seconds(); }

/* The error text belongs to the thread: it is copied to the slot for collect_errors(). */
static void run_task(worker* w) {
  const bool monitored = w->monitored;
  const double before = monitored ? off_cpu_seconds() : 0.0;
  tvmrt__forget_error(); /* of an earlier task on this thread */
  w->rc = w->lambda(w->task_id, &w->env, w->cdata);
  if (w->rc != 0) (void)snprintf(w->error, sizeof(w->error), "%s", TVMGetLastError());
  w->off_cpu = monitored ? off_cpu_seconds() - before : 0.0;
}

/* `asleep` is set before the state is read, and the poster reads it after storing the state: one of
 * them sees the other's store, so no wake-up is lost. Both accesses are sequentially consistent for
 * this.
 *
 * Once woken, the worker does not sleep again at once, even if the caller has taken over the task,
 * as it does with short ones: the next launch, likely as short, would have to wake it again. */
static void sleep_until_woken(worker* w) {
  int state;
  tvmrt__lock(&w->lock);
  atomic_store(&w->asleep, true);
  state = atomic_load(&w->state);
  if (state != POSTED && state != QUIT) tvmrt__wait(&w->wake, &w->lock);
  atomic_store(&w->asleep, false);
  tvmrt__unlock(&w->lock);
}

/* Spinning occupies a processor, sleeping delays the next task: so spin first, then sleep. */
static void wait_for_post(worker* w) {
  const long max_polls = atomic_load_explicit(&spin_count, memory_order_relaxed);
  const double begin = tvmrt__seconds();
  long i;
  for (i = 1; max_polls == 0 || i <= max_polls; ++i) {
    int state = atomic_load_explicit(&w->state, memory_order_relaxed);
    if (state == POSTED || state == QUIT) return;
    if (i % POLLS_PER_CLOCK_READ == 0) {
      const double waited = tvmrt__seconds() - begin;
      if (max_polls == 0 && waited >= SPIN) break;
      if (waited >= SPIN_BEFORE_YIELD) tvmrt__thread_yield();
    }
    tvmrt__relax();
  }
  sleep_until_woken(w);
}

/* Take a posted task; false if another thread did, or there is none. The load before leaves the
 * cache line in place: a failing exchange would take it from the worker that will write there. */
static bool claim(worker* w) {
  int expected = POSTED;
  return atomic_load_explicit(&w->state, memory_order_relaxed) == POSTED &&
         atomic_compare_exchange_strong(&w->state, &expected, RUNNING);
}

/* Between the load of the state and the claim the caller may have taken over the task: then wait
 * again. */
static void* worker_main(void* arg) {
  worker* w = arg;
  for (;;) {
    wait_for_post(w);
    if (atomic_load(&w->state) == QUIT) return NULL;
    if (!claim(w)) continue;
    run_task(w);
    atomic_store_explicit(&w->state, DONE, memory_order_release);
  }
}

/* The lock ensures that a worker that has set `asleep` is already waiting, or has seen the new
 * state. */
static void wake(worker* w) {
  if (!atomic_load(&w->asleep)) return;
  tvmrt__lock(&w->lock);
  tvmrt__wake_one(&w->wake);
  tvmrt__unlock(&w->lock);
}

/* Joins the workers, so that none runs code that is unloaded. If the pool is taken, its threads are
 * working and cannot be joined: the process ends with them. */
static void stop_workers(void) {
  int i;
  if (atomic_flag_test_and_set(&pool_taken)) return; /* the process ends inside of a task */
  for (i = 1; i < num_started; ++i) {
    atomic_store(&workers[i].state, QUIT);
    wake(&workers[i]);
  }
  for (i = 1; i < num_started; ++i) {
    tvmrt__thread_join(&workers[i].thread);
    tvmrt__mutex_free(&workers[i].lock);
    tvmrt__cond_free(&workers[i].wake);
  }
  num_started = 1;
  atomic_flag_clear(&pool_taken);
}

/* Unloading the library must not leave threads in its code. */
TVMRT_AT_UNLOAD static void stop_at_exit(void) { stop_workers(); }

/* A child of fork has no workers; it starts its own when it needs them. */
static void forget_workers(void) {
  num_started = 1;
  atomic_flag_clear(&pool_taken);
}

/* For switches: any other value is ignored. */
static bool env_is(const char* name, const char* value) {
  const char* text = getenv(name);
  return text != NULL && strcmp(text, value) == 0;
}

/* Called once, with the pool taken: the settings are read only by launches, and by workers that
 * start later. */
static void set_up_pool(void) {
  tvmrt__at_fork(NULL, NULL, forget_workers);
  caller_works = !env_is("TVM_EXCLUDE_WORKER0", "0");
  bind_workers = env_is("TVM_BIND_THREADS", "1");
  truces_enabled = caller_works && !env_is("TVM_THREAD_POOL_TRUCE", "0");
  atomic_store(&spin_count, number_from_env("TVM_THREAD_POOL_SPIN_COUNT", 0));
}

/* On failure everything is undone: the launch uses fewer workers, and the next one tries again. */
static bool start_worker(worker* w) {
  atomic_store(&w->state, IDLE);
  atomic_store(&w->asleep, false);
  if (tvmrt__mutex_init(&w->lock) != 0) return false;
  if (tvmrt__cond_init(&w->wake) != 0) {
    tvmrt__mutex_free(&w->lock);
    return false;
  }
  if (tvmrt__thread_start(&w->thread, worker_main, w) == 0) {
    /* worker 1 on the second one; if the system refuses, it is not bound */
    if (bind_workers) tvmrt__thread_bind(&w->thread, (int)(w - workers));
    return true;
  }
  tvmrt__cond_free(&w->wake);
  tvmrt__mutex_free(&w->lock);
  return false;
}

/* Start threads up to `count` slots; fewer if the system refuses. */
static int start_workers(int count) {
  if (count > MAX_WORKERS) count = MAX_WORKERS;
  while (num_started < count && start_worker(&workers[num_started])) ++num_started;
  return num_started < count ? num_started : count;
}

/* Any thread may call this while another thread's launch starts workers. */
bool tvmrt__has_workers(void) {
  return atomic_load_explicit(&num_started, memory_order_relaxed) > 1;
}

/* Run one task on this thread, with all the work. It has its own barrier, since the pool's slots
 * are in use. */
static int run_alone(FTVMParallelLambda flambda, void* cdata) {
  _Atomic int barrier = 0;
  TVMParallelGroupEnv env;
  env.sync_handle = &barrier;
  env.num_task = 1;
  return flambda(0, &env, cdata) == 0 ? 0 : -1;
}

/* Post tasks to `count` slots from `first` on, task i to the i-th of them. */
static void post_tasks(FTVMParallelLambda flambda, void* cdata, bool monitored, int first,
                       int count) {
  int i;
  for (i = 0; i < count; ++i) {
    worker* w = &workers[first + i];
    w->monitored = monitored;
    w->task_id = i;
    w->lambda = flambda;
    w->cdata = cdata;
    w->env.sync_handle = &workers[first];
    w->env.num_task = count;
    w->rc = 0;
    atomic_store_explicit(&w->barrier, 0, memory_order_relaxed);
  }
  for (i = first == 0 ? 1 : first; i < first + count; ++i) {
    atomic_store(&workers[i].state, POSTED); /* ordered before the load of `asleep` */
    wake(&workers[i]);
  }
}

/* Returns when all workers have finished this launch, so that the slots may be written again. If
 * the caller runs no task of its own, it takes over none either. */
static void finish_tasks(int first, int count) {
  int i;
  for (i = first + count - 1; i > 0; --i) { /* the worker woken last is most likely to be late */
    int spins = 0;
    if (first == 0 && claim(&workers[i])) {
      run_task(&workers[i]);
    } else {
      while (atomic_load_explicit(&workers[i].state, memory_order_acquire) != DONE) {
        spin_or_yield(&spins);
      }
    }
    atomic_store_explicit(&workers[i].state, IDLE, memory_order_relaxed);
  }
}

/* The number of threads of `count` for a launch of `num_tasks` tasks: small launches use only awake
 * workers. */
static int awake_threads(int count, int num_tasks) {
  int found = 1;
  while (found < count && (found >= num_started || !atomic_load(&workers[found].asleep))) ++found;
  return found < count && tvmrt__uses_awake_workers_only(num_tasks) ? found : count;
}

/* Number of late workers. */
static int count_late(int count) {
  int late = 0;
  int i;
  for (i = 1; i < count; ++i) late += workers[i].off_cpu > TVMRT_LATE_SECONDS;
  return late;
}

/* Does nothing during a launch, which owns the truce; the truce then ends by itself. */
static void end_truce(void) {
  if (atomic_flag_test_and_set_explicit(&pool_taken, memory_order_acquire)) return;
  tvmrt__forget_launches();
  atomic_flag_clear_explicit(&pool_taken, memory_order_release);
}

/* The error is that of the first failed task: the same one, with its kind, that a single thread
 * would have reported. */
static int collect_errors(int first, int count) {
  int i;
  for (i = first; i < first + count; ++i) {
    if (workers[i].rc == 0) continue;
    TVMPackedFuncSetLastError(workers[i].error);
    return -1;
  }
  return 0;
}

/* Slot 0 is the caller's; without it, the tasks begin at the first worker. */
static int run_in_pool(FTVMParallelLambda flambda, void* cdata, int count) {
  int first = caller_works ? 0 : 1;
  const double begin = truces_enabled ? tvmrt__seconds() : 0.0;
  double own_end;
  count = start_workers(first + count) - first;
  if (count == 0) return run_alone(flambda, cdata);
  post_tasks(flambda, cdata, truces_enabled && tvmrt__is_monitored(begin), first, count);
  if (caller_works) run_task(&workers[0]);
  own_end = truces_enabled ? tvmrt__seconds() : 0.0;
  finish_tasks(first, count);
  if (truces_enabled) tvmrt__record_launch(count, count_late(count), own_end, tvmrt__seconds());
  return collect_errors(first, count);
}

/* -1 if a task failed, with its text; all tasks have ended by then. `cdata` belongs to the caller
 * and is read by all of them. */
int TVMBackendParallelLaunch(FTVMParallelLambda flambda, void* cdata, int num_task) {
  const int* limit = launch_limit;
  int count = tvmrt__num_threads();
  int rc;
  if (num_task > 0 && num_task < count) count = num_task;
  if (limit != NULL && *limit > 0 && *limit < count) count = *limit;
  if (count == 1 || atomic_flag_test_and_set_explicit(&pool_taken, memory_order_acquire)) {
    return run_alone(flambda, cdata);
  }
  tvmrt__call_once(&pool_once, set_up_pool);
  count = tvmrt__allowed_threads(count);
  if (truces_enabled) count = awake_threads(count, num_task);
  rc = count == 1 ? run_alone(flambda, cdata) : run_in_pool(flambda, cdata, count);
  tvmrt__end_awake_only_launch();
  atomic_flag_clear_explicit(&pool_taken, memory_order_release);
  return rc;
}

/* Each task counts its own barriers and waits until all have counted as many. Counters are never
 * reset, so a task may enter the next barrier while others still leave this one. */
int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv* penv) {
  worker* group = penv->sync_handle;
  int target;
  int i;
  if (penv->num_task == 1) return 0;
  target = 1 + atomic_fetch_add_explicit(&group[task_id].barrier, 1, memory_order_acq_rel);
  for (i = 0; i < penv->num_task; ++i) {
    int spins = 0;
    while (atomic_load_explicit(&group[i].barrier, memory_order_acquire) < target) {
      spin_or_yield(&spins);
    }
  }
  return 0;
}

/* () -> the maximum number of threads of a launch. */
TVMRT_NATIVE(num_threads) {
  TVMRT_GLOBAL_ARGS;
  return tvmrt__ret_int(out, out_code, tvmrt__num_threads());
}

/* (mode, number of threads [, lists of CPUs]): the placement of threads is left to the system. */
TVMRT_NATIVE(config_threadpool) {
  int64_t count;
  TVMRT_COUNTED_ARGS(2, -1);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 1, &count));
  if (count == 0 && num_args > 2) count = num_args - 2;
  set_num_workers(count);
  end_truce();
  return 0;
}

#define FUNCTIONS(X)                   \
  X("runtime.NumThreads", num_threads) \
  X("runtime.config_threadpool", config_threadpool)
const tvmrt_builtins tvmrt__thread_builtins = TVMRT_BUILTINS(FUNCTIONS);
