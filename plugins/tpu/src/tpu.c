/* The device "tpu": a simulated accelerator with its own memory, layout and queue.
 *
 * Options, of the library or of tvmrt.device.set_options:
 *
 *   {"precision": "float16"}   default precision of nodes: float16 or int8 instead of float32
 *   {"duration_us": 500}       minimum duration of a run
 *   {"fault": "run"}           a slot fails: "pre_run", "run" (at the last node), "hang" (a run
 *                              never ends) or "lost" (this run and all later slots fail)
 *
 * The environment variable TVMRT_TPU_FAULT also sets a fault, including "init" and "allocate".
 * TVMRT_TPU_MEMORY_BYTES sets the size of the device's memory; the default is 1 GiB. */
#include "tpu.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

TVMRT_DEVICE_PLUGIN(tpu)

/* State of a job. DONE and FAILED stay until the next run, so that waiting twice gives the same
 * result. */
typedef enum { IDLE, QUEUED, RUNNING, DONE, FAILED } job_state;

/* device_graph: the program of a region, and its entry in the queue. Owned by the region; used by
 * the worker from async_run to the end of the run. */
typedef struct job {
  tpu_program program;
  tvmrt_region* region;
  struct job* next;
  job_state state;
  bool is_stopped; /* set by post_run: the worker stops as soon as possible */
  char fault[16];
  int64_t duration_us;
  uint64_t memory_bytes; /* reserved for this job */
} job;

/* privacy: one for all regions of the device. */
typedef struct accelerator {
  pthread_mutex_t lock; /* protects all following members and the jobs' states */
  pthread_cond_t changed;
  job* first;           /* in the queue */
  pid_t worker_process; /* process of the worker; 0: none. A forked child has no worker */
  bool is_closing;
  bool is_lost;
  pthread_t worker;
  uint64_t memory_bytes; /* free memory */
} accelerator;

/* Returns -1; the runtime prefixes device, slot and region. */
static int fail(const char* text) {
  TVMPackedFuncSetLastError(text);
  return -1;
}

/* The region's option precedes the environment variable. Truncated at 15 letters, more than any
 * fault has. */
static void read_fault(const char* options, char fault[16]) {
  const char* at = tvmrt_option(options, "fault");
  if (at == NULL) at = getenv("TVMRT_TPU_FAULT");
  if (at == NULL) at = "";
  at += *at == '"';
  (void)snprintf(fault, 16, "%.*s", (int)strcspn(at, "\""), at);
}

/* On failure everything is undone. */
static bool make_lock(accelerator* a) {
  if (pthread_mutex_init(&a->lock, NULL) != 0) return false;
  if (pthread_cond_init(&a->changed, NULL) == 0) return true;
  (void)pthread_mutex_destroy(&a->lock);
  return false;
}

/* Called once per registration. release_device() frees the state in `privacy`; on failure the
 * runtime calls no further slots. */
static int tpu_init(tvmrt_device* device) {
  const char* memory = getenv("TVMRT_TPU_MEMORY_BYTES");
  char fault[16];
  accelerator* a;
  read_fault("", fault);
  if (strcmp(fault, "init") == 0) return fail("the simulated fault 'init'.");
  a = calloc(1, sizeof(*a));
  if (a == NULL) return fail("MemoryError: no memory for the simulation.");
  if (!make_lock(a)) {
    free(a);
    return fail("the simulation cannot create a mutex.");
  }
  a->memory_bytes = memory == NULL ? (uint64_t)1 << 30 : strtoull(memory, NULL, 10);
  device->privacy = a;
  return 0;
}

/* A forked child has no worker and cannot use the condition that the worker waited for: it records
 * a thread that never wakes, so broadcasting or destroying it would block. */
static bool is_parent_process(const accelerator* a) {
  return a->worker_process != 0 && a->worker_process != getpid();
}

/* On failure everything stays unchanged, so that the next run tries again. Jobs in the queue belong
 * to the parent and never run here. */
static bool forget_worker(accelerator* a) {
  if (pthread_cond_init(&a->changed, NULL) != 0) return false;
  a->worker_process = 0;
  a->first = NULL;
  return true;
}

/* No region is left, so the queue is empty. Waits for the worker, since its code is in this
 * library. */
static int tpu_release_device(tvmrt_device* device) {
  accelerator* a = device->privacy;
  if (!is_parent_process(a)) {
    (void)pthread_mutex_lock(&a->lock);
    a->is_closing = true;
    (void)pthread_cond_broadcast(&a->changed);
    (void)pthread_mutex_unlock(&a->lock); /* the worker locks once more before it ends */
    if (a->worker_process != 0) (void)pthread_join(a->worker, NULL);
    (void)pthread_cond_destroy(&a->changed);
  }
  (void)pthread_mutex_destroy(&a->lock);
  free(a);
  return 0;
}

/* Operators by name, and supported precisions; types and shapes are checked in evaluation. */
static int tpu_describe(tvmrt_device* device, tvmrt_device_description* out) {
  static const char* const precisions[] = {"float16", "int8", NULL};
  (void)device;
  out->ops = tpu_ops;
  out->precisions = precisions;
  return 0;
}

/* Names are truncated, since a network's may have any length. */
static int refuse(const char* what, const char* name, const char* why) {
  char text[256];
  (void)snprintf(text, sizeof(text), "%s '%.100s': %s", what, name, why);
  return fail(text);
}

/* Checks the whole region: an accepted region must run. */
static int tpu_evaluation(tvmrt_device* device, const tvmrt_region* region) {
  const char* reason;
  int32_t i;
  (void)device;
  for (i = 0; i < region->num_tensors; ++i) {
    reason = tpu_refuses_tensor(&region->tensors[i]);
    if (reason != NULL) return refuse("tensor", region->tensors[i].name, reason);
  }
  for (i = 0; i < region->num_nodes; ++i) {
    reason = tpu_refuses(region, &region->nodes[i]);
    if (reason != NULL) return refuse("node", region->nodes[i].name, reason);
  }
  return 0;
}

/* Nodes that cannot run alone are left to the CPU; the default split groups the operators of
 * `describe`. So evaluation never rejects a region of this split. */
static int tpu_split_graph(tvmrt_device* device, const tvmrt_region* graph, int32_t* out_groups) {
  int32_t i;
  int32_t k;
  if (tvmrt_split_graph_by_describe(device, graph, out_groups) != 0) return -1;
  for (i = 0; i < graph->num_nodes; ++i) {
    const tvmrt_region_node* n = &graph->nodes[i];
    bool fits = true;
    for (k = 0; k < n->num_inputs; ++k) {
      fits &= n->inputs[k] < 0 || tpu_refuses_tensor(&graph->tensors[n->inputs[k]]) == NULL;
    }
    for (k = 0; k < n->num_outputs; ++k) {
      fits &= tpu_refuses_tensor(&graph->tensors[n->outputs[k]]) == NULL;
    }
    if (!fits || tpu_refuses(graph, n) != NULL) out_groups[i] = -1;
  }
  return 0;
}

/* int8 is used for matmul-like operators, float16 for all. pre_run gets the choice as an attribute
 * of each node. */
static int tpu_optimize_graph(tvmrt_device* device, const tvmrt_region* region,
                              const char* precision, int32_t* out_reduced) {
  const bool is_int8 = strcmp(precision, "int8") == 0;
  int32_t i;
  (void)device;
  for (i = 0; i < region->num_nodes; ++i) {
    const char* op = region->nodes[i].op;
    const bool is_product = strcmp(op, "conv") == 0 || strcmp(op, "matmul") == 0;
    out_reduced[i] = is_int8 ? is_product : strcmp(precision, "float16") == 0;
  }
  return 0;
}

/* Reserve memory for a job, which returns it when it is freed. Nothing is reserved on failure.
 * Simulated: only the bytes are counted; the memory is the host's. */
static int reserve(accelerator* a, uint64_t bytes, job* j) {
  bool fits;
  (void)pthread_mutex_lock(&a->lock);
  fits = bytes <= a->memory_bytes;
  if (fits) {
    a->memory_bytes -= bytes;
    j->memory_bytes = bytes;
  }
  (void)pthread_mutex_unlock(&a->lock);
  return fits ? 0 : fail("MemoryError: the region does not fit into the remaining device memory.");
}

/* Also frees a partly made job, whose missing parts are NULL or 0. */
static int tpu_release_graph(tvmrt_device* device, void* device_graph) {
  accelerator* a = device->privacy;
  job* j = device_graph;
  (void)pthread_mutex_lock(&a->lock);
  a->memory_bytes += j->memory_bytes;
  (void)pthread_mutex_unlock(&a->lock);
  free(j->program.tensors);
  free(j->program.memory);
  free(j);
  return 0;
}

/* Only checks whether the region can ever fit: pre_run reserves the memory, since shapes may
 * change. The memory is reserved and released at once; if another region takes it, pre_run
 * fails. */
static int tpu_allocate(tvmrt_device* device, tvmrt_region* region) {
  job unused = {0};
  accelerator* a = device->privacy;
  char fault[16];
  read_fault("", fault);
  if (strcmp(fault, "allocate") == 0) return fail("the simulated fault 'allocate'.");
  if (reserve(a, tpu_words_of(region) * sizeof(float), &unused) != 0) return -1;
  (void)pthread_mutex_lock(&a->lock);
  a->memory_bytes += unused.memory_bytes;
  (void)pthread_mutex_unlock(&a->lock);
  return 0;
}

/* Words have 4 bytes in all precisions. On failure release_graph frees everything. */
static int make_program(accelerator* a, job* j, const tvmrt_region* region, const char* options) {
  tpu_program* p = &j->program;
  if (reserve(a, tpu_words_of(region) * sizeof(float), j) != 0) return -1;
  p->region = region;
  p->precision = tvmrt_option_is(options, "precision", "float16") ? TPU_FLOAT16
                 : tvmrt_option_is(options, "precision", "int8")  ? TPU_INT8
                                                                  : TPU_FLOAT32;
  /* one more, so the size is never 0, for which NULL could be returned */
  p->tensors = calloc((size_t)region->num_tensors + 1, sizeof(*p->tensors));
  p->memory = calloc((size_t)tpu_words_of(region) + 1, sizeof(*p->memory));
  if (p->tensors == NULL || p->memory == NULL) return fail("MemoryError: no memory to simulate.");
  tpu_assign_memory(p);
  return 0;
}

/* A lost device fails until it is registered again, like hardware that needs a reset. */
static int check_lost(accelerator* a) {
  bool is_lost;
  (void)pthread_mutex_lock(&a->lock);
  is_lost = a->is_lost;
  (void)pthread_mutex_unlock(&a->lock);
  return is_lost ? fail("the device was lost; unregister it to start it again.") : 0;
}

/* Also called for new shapes; the old program is freed first, since both may not fit in memory.
 * release_graph frees device_graph, also after a failure. A lost device fails here already. */
static int tpu_pre_run(tvmrt_device* device, tvmrt_region* region, const char* options) {
  const char* duration = tvmrt_option(options, "duration_us");
  job* j;
  if (check_lost(device->privacy) != 0) return -1;
  if (region->device_graph != NULL) (void)tpu_release_graph(device, region->device_graph);
  region->device_graph = NULL; /* freed above */
  j = calloc(1, sizeof(*j));
  if (j == NULL) return fail("MemoryError: no memory for the program.");
  region->device_graph = j;
  j->region = region;
  j->duration_us = duration == NULL ? 0 : strtoll(duration, NULL, 10);
  read_fault(options, j->fault);
  if (strcmp(j->fault, "pre_run") == 0) {
    region->failed_node = 0;
    return fail("the simulated fault 'pre_run'.");
  }
  return make_program(device->privacy, j, region, options);
}

/* Wait until a time, until the run is stopped, or forever (NULL). Called with the lock held. The
 * condition is also signalled for others, so each wake-up is checked. */
static void stay_busy(accelerator* a, const job* j, const struct timespec* until) {
  int rc = 0;
  while (!j->is_stopped && rc != ETIMEDOUT) {
    rc = until == NULL ? pthread_cond_wait(&a->changed, &a->lock)
                       : pthread_cond_timedwait(&a->changed, &a->lock, until);
  }
}

/* Absolute time on the clock of conditions. If that clock is set, the run's duration changes, which
 * only affects the simulation. */
static struct timespec deadline_after(int64_t microseconds) {
  struct timespec t;
  /* the clock of pthread_cond_timedwait(), unless a condition is made with another */
  if (clock_gettime(CLOCK_REALTIME, &t) != 0) memset(&t, 0, sizeof(t));
  t.tv_sec += (time_t)(microseconds / 1000000);
  t.tv_nsec += (long)(microseconds % 1000000) * 1000;
  if (t.tv_nsec >= 1000000000) {
    ++t.tv_sec;
    t.tv_nsec -= 1000000000;
  }
  return t;
}

/* Called without the lock; the caller's tensors stay until the run has been waited for. */
static void compute(job* j) {
  const tvmrt_region* region = j->region;
  int32_t i;
  for (i = 0; i < region->num_inputs; ++i) {
    const int32_t t = region->inputs[i];
    tpu_copy_in(&j->program.tensors[t], tvmrt_region_data(region, t));
  }
  for (i = 0; i < region->num_nodes; ++i) tpu_run_node(&j->program, &region->nodes[i]);
  for (i = 0; i < region->num_outputs; ++i) {
    const int32_t t = region->outputs[i];
    tpu_copy_out(&j->program.tensors[t], tvmrt_region_data(region, t));
  }
}

/* Execute one run on the worker. Called and left with the lock held. A fault makes the run fail;
 * "lost" stays in effect for the whole device. */
static void run_job(accelerator* a, job* j) {
  const struct timespec end = deadline_after(j->duration_us);
  const bool is_lost = a->is_lost || strcmp(j->fault, "lost") == 0;
  j->state = RUNNING;
  if (strcmp(j->fault, "hang") == 0) stay_busy(a, j, NULL);
  if (!j->is_stopped && !is_lost && strcmp(j->fault, "run") != 0) {
    (void)pthread_mutex_unlock(&a->lock); /* others may queue or stop runs meanwhile */
    compute(j);
    (void)pthread_mutex_lock(&a->lock);
    if (j->duration_us > 0) stay_busy(a, j, &end);
    j->state = DONE;
  } else {
    j->state = FAILED;
  }
  a->is_lost = is_lost;
}

/* The only worker executes the runs of all regions in queue order. Each run wakes all waiting
 * threads, which check the state of their own job. */
static void* worker_main(void* argument) {
  accelerator* a = argument;
  (void)pthread_mutex_lock(&a->lock);
  while (!a->is_closing) {
    job* j = a->first;
    if (j == NULL) {
      (void)pthread_cond_wait(&a->changed, &a->lock);
      continue;
    }
    a->first = j->next;
    run_job(a, j);
    (void)pthread_cond_broadcast(&a->changed);
  }
  (void)pthread_mutex_unlock(&a->lock);
  return NULL;
}

/* Called with the lock held. Returns 0 also if the worker runs already. If a thread cannot be
 * created, only this run fails. */
static int start_worker(accelerator* a) {
  if (a->worker_process == getpid()) return 0;
  if (a->worker_process != 0 && !forget_worker(a))
    return fail("cannot create a condition variable.");
  if (pthread_create(&a->worker, NULL, worker_main, a) != 0) return fail("cannot create a thread.");
  a->worker_process = getpid();
  return 0;
}

/* The worker starts with the first run in each process, since threads do not survive fork(). The
 * runtime waits for a region's run before it starts the next, so a job is queued at most once. */
static int tpu_async_run(tvmrt_device* device, tvmrt_region* region) {
  accelerator* a = device->privacy;
  job* j = region->device_graph;
  job** at = &a->first;
  int rc;
  (void)pthread_mutex_lock(&a->lock);
  rc = start_worker(a);
  if (rc == 0) {
    while (*at != NULL) at = &(*at)->next;
    *at = j;
    j->next = NULL;
    j->state = QUEUED;
    (void)pthread_cond_broadcast(&a->changed);
  }
  (void)pthread_mutex_unlock(&a->lock);
  return rc;
}

/* Called with the lock held, since the worker changes the state. */
static bool is_running(const job* j) { return j->state == QUEUED || j->state == RUNNING; }

/* A real device would report the failed node; the simulation reports the last one. */
static int tpu_async_wait(tvmrt_device* device, tvmrt_region* region, int try_wait) {
  accelerator* a = device->privacy;
  job* j = region->device_graph;
  job_state state;
  bool is_lost;
  (void)pthread_mutex_lock(&a->lock);
  while (is_running(j) && !try_wait) (void)pthread_cond_wait(&a->changed, &a->lock);
  state = j->state;
  is_lost = a->is_lost;
  (void)pthread_mutex_unlock(&a->lock);
  if (state == QUEUED || state == RUNNING) return TVMRT_DEVICE_BUSY;
  if (state == DONE) return 0;
  region->failed_node = region->num_nodes - 1;
  return fail(is_lost ? "the device was lost; unregister it to start it again."
                      : "the simulated fault 'run'.");
}

/* Remove the job from the queue, or wait until the worker has stopped it. Afterwards the
 * caller's tensors are not used any more. `is_stopped` is never reset: the next pre_run makes
 * another job. */
static int tpu_post_run(tvmrt_device* device, tvmrt_region* region) {
  accelerator* a = device->privacy;
  job* j = region->device_graph;
  job** at = &a->first;
  (void)pthread_mutex_lock(&a->lock);
  while (*at != NULL && *at != j) at = &(*at)->next;
  if (*at == j) {
    /* lint: the loop ends at j or at NULL, and j is not NULL */
    *at = j->next;
    j->state = IDLE;
  }
  j->is_stopped = true;
  if (!is_parent_process(a)) { /* the parent's worker does not exist here */
    (void)pthread_cond_broadcast(&a->changed);
    while (is_running(j)) (void)pthread_cond_wait(&a->changed, &a->lock);
  }
  (void)pthread_mutex_unlock(&a->lock);
  return 0;
}

static const tvmrt_device_interface interface = {
    .init = tpu_init,
    .pre_run = tpu_pre_run,
    .post_run = tpu_post_run,
    .async_run = tpu_async_run,
    .async_wait = tpu_async_wait,
    .release_graph = tpu_release_graph,
    .release_device = tpu_release_device,
};

static const tvmrt_device_allocator allocator = {
    .describe = tpu_describe,
    .evaluation = tpu_evaluation,
    .allocate = tpu_allocate,
};

static const tvmrt_device_optimizer optimizer = {
    .split_graph = tpu_split_graph,
    .optimize_graph = tpu_optimize_graph,
};

/* No `run`: the runtime uses async_wait() when it needs the result. */
static const tvmrt_device device = {
    .struct_bytes = sizeof(device),
    .name = "tpu",
    .interface = &interface,
    .allocator = &allocator,
    .optimizer = &optimizer,
    .version = 1,
};

/* Called by the runtime when a library or user first names the device. */
int register_tpu_device(void) { return tvmrt_device_register(&device); }

int unregister_tpu_device(void) { return tvmrt_device_unregister(device.name); }
