/* Schedulers by name: "sync" and "async", which always exist, and those that users add.
 *
 * The list is global, guarded by its own lock, which is not held while a scheduler is called.
 * Executors copy schedulers that they find. */
#include <stddef.h>
#include <string.h>

#include "schedule.h"

/* Runs all steps on the calling thread; the first failure ends the run. */
static int run_in_order(const tvmrt_scheduler* scheduler, tvmrt_plan* plan) {
  int32_t i;
  (void)scheduler;
  for (i = 0; i < plan->num_steps; ++i) {
    if (plan->is_cancelled(plan)) return -1;
    TVMRT_RETURN_IF_ERROR(plan->run_step(plan, i));
  }
  return 0;
}

/* No pre_run and no wait: the run has finished when run() returns. */
static const tvmrt_scheduler sync_scheduler = {
    .struct_bytes = sizeof(sync_scheduler),
    .name = "sync",
    .run = run_in_order,
};

/* Schedulers that users added; never removed, since executors have copies of them. */
typedef struct registered {
  tvmrt_scheduler scheduler;
  struct registered* next;
} registered;

static tvmrt_mutex lock = TVMRT_MUTEX_INIT;
static registered* first;

/* Called with the lock held. The result stays valid: schedulers are never removed. */
static const tvmrt_scheduler* find_locked(const char* name) {
  const registered* a = first;
  if (strcmp(name, sync_scheduler.name) == 0) return &sync_scheduler;
  if (strcmp(name, tvmrt__async_scheduler.name) == 0) return &tvmrt__async_scheduler;
  while (a != NULL && strcmp(a->scheduler.name, name) != 0) a = a->next;
  return a == NULL ? NULL : &a->scheduler;
}

/* A copy, so that callers need no lock afterwards. */
int tvmrt__scheduler_find(const char* name, tvmrt_scheduler* out) {
  const tvmrt_scheduler* found;
  tvmrt__lock(&lock);
  found = find_locked(name);
  if (found != NULL) *out = *found;
  tvmrt__unlock(&lock);
  if (found != NULL) return 0;
  return tvmrt__fail_value(
      "there is no scheduler '%.60s'; use 'sync', 'async' or one that tvmrt_scheduler_register() "
      "has added.",
      name);
}

/* Plug-ins may be older or newer than this library: slots that they lack are NULL, slots that this
 * library does not know are ignored. */
void tvmrt__scheduler_copy(tvmrt_scheduler* to, const tvmrt_scheduler* from) {
  const size_t stated_bytes = from->struct_bytes;
  memset(to, 0, sizeof(*to));
  memcpy(to, from, stated_bytes < sizeof(*to) ? stated_bytes : sizeof(*to));
  to->struct_bytes = sizeof(*to);
}

/* Called with the lock held. The name is borrowed and must stay valid, see device_scheduler.h. */
static int add_locked(const tvmrt_scheduler* scheduler) {
  registered* a;
  if (find_locked(scheduler->name) != NULL) {
    return tvmrt__fail_value("there is a scheduler '%.60s' already; names must be unique.",
                             scheduler->name);
  }
  a = tvmrt__calloc(1, sizeof(*a));
  if (a == NULL) return -1;
  tvmrt__scheduler_copy(&a->scheduler, scheduler);
  a->next = first;
  first = a;
  return 0;
}

int tvmrt__scheduler_add(const tvmrt_scheduler* scheduler) {
  const size_t first_bytes = offsetof(tvmrt_scheduler, choose); /* of the first version */
  int rc;
  if (scheduler == NULL || scheduler->struct_bytes < first_bytes || scheduler->name == NULL ||
      scheduler->name[0] == '\0' || scheduler->run == NULL) {
    return tvmrt__fail_value(
        "tvmrt_scheduler_register: a scheduler needs struct_bytes of %zu or more, a name and the "
        "slot 'run'.",
        first_bytes);
  }
  tvmrt__lock(&lock);
  rc = add_locked(scheduler);
  tvmrt__unlock(&lock);
  return rc;
}
