/* Launches with fewer threads: with those that are awake if tasks are short, or after some
   launches whose workers had no processor. A worker that sleeps in its task simulates one whose
   processor runs another program. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support.h"

enum { MAX_LAUNCHES = 60, MAX_LONG_LAUNCHES = 6000, OFF_MS = 15, LONGER_THAN_A_TRUCE_MS = 350 };

typedef struct {
  atomic_int begun;
  atomic_int num_task;
} group;

static void use_workers(int64_t count) {
  call c = {0};
  arg_int(&c, 1);
  arg_int(&c, count);
  assert_ok(call_global(&c, "runtime.config_threadpool"));
}

static void sleep_ms(long ms) {
  const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  (void)nanosleep(&time, NULL);
}

static int sleep_in_task(int task_id, TVMParallelGroupEnv* env, void* cdata) {
  group* g = cdata;
  atomic_store(&g->num_task, env->num_task);
  if (task_id == 1) {
    atomic_store(&g->begun, 1);
    sleep_ms(OFF_MS);
  }
  while (env->num_task > 1 && atomic_load(&g->begun) == 0) (void)sched_yield();
  return 0;
}

/* The tasks of one launch. */
static int launch(void) {
  group g = {0};
  assert_ok(TVMBackendParallelLaunch(sleep_in_task, &g, 0));
  return g.num_task;
}

/* Launches until one uses fewer threads; false if none does. */
static bool truce_starts(void) {
  for (int i = 0; i < MAX_LAUNCHES; ++i) {
    if (launch() == 1) return true;
  }
  return false;
}

static void test_variable_disables_truces(void** state) {
  int status;
  pid_t child;
  (void)state;
  child = fork(); /* the variable is read once in a process */
  if (child == 0) {
    alarm(120);
    if (setenv("TVM_THREAD_POOL_TRUCE", "0", 1) != 0) _exit(1);
    use_workers(2);
    for (int i = 0; i < 8; ++i) {
      if (launch() != 2) _exit(2);
    }
    _exit(0);
  }
  assert_true(child > 0);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

static void test_launches_use_fewer_threads_if_workers_are_preempted(void** state) {
  (void)state;
  use_workers(2);
  assert_int_equal(launch(), 2);
  assert_true(truce_starts());
}

static void test_truce_expires(void** state) {
  (void)state;
  use_workers(2);
  assert_true(truce_starts());
  sleep_ms(LONGER_THAN_A_TRUCE_MS);
  assert_int_equal(launch(), 2);
}

static void test_setting_thread_count_ends_truce(void** state) {
  (void)state;
  use_workers(2);
  assert_true(truce_starts());
  use_workers(2);
  assert_int_equal(launch(), 2);
}

static int count_tasks(int task_id, TVMParallelGroupEnv* env, void* cdata) {
  (void)task_id;
  atomic_store(&((group*)cdata)->num_task, env->num_task);
  return 0;
}

/* The tasks of a launch that computes nothing and requests this many. */
static int short_launch(int num_tasks) {
  group g = {0};
  assert_ok(TVMBackendParallelLaunch(count_tasks, &g, num_tasks));
  return g.num_task;
}

/* On a busy machine a worker may not be asleep yet: retry. */
static bool uses_awake_workers_only(int num_tasks) {
  for (int i = 0; i < MAX_LAUNCHES; ++i) {
    use_workers(2);
    (void)short_launch(0);
    sleep_ms(5); /* the worker is asleep then */
    if (short_launch(num_tasks) == 1) return true;
  }
  return false;
}

static void test_small_launch_does_not_wake_workers(void** state) {
  (void)state;
  assert_true(uses_awake_workers_only(2));
  assert_false(uses_awake_workers_only(24)); /* tasks enough for any number of threads */
  assert_false(uses_awake_workers_only(0));
}

/* Microseconds of work, one launch after the other. */
static void test_many_small_launches_wake_workers(void** state) {
  long launches = 0;
  (void)state;
  assert_true(uses_awake_workers_only(2));
  while (short_launch(2) == 1 && launches < 1000000) ++launches;
  assert_in_range(launches, 0, 999999);
}

static int work_a_while(int task_id, TVMParallelGroupEnv* env, void* cdata) {
  const clock_t end = clock() + CLOCKS_PER_SEC / 5000;
  while (clock() < end) continue;
  return count_tasks(task_id, env, cdata);
}

/* Other code may use few tasks that take long: not every second launch may be on one thread. On
   a busy machine pauses occur in between, each as long as many tries, so it gets many. */
static void test_long_launches_of_few_tasks_wake_workers(void** state) {
  int in_turn = 0;
  (void)state;
  assert_true(uses_awake_workers_only(2));
  for (int i = 0; i < MAX_LONG_LAUNCHES && in_turn < 4; ++i) {
    group g = {0};
    sleep_ms(5);
    assert_ok(TVMBackendParallelLaunch(work_a_while, &g, 2));
    in_turn = g.num_task == 2 ? in_turn + 1 : 0;
  }
  assert_int_equal(in_turn, 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_variable_disables_truces),
      cmocka_unit_test(test_small_launch_does_not_wake_workers),
      cmocka_unit_test(test_many_small_launches_wake_workers),
      cmocka_unit_test(test_long_launches_of_few_tasks_wake_workers),
      cmocka_unit_test(test_launches_use_fewer_threads_if_workers_are_preempted),
      cmocka_unit_test(test_truce_expires),
      cmocka_unit_test(test_setting_thread_count_ends_truce),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
