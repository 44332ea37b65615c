/* threads.h on Windows. */
#include <process.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "system.h"
#include "threads.h"
#include "windows_api.h"

/* Casts of the pointers in windows_locks.h. */
#define SRW(lock) ((PSRWLOCK)(void*)(lock))
#define VARIABLE(cond) ((PCONDITION_VARIABLE)(void*)(cond))
_Static_assert(sizeof(SRWLOCK) == sizeof(tvmrt_mutex), "a lock is a pointer");
_Static_assert(sizeof(SRWLOCK) == sizeof(tvmrt_rwlock), "a lock is a pointer");
_Static_assert(sizeof(CONDITION_VARIABLE) == sizeof(tvmrt_cond), "a condition is a pointer");
_Static_assert(sizeof(INIT_ONCE) == sizeof(tvmrt_once), "a beginning is a pointer");

/* Never fails, unlike on other systems: callers check anyway. */
int tvmrt__mutex_init(tvmrt_mutex* m) {
  InitializeSRWLock(SRW(m));
  return 0;
}

/* Locks and conditions own no resources. */
void tvmrt__mutex_free(tvmrt_mutex* m) { (void)m; }
void tvmrt__lock(tvmrt_mutex* m) { AcquireSRWLockExclusive(SRW(m)); }
void tvmrt__unlock(tvmrt_mutex* m) { ReleaseSRWLockExclusive(SRW(m)); }

/* Readers must unlock as readers: the system does not record the holder of a lock, nor its mode. */
void tvmrt__lock_read(tvmrt_rwlock* l) { AcquireSRWLockShared(SRW(l)); }
void tvmrt__unlock_read(tvmrt_rwlock* l) { ReleaseSRWLockShared(SRW(l)); }
void tvmrt__lock_write(tvmrt_rwlock* l) { AcquireSRWLockExclusive(SRW(l)); }
void tvmrt__unlock_write(tvmrt_rwlock* l) { ReleaseSRWLockExclusive(SRW(l)); }
/* Never called, since Windows has no fork. */
void tvmrt__rwlock_renew(tvmrt_rwlock* l) { InitializeSRWLock(SRW(l)); }

/* Nothing to free, like the locks. */
int tvmrt__cond_init(tvmrt_cond* c) {
  InitializeConditionVariable(VARIABLE(c));
  return 0;
}

void tvmrt__cond_free(tvmrt_cond* c) { (void)c; }

void tvmrt__wait(tvmrt_cond* c, tvmrt_mutex* m) {
  (void)SleepConditionVariableSRW(VARIABLE(c), SRW(m), INFINITE, 0);
}

/* True also for spurious wake-ups: callers check their condition. */
bool tvmrt__wait_until(tvmrt_cond* c, tvmrt_mutex* m, double deadline) {
  const double left = 1e3 * (deadline - tvmrt__seconds());
  /* rounded up, so that the time is past; waits longer than a day wake in between */
  const DWORD ms = left <= 0 ? 0 : left > 86400e3 ? 86400000 : (DWORD)left + 1;
  if (SleepConditionVariableSRW(VARIABLE(c), SRW(m), ms, 0)) return true;
  return tvmrt__seconds() < deadline;
}

void tvmrt__wake_one(tvmrt_cond* c) { WakeConditionVariable(VARIABLE(c)); }
void tvmrt__wake_all(tvmrt_cond* c) { WakeAllConditionVariable(VARIABLE(c)); }

/* A struct around the function, since the argument is a data pointer. */
typedef struct task {
  void (*f)(void);
} task;

static BOOL CALLBACK do_once(PINIT_ONCE once, PVOID argument, PVOID* context) {
  const task* t = argument;
  (void)once;
  (void)context;
  t->f();
  return TRUE;
}

/* If another thread is executing `f`, wait, so that it has finished when this returns. */
void tvmrt__call_once(tvmrt_once* once, void (*f)(void)) {
  task t;
  t.f = f;
  (void)InitOnceExecuteOnce((PINIT_ONCE)(void*)once, do_once, &t, NULL);
}

void tvmrt__thread_yield(void) { (void)SwitchToThread(); }
tvmrt_thread_id tvmrt__thread_id(void) { return GetCurrentThreadId(); }
bool tvmrt__is_thread(tvmrt_thread_id id) { return id == GetCurrentThreadId(); }

/* Start parameters of a thread; owned by the thread once it runs. */
typedef struct start {
  void* (*body)(void*);
  void* argument;
} start;

/* Frees the parameters before calling the body, which may never return. */
static unsigned __stdcall run(void* argument) {
  start s = *(start*)argument;
  free(argument);
  (void)s.body(s.argument);
  return 0;
}

/* Not by CreateThread(), which skips the per-thread state of the C library. The caller owns the
 * handle until it joins. */
int tvmrt__thread_start(tvmrt_os_thread* out, void* (*body)(void*), void* argument) {
  start* s = malloc(sizeof(*s));
  uintptr_t thread;
  if (s == NULL) return ERROR_NOT_ENOUGH_MEMORY;
  s->body = body;
  s->argument = argument;
  thread = _beginthreadex(NULL, 0, run, s, 0, NULL);
  if (thread == 0) {
    free(s);
    return ERROR_MAX_THRDS_REACHED;
  }
  *out = (tvmrt_os_thread)thread;
  return 0;
}

/* Closing a handle does not end the thread. */
int tvmrt__thread_start_detached(void* (*body)(void*), void* argument) {
  tvmrt_os_thread thread;
  const int rc = tvmrt__thread_start(&thread, body, argument);
  if (rc == 0) (void)CloseHandle(thread);
  return rc;
}

/* The handle is closed here: a thread is joined once. */
void tvmrt__thread_join(tvmrt_os_thread* thread) {
  (void)WaitForSingleObject(*thread, INFINITE);
  (void)CloseHandle(*thread);
}

/* Processors of the process's own group, at most 64. */
static DWORD_PTR own_processors(void) {
  DWORD_PTR own = 0;
  DWORD_PTR all = 0;
  return GetProcessAffinityMask(GetCurrentProcess(), &own, &all) ? own : 0;
}

/* Each iteration clears the lowest bit. */
static int count_bits(DWORD_PTR set) {
  int count = 0;
  for (; set != 0; set &= set - 1) ++count;
  return count;
}

/* The system lists relations of any kind; those of cores have the processors of each. */
int tvmrt__num_cores(void) {
  const DWORD_PTR own = own_processors();
  SYSTEM_LOGICAL_PROCESSOR_INFORMATION* list;
  DWORD bytes = 0;
  int count = 0;
  (void)GetLogicalProcessorInformation(NULL, &bytes);
  list = malloc(bytes + 1);
  if (list != NULL && GetLogicalProcessorInformation(list, &bytes)) {
    for (DWORD i = 0; i < bytes / sizeof(*list); ++i) {
      count += list[i].Relationship == RelationProcessorCore && (list[i].ProcessorMask & own) != 0;
    }
  }
  free(list);
  if (count == 0) count = count_bits(own);
  return count < 1 ? 1 : count;
}

/* A hint, as on other systems: failures are ignored. */
void tvmrt__thread_bind(tvmrt_os_thread* thread, int cpu_index) {
  DWORD_PTR own = own_processors();
  if (own == 0) return;
  for (cpu_index %= count_bits(own); cpu_index != 0; --cpu_index) own &= own - 1;
  (void)SetThreadAffinityMask(*thread, own & (~own + 1)); /* the lowest bit */
}

/* Fibre-local storage calls a function when a thread ends. The slot is never freed: freeing it
 * would call the function for all threads at once. */
static INIT_ONCE end_once = INIT_ONCE_STATIC_INIT;
static DWORD end_slot = FLS_OUT_OF_INDEXES;
static _Atomic(void (*)(void*)) end_function; /* equal for all threads; may be set concurrently */

static void WINAPI end_thread(void* state) {
  void (*const end)(void*) = atomic_load(&end_function);
  if (state != NULL) end(state);
}

static BOOL CALLBACK make_end_slot(PINIT_ONCE once, PVOID argument, PVOID* context) {
  (void)once;
  (void)argument;
  (void)context;
  end_slot = FlsAlloc(end_thread);
  return TRUE;
}

/* -1 if the process has no slot left; the state then leaks with the thread. */
int tvmrt__at_thread_end(void (*f)(void* state), void* state) {
  atomic_store(&end_function, f);
  (void)InitOnceExecuteOnce(&end_once, make_end_slot, NULL, NULL);
  if (end_slot == FLS_OUT_OF_INDEXES) return -1;
  return FlsSetValue(end_slot, state) ? 0 : -1;
}

/* Windows has no fork. */
void tvmrt__at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
  (void)before;
  (void)in_parent;
  (void)in_child;
}
