/* Make the n-th system call fail: shared by programs that are linked with the runtime's static
   library and with -Wl,--wrap for the functions that go through fails_now(). Calls inside the C
   library and shared libraries do not fail. */
#ifndef TVMRT_TESTS_C_FAULT_INJECTION_H_
#define TVMRT_TESTS_C_FAULT_INJECTION_H_

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "support.h"

/* Threads of the runtime count too. */
static _Atomic long allowed = -1; /* calls until the one that fails; negative: none fails */
static _Atomic int forever;       /* whether all after it fail too */
static _Atomic int failed;

static inline int fails_now(int code) {
  long left = allowed;
  while (left > 0 && !atomic_compare_exchange_weak(&allowed, &left, left - 1)) {
  }
  if (left != 0) return 0;
  failed = 1;
  if (!forever) allowed = -1;
  errno = code;
  return 1;
}

/* ---- locks and threads ---- */

int __real_pthread_create(pthread_t* out, const pthread_attr_t* attr, void* (*run)(void*),
                          void* argument);
int __wrap_pthread_create(pthread_t* out, const pthread_attr_t* attr, void* (*run)(void*),
                          void* argument);
int __real_pthread_mutex_init(pthread_mutex_t* lock, const pthread_mutexattr_t* attr);
int __wrap_pthread_mutex_init(pthread_mutex_t* lock, const pthread_mutexattr_t* attr);
int __real_pthread_cond_init(pthread_cond_t* cond, const pthread_condattr_t* attr);
int __wrap_pthread_cond_init(pthread_cond_t* cond, const pthread_condattr_t* attr);

int __wrap_pthread_create(pthread_t* out, const pthread_attr_t* attr, void* (*run)(void*),
                          void* argument) {
  return fails_now(0) ? EAGAIN : __real_pthread_create(out, attr, run, argument);
}

int __wrap_pthread_mutex_init(pthread_mutex_t* lock, const pthread_mutexattr_t* attr) {
  return fails_now(0) ? ENOMEM : __real_pthread_mutex_init(lock, attr);
}

int __wrap_pthread_cond_init(pthread_cond_t* cond, const pthread_condattr_t* attr) {
  return fails_now(0) ? ENOMEM : __real_pthread_cond_init(cond, attr);
}

/* ---- sweeping ---- */

typedef int (*scenario)(void);
/* Checks after a scenario, whether it succeeded or failed. */
typedef void (*postcondition)(int rc);

/* Run `use` with its n-th call failing: an error with a text or a success, and a success
   afterwards. Returns whether there was such a call. */
static inline int sweep_once(const char* name, scenario use, postcondition check, long n) {
  int rc;
  TVMAPISetLastError("");
  failed = 0;
  allowed = n;
  rc = use();
  allowed = -1;
  if (rc != 0 && (!failed || strlen(TVMGetLastError()) == 0)) {
    fail_msg("%s, call %ld, %s: failed %d, text '%s'", name, n, forever ? "for ever" : "once",
             failed, TVMGetLastError());
  }
  if (check != NULL) check(rc);
  if (!failed) return 0;
  assert_ok(use()); /* no bad state remains */
  if (check != NULL) check(0);
  return 1;
}

/* Run `use` with its first, second, ... call failing, once and permanently, until no call is
   left. */
static inline void sweep(const char* name, scenario use, postcondition check) {
  long swept = 0;
  assert_ok(use()); /* create once-per-process state */
  if (check != NULL) check(0);
  for (forever = 0; forever < 2; ++forever) {
    for (long n = 0; sweep_once(name, use, check, n); ++n) ++swept;
  }
  print_message("%s: %ld calls failed\n", name, swept);
  assert_true(swept > 0);
}

#endif
