/* Device of relu, neg and abs in float32, configured by macros:
 *   NAME         of the device
 *   ALONE        split_graph requests a region per node, run refuses larger ones
 *   REFUSES      an operator that evaluation refuses, in quotes
 *   SLEEP_MS     duration of a run; the result is in memory of the region until then
 *   ABI          another version of the interface
 *   FIRST        for builds with the first version of the header
 *   LATER        structs have more members than this header, as in a later version
 *   QUEUES       number of concurrent runs, by async_run and async_wait
 *   ABSENT       it needs a function that no library has
 * UNARY_INIT and UNARY_RUN in the environment make init and run fail; UNARY_LOG names a file with
 * a line for each pre_run, post_run and release_graph, and for the start and end of each run. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <tvm/runtime/device.h>

#if defined(FIRST) && defined(TVM_RUNTIME_REGION_READING_H_)
#error "this is not the first version of the header"
#endif
#ifndef NAME
#define NAME unary
#endif
#ifndef REFUSES
#define REFUSES "nothing"
#endif
#ifndef SLEEP_MS
#define SLEEP_MS 0
#endif
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define JOIN_(a, b, c) a##b##c
#define JOIN(a, b, c) JOIN_(a, b, c)
#define REGISTER JOIN(register_, NAME, _device)
#define UNREGISTER JOIN(unregister_, NAME, _device)
#define PLUGIN(name) TVMRT_DEVICE_PLUGIN(name)
#ifdef ABI
int REGISTER(void);
TVM_DLL int32_t tvmrt_plugin_abi(void) { return ABI; }
TVM_DLL int tvmrt_plugin_register(void) { return REGISTER(); }
#else
PLUGIN(NAME)
#endif
#ifdef ABSENT
int function_of_an_absent_library(void);
#endif

static int fail(const char* why) {
  TVMPackedFuncSetLastError(why);
  return -1;
}

static void note(const char* what) {
  const char* path = getenv("UNARY_LOG");
  FILE* file = path == NULL ? NULL : fopen(path, "a");
  if (file == NULL) return;
  (void)fprintf(file, "%s\n", what);
  (void)fclose(file);
}

static int init(tvmrt_device* device) {
  (void)device;
#ifdef ABSENT
  (void)function_of_an_absent_library();
#endif
  return getenv("UNARY_INIT") == NULL ? 0 : fail("the driver is missing");
}

static int describe(tvmrt_device* device, tvmrt_device_description* out) {
  static const char* const ops[] = {"relu", "neg", "abs", NULL};
  (void)device;
  out->ops = ops;
  return 0;
}

static int evaluation(tvmrt_device* device, const tvmrt_region* region) {
  int32_t i;
  (void)device;
  for (i = 0; i < region->num_nodes; ++i) {
    if (strcmp(region->nodes[i].op, REFUSES) != 0) continue;
    ((tvmrt_region*)(uintptr_t)region)->failed_node = i;
    return fail("configured to refuse it");
  }
  return 0;
}

#ifdef ALONE
static int split_graph(tvmrt_device* device, const tvmrt_region* graph, int32_t* groups) {
  int32_t i;
  int rc = tvmrt_split_graph_by_describe(device, graph, groups);
  for (i = 0; i < graph->num_nodes; ++i) {
    if (groups[i] >= 0) groups[i] = i;
  }
  return rc;
}
static const tvmrt_device_optimizer optimizer = {.split_graph = split_graph};
#endif

/* Memory of the region: all tensors in sequence. */
static int pre_run(tvmrt_device* device, tvmrt_region* region, const char* options) {
  int64_t count = 0;
  int32_t i;
  (void)device, (void)options;
  note("pre_run");
  for (i = 0; i < region->num_tensors; ++i) count += tvmrt_region_size(region, i);
  free(region->device_graph);
  region->device_graph = malloc((size_t)(count + 16) * sizeof(float));
  return region->device_graph == NULL ? fail("out of memory") : 0;
}

static int post_run(tvmrt_device* device, tvmrt_region* region) {
  (void)device, (void)region;
  note("post_run");
  return 0;
}

static int release_graph(tvmrt_device* device, void* device_graph) {
  (void)device;
  note("release_graph");
  free(device_graph);
  return 0;
}

static float* place(const tvmrt_region* region, int32_t tensor) {
  float* at = region->device_graph;
  int32_t i;
  for (i = 0; i < tensor; ++i) at += tvmrt_region_size(region, i);
  return at;
}

static void compute(const tvmrt_region* region, const tvmrt_region_node* node) {
  const int64_t size = tvmrt_region_size(region, node->outputs[0]);
  const float* x = tvmrt_region_data(region, node->inputs[0]);
  float* y = place(region, node->outputs[0]);
  int64_t i;
  if (x == NULL) x = place(region, node->inputs[0]);
  for (i = 0; i < size; ++i) {
    y[i] = node->op[0] == 'r' ? fmaxf(x[i], 0) : node->op[0] == 'n' ? -x[i] : fabsf(x[i]);
  }
}

static int run(tvmrt_device* device, tvmrt_region* region) {
  const struct timespec pause = {0, SLEEP_MS * 1000000L};
  int32_t i;
  (void)device;
  if (getenv("UNARY_RUN") != NULL) return fail("configured to fail");
#ifdef ALONE
  if (region->num_nodes != 1) return fail("asked for one node a region");
#endif
  note("begins");
  for (i = 0; i < region->num_nodes; ++i) compute(region, &region->nodes[i]);
  if (SLEEP_MS != 0) (void)nanosleep(&pause, NULL);
  for (i = 0; i < region->num_outputs; ++i) {
    const int32_t t = region->outputs[i];
    memcpy(tvmrt_region_data(region, t), place(region, t),
           (size_t)tvmrt_region_size(region, t) * sizeof(float));
  }
  note("ends");
  return 0;
}

#ifdef QUEUES
/* One thread per run; at most QUEUES are active. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t freed = PTHREAD_COND_INITIALIZER;
static int at_work;

static void* work(void* region) {
  int rc;
  (void)pthread_mutex_lock(&lock);
  while (at_work == QUEUES) (void)pthread_cond_wait(&freed, &lock);
  ++at_work;
  (void)pthread_mutex_unlock(&lock);
  rc = run(NULL, region);
  (void)pthread_mutex_lock(&lock);
  --at_work;
  (void)pthread_cond_broadcast(&freed);
  (void)pthread_mutex_unlock(&lock);
  return rc == 0 ? NULL : region;
}

static pthread_t* thread_of(const tvmrt_region* region) {
  float* end = place(region, region->num_tensors);
  return (pthread_t*)(void*)((char*)region->device_graph +
                             (((char*)end - (char*)region->device_graph + 7) & ~7));
}

static int async_run(tvmrt_device* device, tvmrt_region* region) {
  (void)device;
  return pthread_create(thread_of(region), NULL, work, region) == 0 ? 0 : fail("no thread");
}

static int async_wait(tvmrt_device* device, tvmrt_region* region, int try_wait) {
  void* failed = NULL;
  (void)device, (void)try_wait;
  if (pthread_join(*thread_of(region), &failed) != 0) return fail("the thread is gone");
  return failed == NULL ? 0 : fail("configured to fail");
}
#endif

static const tvmrt_device_interface interface = {
    .init = init,
    .pre_run = pre_run,
#ifdef QUEUES
    .async_run = async_run,
    .async_wait = async_wait,
#else
    .run = run,
#endif
    .post_run = post_run,
    .release_graph = release_graph,
};
static const tvmrt_device_allocator allocator = {.describe = describe, .evaluation = evaluation};
#ifdef LATER
static int later_slot(void) { abort(); }
static struct {
  tvmrt_device_interface slots;
  int (*later[3])(void);
} longer_interface = {.later = {later_slot, later_slot, later_slot}};
static struct {
  tvmrt_device device;
  int (*later[3])(void);
} longer = {.later = {later_slot, later_slot, later_slot}};
int REGISTER(void) {
  longer_interface.slots = interface;
  longer.device.name = TEXT(NAME);
  longer.device.interface = &longer_interface.slots;
  longer.device.interface_bytes = sizeof(longer_interface);
  longer.device.allocator = &allocator;
  longer.device.struct_bytes = sizeof(longer);
  return tvmrt_device_register(&longer.device);
}
#else
static const tvmrt_device device = {
    .struct_bytes = sizeof(device),
    .name = TEXT(NAME),
    .interface = &interface,
    .allocator = &allocator,
#ifdef ALONE
    .optimizer = &optimizer,
#endif
#ifdef QUEUES
    .num_queues = QUEUES,
#endif
};
int REGISTER(void) { return tvmrt_device_register(&device); }
#endif
int UNREGISTER(void) { return tvmrt_device_unregister(TEXT(NAME)); }
