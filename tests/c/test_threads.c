/* Parallel launch, its barrier, its errors, and the number of workers. */
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support.h"

static void use_workers(int64_t count) {
  call c = {0};
  arg_int(&c, 1);
  arg_int(&c, count);
  assert_ok(call_global(&c, "runtime.config_threadpool"));
}

typedef struct tally {
  _Atomic int runs[16];
  _Atomic int num_task;
  int phase[16];
  int bad;
} tally;

static int count_runs(int task_id, TVMParallelGroupEnv* env, void* cdata) {
  tally* t = cdata;
  atomic_fetch_add(&t->runs[task_id], 1);
  atomic_store(&t->num_task, env->num_task);
  return 0;
}

static void test_every_task_runs_once(void** state) {
  (void)state;
  for (int workers = 1; workers <= 4; ++workers) {
    use_workers(workers);
    for (int repeat = 0; repeat < 200; ++repeat) {
      tally t = {0};
      assert_ok(TVMBackendParallelLaunch(count_runs, &t, 0));
      assert_int_equal(t.num_task, workers);
      for (int i = 0; i < workers; ++i) assert_int_equal(t.runs[i], 1);
    }
  }
}

static void test_fewer_or_too_many_tasks_requested(void** state) {
  tally t = {0};
  (void)state;
  use_workers(4);
  assert_ok(TVMBackendParallelLaunch(count_runs, &t, 2));
  assert_int_equal(t.num_task, 2);
  assert_ok(TVMBackendParallelLaunch(count_runs, &t, 9));
  assert_int_equal(t.num_task, 4);
}

/* Number of polls for a task before a worker sleeps, and the minimum processor time of these in
   seconds: counted polls take that long even if other threads need the processor. */
#define LOOKS "60000"
static const double LOOKING = 4e-5;

/* Whether the thread of this state is awake: Linux reports a letter after its name. */
static bool is_awake(const char* stat_path) {
  char text[256] = "";
  FILE* file = fopen(stat_path, "r");
  const char* name_end;
  if (file == NULL) return false;
  (void)!fread(text, 1, sizeof(text) - 1, file);
  (void)fclose(file);
  name_end = strrchr(text, ')');
  return name_end != NULL && strncmp(name_end, ") R", 3) == 0;
}

/* Threads of this process that run or are runnable, including the caller. */
static int count_awake(void) {
  int count = 0;
  struct dirent* entry;
  DIR* folder = opendir("/proc/self/task");
  if (folder == NULL) return 0;
  while ((entry = readdir(folder)) != NULL) {
    char path[300];
    (void)snprintf(path, sizeof(path), "/proc/self/task/%s/stat", entry->d_name);
    if (entry->d_name[0] != '.' && is_awake(path)) ++count; /* ".." is the process */
  }
  (void)closedir(folder);
  return count;
}

/* A worker polls longer if other threads need its processor: then it is still awake, and this
   returns false. */
static bool all_sleep_soon(void) {
  for (int i = 0; i < 200 && count_awake() > 1; ++i) usleep(2000);
  return count_awake() == 1;
}

typedef struct helper {
  _Atomic bool known;
  clockid_t clock; /* of the processor time that it took */
} helper;

/* The caller waits, so the worker gets its task. */
static int know_helper(int task_id, TVMParallelGroupEnv* env, void* cdata) {
  helper* h = cdata;
  (void)env;
  if (task_id == 1) {
    if (pthread_getcpuclockid(pthread_self(), &h->clock) != 0) return -1;
    atomic_store(&h->known, true);
  }
  while (!atomic_load(&h->known)) usleep(100);
  return 0;
}

static int note_caller(int task_id, TVMParallelGroupEnv* env, void* cdata) {
  (void)env;
  if (task_id == 1) *(pthread_t*)cdata = pthread_self();
  return 0;
}

static double seconds_of(clockid_t clock) {
  struct timespec now = {0};
  (void)clock_gettime(clock, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The state of a woken worker after a task that the caller took over: 1 if it polls for the next
   one, 0 if it sleeps at once, -1 if it got the task itself or had no processor. */
static int looks_after_missed_task(clockid_t clock) {
  const double before = seconds_of(clock);
  pthread_t ran_by;
  assert_ok(TVMBackendParallelLaunch(note_caller, &ran_by, 2));
  if (!pthread_equal(ran_by, pthread_self())) return -1;
  for (int i = 0; i < 100; ++i) {
    const bool asleep = count_awake() == 1;
    if (seconds_of(clock) - before > LOOKING) return 1;
    if (asleep) return 0;
    usleep(1000);
  }
  return -1;
}

/* A worker that sleeps at once must be woken for each of many short launches. */
static void test_woken_worker_stays_awake_without_task(void** state) {
  enum { kTries = 20 };
  helper h = {0};
  int looks = -1;
  (void)state;
  if (count_awake() == 0) skip(); /* no Linux */
  use_workers(2);
  assert_ok(TVMBackendParallelLaunch(know_helper, &h, 2));
  for (int i = 0; i < kTries && looks < 0; ++i) {
    if (all_sleep_soon()) looks = looks_after_missed_task(h.clock);
  }
  assert_int_not_equal(looks, 0);
}

/* After the barrier every task sees all earlier writes of the others. */
static int pass_barriers(int task_id, TVMParallelGroupEnv* env, void* cdata) {
  tally* t = cdata;
  for (int round = 1; round <= 20; ++round) {
    t->phase[task_id] = round;
    if (TVMBackendParallelBarrier(task_id, env) != 0) return -1;
    for (int i = 0; i < env->num_task; ++i) {
      if (t->phase[i] < round) return -1;
    }
    if (TVMBackendParallelBarrier(task_id, env) != 0) return -1;
  }
  return 0;
}

static void test_barrier_waits_for_all(void** state) {
  (void)state;
  use_workers(3);
  for (int repeat = 0; repeat < 20; ++repeat) {
    tally t = {0};
    assert_ok(TVMBackendParallelLaunch(pass_barriers, &t, 0));
  }
}

static int fail_second(int task_id, TVMParallelGroupEnv* env, void* cdata) {
  (void)env, (void)cdata;
  if (task_id != 1) return 0;
  TVMAPISetLastError("the second one");
  return -1;
}

static void test_failed_task_reports_error(void** state) {
  (void)state;
  use_workers(3);
  assert_fails(TVMBackendParallelLaunch(fail_second, NULL, 0), "the second one");
  assert_ok(TVMBackendParallelLaunch(fail_second, NULL, 1));
}

static int fail_with_number(int task_id, TVMParallelGroupEnv* env, void* cdata) {
  char text[32];
  (void)env;
  if (task_id < *(int*)cdata) return 0;
  (void)snprintf(text, sizeof(text), "IndexError: task %d", task_id);
  TVMAPISetLastError(text);
  return -1;
}

/* Several fail: the first error is reported, with its kind as prefix, as on one thread. */
static void test_first_failed_task_is_reported(void** state) {
  static const char* const expected[] = {"IndexError: task 0", "IndexError: task 1",
                                         "IndexError: task 2"};
  (void)state;
  use_workers(3);
  for (int first = 0; first < 3; ++first) {
    assert_int_equal(TVMBackendParallelLaunch(fail_with_number, &first, 0), -1);
    assert_string_equal(TVMGetLastError(), expected[first]);
  }
}

static int fail_silently(int task_id, TVMParallelGroupEnv* env, void* cdata) {
  (void)env, (void)cdata;
  return task_id == 1 ? -1 : 0;
}

static void test_error_of_silent_task_is_cleared(void** state) {
  (void)state;
  use_workers(2);
  assert_fails(TVMBackendParallelLaunch(fail_second, NULL, 0), "the second one");
  assert_int_equal(TVMBackendParallelLaunch(fail_silently, NULL, 0), -1);
  assert_string_equal(TVMGetLastError(), "");
}

static int launch_inside(int task_id, TVMParallelGroupEnv* env, void* cdata) {
  (void)task_id, (void)env;
  return TVMBackendParallelLaunch(count_runs, cdata, 0);
}

static void test_nested_launch_runs_on_its_caller(void** state) {
  tally t = {0};
  (void)state;
  use_workers(3);
  assert_ok(TVMBackendParallelLaunch(launch_inside, &t, 0));
  assert_int_equal(t.num_task, 1);
  assert_int_equal(t.runs[0], 3);
}

static void* launch_in_thread(void* failure) {
  for (int i = 0; i < 500; ++i) {
    tally t = {0};
    if (TVMBackendParallelLaunch(count_runs, &t, 0) != 0) return failure;
    for (int k = 0; k < t.num_task; ++k) {
      if (t.runs[k] != 1) return failure;
    }
  }
  return NULL;
}

static void test_threads_may_launch_at_once(void** state) {
  pthread_t threads[3];
  (void)state;
  use_workers(2);
  for (int i = 0; i < 3; ++i) {
    assert_int_equal(pthread_create(&threads[i], NULL, launch_in_thread, threads), 0);
  }
  for (int i = 0; i < 3; ++i) {
    void* failed;
    assert_int_equal(pthread_join(threads[i], &failed), 0);
    assert_null(failed);
  }
}

static void test_forked_child_has_own_workers(void** state) {
  pid_t child;
  int status;
  tally t = {0};
  (void)state;
  use_workers(2);
  assert_ok(TVMBackendParallelLaunch(count_runs, &t, 0));
  child = fork();
  if (child == 0) {
    TVMFunctionHandle f;
    alarm(120);
    if (TVMBackendParallelLaunch(count_runs, &t, 0) != 0) _exit(1);
    if (TVMFuncGetGlobal("runtime.NumThreads", &f) != 0) _exit(2);
    _exit(t.runs[1] == 2 ? 0 : 3);
  }
  assert_true(child > 0);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

static int return_error(void* cdata) {
  ++*(int*)cdata;
  return 5;
}

static void test_run_once_runs_once(void** state) {
  void* handle = NULL;
  int runs = 0;
  (void)state;
  assert_int_equal(TVMBackendRunOnce(&handle, return_error, &runs, sizeof(runs)), 5);
  assert_int_equal(TVMBackendRunOnce(&handle, return_error, &runs, sizeof(runs)), 0);
  assert_int_equal(runs, 1);
}

static void* fail_in_thread(void* seen) {
  TVMAPISetLastError("of the other thread");
  (void)snprintf(seen, 64, "%s", TVMGetLastError());
  return NULL;
}

static void test_error_text_belongs_to_its_thread(void** state) {
  char seen[64];
  pthread_t thread;
  (void)state;
  TVMAPISetLastError("of this thread");
  assert_int_equal(pthread_create(&thread, NULL, fail_in_thread, seen), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_string_equal(seen, "of the other thread");
  assert_string_equal(TVMGetLastError(), "of this thread");
}

/* Memory of this many bytes is copied by all threads, which cut it where lines end. */
enum { LARGE = 300 << 10 };

/* This many bytes as a tensor; `count` must outlive it. */
static DLTensor bytes_at(unsigned char* at, int64_t* count) {
  const DLTensor bytes = {
      .data = at, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLUInt, 8, 1}, .shape = count};
  return bytes;
}

static unsigned char pattern(int i) { return (unsigned char)(i * 37 + (i >> 8)); }

static void test_large_memory_is_copied_by_any_number_of_threads(void** state) {
  static unsigned char from[LARGE], to[LARGE + 1];
  tally t = {0};
  (void)state;
  for (int i = 0; i < LARGE; ++i) from[i] = pattern(i);
  for (int workers = 1; workers <= 4; ++workers) {
    use_workers(workers);
    assert_ok(TVMBackendParallelLaunch(count_runs, &t, 0)); /* starts them */
    for (int less = 0; less < 130; less += 43) {
      int64_t count = LARGE - less;
      DLTensor source = bytes_at(from, &count), target = bytes_at(to, &count);
      memset(to, 0xee, sizeof(to));
      assert_ok(TVMDeviceCopyDataFromTo(&source, &target, NULL));
      assert_memory_equal(to, from, (size_t)count);
      assert_int_equal(to[count], 0xee);
    }
  }
}

static void test_large_memory_moves_within_itself(void** state) {
  static unsigned char bytes[LARGE];
  int64_t count = LARGE - 64;
  tally t = {0};
  (void)state;
  use_workers(2);
  assert_ok(TVMBackendParallelLaunch(count_runs, &t, 0));
  for (int up = 0; up < 2; ++up) {
    DLTensor source = bytes_at(bytes + (up ? 0 : 64), &count);
    DLTensor target = bytes_at(bytes + (up ? 64 : 0), &count);
    for (int i = 0; i < LARGE; ++i) bytes[i] = pattern(i);
    assert_ok(TVMDeviceCopyDataFromTo(&source, &target, NULL));
    for (int i = 0; i < count; ++i) {
      if (bytes[i + (up ? 64 : 0)] != pattern(i + (up ? 0 : 64))) fail_msg("byte %d", i);
    }
  }
}

int main(void) {
  /* a busy machine takes no threads from launches here: their numbers are what is tested */
  if (setenv("TVM_THREAD_POOL_TRUCE", "0", 1) != 0) return 1;
  if (setenv("TVM_THREAD_POOL_SPIN_COUNT", LOOKS, 1) != 0) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_task_runs_once),
      cmocka_unit_test(test_fewer_or_too_many_tasks_requested),
      cmocka_unit_test(test_woken_worker_stays_awake_without_task),
      cmocka_unit_test(test_barrier_waits_for_all),
      cmocka_unit_test(test_failed_task_reports_error),
      cmocka_unit_test(test_first_failed_task_is_reported),
      cmocka_unit_test(test_error_of_silent_task_is_cleared),
      cmocka_unit_test(test_nested_launch_runs_on_its_caller),
      cmocka_unit_test(test_threads_may_launch_at_once),
      cmocka_unit_test(test_forked_child_has_own_workers),
      cmocka_unit_test(test_run_once_runs_once),
      cmocka_unit_test(test_error_text_belongs_to_its_thread),
      cmocka_unit_test(test_large_memory_is_copied_by_any_number_of_threads),
      cmocka_unit_test(test_large_memory_moves_within_itself),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
