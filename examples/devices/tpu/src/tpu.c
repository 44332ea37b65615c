/* The device "tpu": a simulated accelerator with its own memory, layout and queue. README.md has its
 * options, faults among them. */
#include "tpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

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
  bool hangs, fails;     /* simulated faults of its runs */
  uint64_t memory_bytes; /* reserved for this job */
} job;

/* privacy: one for all regions of the device, which has a name and is therefore the only one. */
typedef struct accelerator {
  pthread_mutex_t lock; /* protects all following members and the jobs' states */
  pthread_cond_t changed;
  job* first; /* in the queue */
  bool has_worker;
  bool is_closing;
  pthread_t worker;
  uint64_t memory_bytes; /* free memory */
} accelerator;

static accelerator the_accelerator = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                      .changed = PTHREAD_COND_INITIALIZER};

/* Returns -1; the runtime prefixes device, slot and region. */
static int fail(const char* text) {
  TVMPackedFuncSetLastError(text);
  return -1;
}

/* Called once per registration. */
static int tpu_init(tvmrt_device* device) {
  const char* memory = getenv("TVMRT_TPU_MEMORY_BYTES");
  the_accelerator.has_worker = the_accelerator.is_closing = false;
  the_accelerator.memory_bytes = memory == NULL ? (uint64_t)1 << 30 : strtoull(memory, NULL, 10);
  device->privacy = &the_accelerator;
  return 0;
}

/* No region is left, so the queue is empty. Waits for the worker, since its code is in this
 * library. */
static int tpu_release_device(tvmrt_device* device) {
  accelerator* a = device->privacy;
  (void)pthread_mutex_lock(&a->lock);
  a->is_closing = true;
  (void)pthread_cond_broadcast(&a->changed);
  (void)pthread_mutex_unlock(&a->lock); /* the worker locks once more before it ends */
  if (a->has_worker) (void)pthread_join(a->worker, NULL);
  return 0;
}

/* Operators by name, and supported precisions; types and shapes are checked in evaluation. */
static int tpu_describe(tvmrt_device* device, tvmrt_device_description* out) {
  static const char* const precisions[] = {"float16", NULL};
  (void)device;
  out->ops = tpu_ops;
  out->precisions = precisions;
  return 0;
}

/* Checks the whole region: an accepted region must run. Names are truncated, since a network's may
 * have any length. */
static int tpu_evaluation(tvmrt_device* device, const tvmrt_region* region) {
  int32_t i;
  (void)device;
  for (i = 0; i < region->num_nodes; ++i) {
    const char* reason = tpu_refuses(region, &region->nodes[i]);
    char text[256];
    if (reason == NULL) continue;
    (void)snprintf(text, sizeof(text), "node '%.100s': %s", region->nodes[i].name, reason);
    return fail(text);
  }
  return 0;
}

/* Nodes that cannot run alone are left to the CPU; the default split groups the operators of
 * `describe`. So evaluation never rejects a region of this split. */
static int tpu_split_graph(tvmrt_device* device, const tvmrt_region* graph, int32_t* out_groups) {
  int32_t i;
  if (tvmrt_split_graph_by_describe(device, graph, out_groups) != 0) return -1;
  for (i = 0; i < graph->num_nodes; ++i) {
    if (tpu_refuses(graph, &graph->nodes[i]) != NULL) out_groups[i] = -1;
  }
  return 0;
}

/* All nodes can compute in float16. pre_run gets the choice as an attribute of each node. */
static int tpu_optimize_graph(tvmrt_device* device, const tvmrt_region* region,
                              const char* precision, int32_t* out_reduced) {
  int32_t i;
  (void)device;
  for (i = 0; i < region->num_nodes; ++i) out_reduced[i] = strcmp(precision, "float16") == 0;
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

/* Words have 4 bytes in all precisions. On failure release_graph frees everything. */
static int make_program(accelerator* a, job* j, const tvmrt_region* region, const char* options) {
  tpu_program* p = &j->program;
  uint64_t words;
  p->region = region;
  p->is_half = tvmrt_option_is(options, "precision", "float16");
  /* one more, so the size is never 0, for which NULL could be returned */
  p->tensors = calloc((size_t)region->num_tensors + 1, sizeof(*p->tensors));
  if (p->tensors == NULL) return fail("MemoryError: no memory to simulate.");
  words = tpu_set_layouts(p);
  if (reserve(a, words * sizeof(float), j) != 0) return -1;
  p->memory = calloc((size_t)words + 1, sizeof(*p->memory));
  if (p->memory == NULL) return fail("MemoryError: no memory to simulate.");
  tpu_assign_memory(p);
  return 0;
}

/* Also called for other sizes; the old program is freed first, since both may not fit in memory.
 * release_graph frees device_graph, also after a failure. */
static int tpu_pre_run(tvmrt_device* device, tvmrt_region* region, const char* options) {
  job* j;
  if (region->device_graph != NULL) (void)tpu_release_graph(device, region->device_graph);
  region->device_graph = j = calloc(1, sizeof(*j));
  if (j == NULL) return fail("MemoryError: no memory for the program.");
  j->region = region;
  j->hangs = tvmrt_option_is(options, "fault", "hang");
  j->fails = tvmrt_option_is(options, "fault", "run");
  if (tvmrt_option_is(options, "fault", "pre_run")) {
    region->failed_node = 0;
    return fail("the simulated fault 'pre_run'.");
  }
  return make_program(device->privacy, j, region, options);
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

/* Called with the lock held, since the worker changes the state. */
static bool is_running(const job* j) { return j->state == QUEUED || j->state == RUNNING; }

/* The only worker executes the runs of all regions in queue order; a fault makes a run fail. Each
 * run wakes all waiting threads, which check the state of their own job. */
static void* worker_main(void* argument) {
  accelerator* a = argument;
  (void)pthread_mutex_lock(&a->lock);
  while (!a->is_closing) {
    job* j = a->first;
    if (j == NULL || j->hangs) { /* a hanging run stays first until post_run removes it */
      (void)pthread_cond_wait(&a->changed, &a->lock);
      continue;
    }
    a->first = j->next;
    j->state = RUNNING;
    if (!j->fails) {
      (void)pthread_mutex_unlock(&a->lock); /* others may queue or stop runs meanwhile */
      compute(j);
      (void)pthread_mutex_lock(&a->lock);
    }
    j->state = j->fails ? FAILED : DONE;
    (void)pthread_cond_broadcast(&a->changed);
  }
  (void)pthread_mutex_unlock(&a->lock);
  return NULL;
}

/* The worker starts with the first run. If a thread cannot be created, only this run fails. The
 * runtime waits for a region's run before it starts the next, so a job is queued at most once. */
static int tpu_async_run(tvmrt_device* device, tvmrt_region* region) {
  accelerator* a = device->privacy;
  job* j = region->device_graph;
  job** at = &a->first;
  bool has_worker;
  (void)pthread_mutex_lock(&a->lock);
  if (!a->has_worker) a->has_worker = pthread_create(&a->worker, NULL, worker_main, a) == 0;
  has_worker = a->has_worker;
  if (has_worker) {
    while (*at != NULL) at = &(*at)->next;
    *at = j;
    j->next = NULL;
    j->state = QUEUED;
    (void)pthread_cond_broadcast(&a->changed);
  }
  (void)pthread_mutex_unlock(&a->lock);
  return has_worker ? 0 : fail("cannot create a thread.");
}

/* A real device would report the failed node; the simulation reports the last one. */
static int tpu_async_wait(tvmrt_device* device, tvmrt_region* region, int try_wait) {
  accelerator* a = device->privacy;
  job* j = region->device_graph;
  job_state state;
  (void)pthread_mutex_lock(&a->lock);
  while (is_running(j) && !try_wait) (void)pthread_cond_wait(&a->changed, &a->lock);
  state = j->state;
  (void)pthread_mutex_unlock(&a->lock);
  if (state == QUEUED || state == RUNNING) return TVMRT_DEVICE_BUSY;
  if (state == DONE) return 0;
  region->failed_node = region->num_nodes - 1;
  return fail("the simulated fault 'run'.");
}

/* Remove the job from the queue, or wait until the worker has finished it. Afterwards the caller's
 * tensors are not used any more. */
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
  (void)pthread_cond_broadcast(&a->changed);
  while (is_running(j)) (void)pthread_cond_wait(&a->changed, &a->lock);
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
