/* Times of kernels, by region and node.
 *
 * Plans prepared with the option "profile" are in a process-wide list with a lock. Their times
 * accumulate over runs until the plan is freed. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

static pthread_mutex_t profiled_lock = PTHREAD_MUTEX_INITIALIZER;
static opencl_plan* profiled;

/* The list borrows the plan, which removes itself before it is freed. */
void opencl_profile_add(opencl_plan* p) {
  if (!p->profile) return;
  (void)pthread_mutex_lock(&profiled_lock);
  p->next = profiled;
  profiled = p;
  (void)pthread_mutex_unlock(&profiled_lock);
}

/* Does nothing for a plan that was not added. */
void opencl_profile_remove(const opencl_plan* p) {
  opencl_plan** at;
  (void)pthread_mutex_lock(&profiled_lock);
  for (at = &profiled; *at != NULL; at = &(*at)->next) {
    if (*at != p) continue;
    *at = p->next;
    break;
  }
  (void)pthread_mutex_unlock(&profiled_lock);
}

/* Add the time from start to end of the kernel on the device, without the time in the queue. If the
 * driver returns an error, the call is not counted. */
static void add_time(launch* l) {
  cl_ulong begin = 0, end = 0;
  if (clGetEventProfilingInfo(l->event, CL_PROFILING_COMMAND_START, sizeof(begin), &begin, NULL) ==
          CL_SUCCESS &&
      clGetEventProfilingInfo(l->event, CL_PROFILING_COMMAND_END, sizeof(end), &end, NULL) ==
          CL_SUCCESS) {
    l->calls++;
    l->nanoseconds += end - begin;
  }
}

/* Events are driver memory, one per kernel and run, and are released with the run, also after a
 * failure. The lock is held, since the times may be read at any moment. */
void opencl_profile_end_run(opencl_plan* p, bool succeeded) {
  int32_t i;
  (void)pthread_mutex_lock(&profiled_lock);
  for (i = 0; i < p->num_launches; ++i) {
    launch* l = &p->launches[i];
    if (l->event == NULL) continue;
    if (succeeded) add_time(l);
    clReleaseEvent(l->event);
    l->event = NULL;
  }
  (void)pthread_mutex_unlock(&profiled_lock);
}

/* The size is computed under the lock of the writing, so the list cannot change in between. The
 * caller frees the text with free(); NULL if out of memory. 64 bytes are sufficient for the numbers
 * of up to 20 digits. */
char* opencl_profile_text(void) {
  const opencl_plan* p;
  size_t size = 1, used = 0;
  char* text;
  int32_t i;
  (void)pthread_mutex_lock(&profiled_lock);
  for (p = profiled; p != NULL; p = p->next) {
    for (i = 0; i < p->num_launches; ++i) {
      size += strlen(p->region->symbol) + sizeof(p->launches[i].name) + 64 +
              strlen(p->region->nodes[p->launches[i].node].name);
    }
  }
  text = calloc(1, size);
  for (p = profiled; p != NULL && text != NULL; p = p->next) {
    for (i = 0; i < p->num_launches; ++i) {
      const launch* l = &p->launches[i];
      int n = snprintf(text + used, size - used, "%s\t%s\t%s\t%llu\t%llu\n", p->region->symbol,
                       p->region->nodes[l->node].name, l->name, (unsigned long long)l->calls,
                       (unsigned long long)l->nanoseconds);
      if (n > 0) used += (size_t)n;
    }
  }
  (void)pthread_mutex_unlock(&profiled_lock);
  return text;
}
