/* A correct device in plain C: float32 and 8-bit layers, packed weights, memory of its own whose
   addresses the host cannot use, two queues with a thread each. Mutants are made from it. With
   COUNT_ALLOCATIONS it counts its allocations for the judge of the mutants. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/device.h>
#include <tvm/runtime/memory_device.h>

#include "reference_answers.h"

#ifdef COUNT_ALLOCATIONS
#include "count_allocations.h"
#endif

TVMRT_DEVICE_PLUGIN(reference)

enum { LANES = 16, QUEUES = 2, TEXT = 120 };
#define FAR_BIT ((uintptr_t)1 << 62) /* of addresses in the device's memory */

typedef struct {
  float* weights; /* in blocks of LANES output channels */
  float* scale;
  double* bias;
} packed;

typedef struct {
  packed* nodes;
  void** scratch; /* memory of each tensor between two nodes */
  int32_t num_nodes, num_tensors;
  int is_busy, result, owns_weights;
  char why[TEXT];
  pthread_mutex_t lock;
  pthread_cond_t ended;
} graph;

typedef struct job {
  tvmrt_region* region;
  struct job* next;
} job;

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_filled = PTHREAD_COND_INITIALIZER;
static job* queue;
static int is_stopping;
static pthread_t workers[QUEUES];

/* Mutants change the code between this line and the next such line. */

static int exists(int number) { return number == 0; }

static int far_alloc(DLDevice at, size_t bytes, size_t align, void** out) {
  void* memory = NULL;
  (void)at;
  if (posix_memalign(&memory, align < 64 ? 64 : align, bytes + 1) != 0) return fail("memory full");
  *out = (void*)((uintptr_t)memory + FAR_BIT);
  return 0;
}

static int far_free(DLDevice at, void* far) {
  (void)at;
  free((void*)((uintptr_t)far - FAR_BIT));
  return 0;
}

static void* near_of(DLDevice at, const void* data) {
  if (at.device_type == kDLExtDev) return (void*)((uintptr_t)data - FAR_BIT);
  return (void*)(uintptr_t)data;
}

static int far_copy(DLDevice from_at, const void* from, DLDevice to_at, void* to, size_t bytes,
                    TVMStreamHandle stream) {
  (void)stream;
  memcpy(near_of(to_at, to), near_of(from_at, from), bytes);
  return 0;
}

static double number(const tvmrt_region_tensor* t, const void* data, int64_t i) {
  if (t->dtype.code == kDLFloat)
    return t->dtype.bits == 64 ? ((const double*)data)[i] : (double)((const float*)data)[i];
  if (t->dtype.bits == 32) return ((const int32_t*)data)[i];
  if (t->dtype.code == kDLUInt) return ((const uint8_t*)data)[i];
  return ((const int8_t*)data)[i];
}

/* A constant that has one element, or one per channel. */
static double of_channel(const tvmrt_region_tensor* t, int64_t channel, double missing) {
  if (t == NULL) return missing;
  return number(t, t->data, t->num_bytes * 8 == t->dtype.bits ? 0 : channel);
}

static int pack(const tvmrt_region* region, const tvmrt_region_node* n, packed* out) {
  const int is_conv = is(n, "conv") || is(n, "qconv");
  const int is_quantized = is(n, "qconv") || is(n, "qmatmul");
  const tvmrt_region_tensor* w = type_of(region, n, 1);
  const tvmrt_region_tensor* scale = is_quantized ? type_of(region, n, 2) : NULL;
  const tvmrt_region_tensor* bias = type_of(region, n, is_quantized ? 3 : 2);
  const tvmrt_region_tensor* zero = is_quantized ? type_of(region, n, 4) : NULL;
  const int64_t size = tvmrt_region_size(region, n->inputs[1]);
  const int64_t channels = is_conv ? w->shape[0] : w->shape[1];
  const int64_t inner = channels == 0 ? 0 : size / channels;
  const int64_t blocks = (channels + LANES - 1) / LANES;
  out->weights = calloc((size_t)(blocks * LANES * inner) + 1, sizeof(*out->weights));
  out->scale = calloc((size_t)(blocks * LANES) + 1, sizeof(*out->scale));
  out->bias = calloc((size_t)(blocks * LANES) + 1, sizeof(*out->bias));
  if (out->weights == NULL || out->scale == NULL || out->bias == NULL) return fail("no memory");
  for (int64_t o = 0; o < channels; ++o) {
    const double w_zero = of_channel(zero, o, 0);
    out->scale[o] = (float)of_channel(scale, o, 1);
    out->bias[o] = of_channel(bias, o, 0);
    for (int64_t k = 0; k < inner; ++k) {
      const int64_t from = is_conv ? o * inner + k : k * channels + o;
      const int64_t to = (o / LANES * inner + k) * LANES + o % LANES;
      out->weights[to] = (float)(number(w, w->data, from) - w_zero);
    }
  }
  return 0;
}

static void unpack(graph* g) {
  if (g->owns_weights) {
    for (int32_t i = 0; i < g->num_nodes; ++i) {
      free(g->nodes[i].weights);
      free(g->nodes[i].scale);
      free(g->nodes[i].bias);
    }
  }
  for (int32_t i = 0; i < g->num_tensors; ++i) {
    free(g->scratch[i]);
  }
  free(g->nodes);
  free(g->scratch);
  g->nodes = NULL;
  g->scratch = NULL;
  g->num_nodes = 0;
  g->num_tensors = 0;
}

static int is_boundary(const tvmrt_region* region, int32_t tensor) {
  for (int32_t i = 0; i < region->num_inputs; ++i) {
    if (region->inputs[i] == tensor) return 1;
  }
  for (int32_t i = 0; i < region->num_outputs; ++i) {
    if (region->outputs[i] == tensor) return 1;
  }
  return region->tensors[tensor].is_constant;
}

static int pre_run(tvmrt_device* self, tvmrt_region* region, const char* options) {
  graph* g = region->device_graph;
  const graph* base = region->base != NULL ? region->base->device_graph : NULL;
  (void)self;
  (void)options;
  if (g == NULL) {
    g = calloc(1, sizeof(*g));
    if (g == NULL) return fail("no memory");
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->ended, NULL);
    region->device_graph = g;
  } else {
    unpack(g);
  }
  g->nodes = calloc((size_t)region->num_nodes + 1, sizeof(*g->nodes));
  g->scratch = calloc((size_t)region->num_tensors + 1, sizeof(*g->scratch));
  if (g->nodes == NULL || g->scratch == NULL) return fail("no memory");
  g->num_nodes = region->num_nodes;
  g->num_tensors = region->num_tensors;
  g->owns_weights = base == NULL;
  for (int32_t i = 0; i < region->num_nodes; ++i) {
    const tvmrt_region_node* n = &region->nodes[i];
    if (!is(n, "conv") && !is(n, "matmul") && !is(n, "qconv") && !is(n, "qmatmul")) continue;
    if (base != NULL) {
      g->nodes[i] = base->nodes[i];
    } else if (pack(region, n, &g->nodes[i]) != 0) {
      return -1;
    }
  }
  for (int32_t i = 0; i < region->num_tensors; ++i) {
    if (is_boundary(region, i)) continue;
    g->scratch[i] = malloc((size_t)region->tensors[i].num_bytes + 1);
    if (g->scratch[i] == NULL) return fail("no memory");
  }
  return 0;
}

static int release_graph(tvmrt_device* self, void* device_graph) {
  graph* g = device_graph;
  (void)self;
  unpack(g);
  pthread_cond_destroy(&g->ended);
  pthread_mutex_destroy(&g->lock);
  free(g);
  return 0;
}

/* The elements of a tensor in a run. */
static void* data_of(const tvmrt_region* region, int32_t tensor) {
  const DLTensor* t = region->data[tensor];
  const graph* g = region->device_graph;
  if (tensor < 0) return NULL;
  if (t == NULL) return g->scratch[tensor];
  return (char*)near_of(t->device, t->data) + t->byte_offset;
}

/* Store a sum as the type of the result: as it is, or scaled, rounded, moved, and clamped. */
static void store(const tvmrt_region* region, const tvmrt_region_node* n, int64_t i, double sum,
                  float scale) {
  const tvmrt_region_tensor* t = &region->tensors[n->outputs[0]];
  void* y = data_of(region, n->outputs[0]);
  if (t->dtype.code == kDLFloat) {
    ((float*)y)[i] = (float)sum;
    return;
  }
  const int64_t zero = tvmrt_node_int(n, "y_zero", 0);
  const int64_t low = tvmrt_node_int(n, "low", -128);
  const int64_t high = tvmrt_node_int(n, "high", 127);
  const float scaled = (float)sum * scale;
  const float rounded = nearbyintf(scaled < -1e6f ? -1e6f : scaled > 1e6f ? 1e6f : scaled);
  const int64_t value = (int64_t)rounded + zero;
  ((uint8_t*)y)[i] = (uint8_t)(value < low ? low : value > high ? high : value);
}

static void convolve(const tvmrt_region* region, const tvmrt_region_node* n, const packed* p) {
  const tvmrt_region_tensor* xt = type_of(region, n, 0);
  const void* x = data_of(region, n->inputs[0]);
  const int64_t* xs = tvmrt_region_extents(region, n->inputs[0]);
  const int64_t* ws = region->tensors[n->inputs[1]].shape;
  const int64_t* ys = tvmrt_region_extents(region, n->outputs[0]);
  int32_t count;
  const int64_t* strides = tvmrt_node_ints(n, "strides", &count);
  const int64_t* dilations = tvmrt_node_ints(n, "dilations", &count);
  const int64_t* pads = tvmrt_node_ints(n, "pads_before", &count);
  const int64_t results = ws[0] / tvmrt_node_int(n, "groups", 1); /* of a group */
  const double zero = (double)tvmrt_node_int(n, "x_zero", 0);
  const int64_t inner = ws[1] * ws[2] * ws[3];
  for (int64_t b = 0; b < ys[0]; ++b) {
    for (int64_t o = 0; o < ws[0]; ++o) {
      for (int64_t h = 0; h < ys[2]; ++h) {
        for (int64_t w = 0; w < ys[3]; ++w) {
          const int64_t first_row = h * strides[0] - pads[0];
          const int64_t first_column = w * strides[1] - pads[1];
          double sum = p->bias[o];
          for (int64_t k = 0; k < inner; ++k) {
            const int64_t channel = o / results * ws[1] + k / (ws[2] * ws[3]);
            const int64_t row = first_row + k / ws[3] % ws[2] * dilations[0];
            const int64_t column = first_column + k % ws[3] * dilations[1];
            if (row < 0 || row >= xs[2] || column < 0 || column >= xs[3]) continue;
            const int64_t place = ((b * xs[1] + channel) * xs[2] + row) * xs[3] + column;
            const double weight = p->weights[(o / LANES * inner + k) * LANES + o % LANES];
            sum += (number(xt, x, place) - zero) * weight;
          }
          store(region, n, ((b * ys[1] + o) * ys[2] + h) * ys[3] + w, sum, p->scale[o]);
        }
      }
    }
  }
}

static void multiply(const tvmrt_region* region, const tvmrt_region_node* n, const packed* p) {
  const tvmrt_region_tensor* xt = type_of(region, n, 0);
  const void* x = data_of(region, n->inputs[0]);
  const int64_t* ws = region->tensors[n->inputs[1]].shape;
  const double zero = (double)tvmrt_node_int(n, "x_zero", 0);
  const int64_t inner = ws[0];
  const int64_t columns = ws[1];
  const int64_t rows = tvmrt_region_size(region, n->outputs[0]) / columns;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t o = 0; o < columns; ++o) {
      double sum = p->bias[o];
      for (int64_t k = 0; k < inner; ++k) {
        const double value = number(xt, x, i * inner + k) - zero;
        sum += value * p->weights[(o / LANES * inner + k) * LANES + o % LANES];
      }
      store(region, n, i * columns + o, sum, p->scale[o]);
    }
  }
}

static void add_quantized(const tvmrt_region* region, const tvmrt_region_node* n) {
  const int64_t size = tvmrt_region_size(region, n->outputs[0]);
  const void* a = data_of(region, n->inputs[0]);
  const void* b = data_of(region, n->inputs[1]);
  const double a_scale = tvmrt_node_float(n, "a_scale", 1);
  const double b_scale = tvmrt_node_float(n, "b_scale", 1);
  const double a_zero = (double)tvmrt_node_int(n, "a_zero", 0);
  const double b_zero = (double)tvmrt_node_int(n, "b_zero", 0);
  const double y_scale = tvmrt_node_float(n, "y_scale", 1);
  for (int64_t i = 0; i < size; ++i) {
    const double first = (number(type_of(region, n, 0), a, i) - a_zero) * a_scale;
    const double second = (number(type_of(region, n, 1), b, i) - b_zero) * b_scale;
    store(region, n, i, (first + second) / y_scale, 1);
  }
}

static void pool(const tvmrt_region* region, const tvmrt_region_node* n) {
  const tvmrt_region_tensor* xt = type_of(region, n, 0);
  const void* x = data_of(region, n->inputs[0]);
  float* y = data_of(region, n->outputs[0]);
  const int64_t* xs = tvmrt_region_extents(region, n->inputs[0]);
  const int64_t* ys = tvmrt_region_extents(region, n->outputs[0]);
  int32_t count;
  const int64_t* kernel = tvmrt_node_ints(n, "kernel", &count);
  const int64_t* strides = tvmrt_node_ints(n, "strides", &count);
  const int64_t* dilations = tvmrt_node_ints(n, "dilations", &count);
  const int64_t* pads = tvmrt_node_ints(n, "pads_before", &count);
  for (int64_t plane = 0; plane < ys[0] * ys[1]; ++plane) {
    for (int64_t h = 0; h < ys[2]; ++h) {
      for (int64_t w = 0; w < ys[3]; ++w) {
        double largest = -INFINITY;
        for (int64_t k = 0; k < kernel[0] * kernel[1]; ++k) {
          const int64_t row = h * strides[0] - pads[0] + k / kernel[1] * dilations[0];
          const int64_t column = w * strides[1] - pads[1] + k % kernel[1] * dilations[1];
          if (row < 0 || row >= xs[2] || column < 0 || column >= xs[3]) continue;
          const double value = number(xt, x, (plane * xs[2] + row) * xs[3] + column);
          if (value > largest) largest = value;
        }
        y[(plane * ys[2] + h) * ys[3] + w] = (float)largest;
      }
    }
  }
}

static float larger(float a, float b) {
  if (isnan(a) || isnan(b)) return a + b;
  return a > b ? a : b;
}

static void elementwise(const tvmrt_region* region, const tvmrt_region_node* n) {
  const int64_t size = tvmrt_region_size(region, n->outputs[0]);
  const float* a = data_of(region, n->inputs[0]);
  const float* b = n->num_inputs > 1 ? data_of(region, n->inputs[1]) : NULL;
  float* y = data_of(region, n->outputs[0]);
  for (int64_t i = 0; i < size; ++i) {
    if (is(n, "relu")) y[i] = larger(a[i], 0);
    if (is(n, "max")) y[i] = larger(a[i], b[i]);
    if (is(n, "add")) y[i] = a[i] + b[i];
    if (is(n, "mul")) y[i] = a[i] * b[i];
  }
}

static int compute(tvmrt_region* region) {
  const graph* g = region->device_graph;
  for (int32_t i = 0; i < region->num_nodes; ++i) {
    const tvmrt_region_node* n = &region->nodes[i];
    if (is(n, "conv") || is(n, "qconv")) {
      convolve(region, n, &g->nodes[i]);
    } else if (is(n, "matmul") || is(n, "qmatmul")) {
      multiply(region, n, &g->nodes[i]);
    } else if (is(n, "qadd")) {
      add_quantized(region, n);
    } else if (is(n, "max_pool")) {
      pool(region, n);
    } else if (is(n, "relu") || is(n, "max") || is(n, "add") || is(n, "mul")) {
      elementwise(region, n);
    } else {
      region->failed_node = i;
      return fail("unknown operator");
    }
  }
  return 0;
}

static int run(tvmrt_device* self, tvmrt_region* region) {
  (void)self;
  return compute(region);
}

static job* next_job(void) {
  job* first;
  pthread_mutex_lock(&queue_lock);
  while (queue == NULL && !is_stopping) {
    pthread_cond_wait(&queue_filled, &queue_lock);
  }
  first = queue;
  if (first != NULL) queue = first->next;
  pthread_mutex_unlock(&queue_lock);
  return first;
}

static void* work(void* unused) {
  job* current;
  (void)unused;
  while ((current = next_job()) != NULL) {
    graph* g = current->region->device_graph;
    const int result = compute(current->region);
    pthread_mutex_lock(&g->lock);
    g->result = result;
    if (result != 0) snprintf(g->why, sizeof(g->why), "%s", TVMGetLastError());
    g->is_busy = 0;
    pthread_cond_broadcast(&g->ended);
    pthread_mutex_unlock(&g->lock);
    free(current);
  }
  return NULL;
}

static int async_run(tvmrt_device* self, tvmrt_region* region) {
  graph* g = region->device_graph;
  job* added = calloc(1, sizeof(*added));
  job** last = &queue;
  (void)self;
  if (added == NULL) return fail("no memory");
  added->region = region;
  pthread_mutex_lock(&g->lock);
  g->is_busy = 1;
  g->result = 0;
  pthread_mutex_unlock(&g->lock);
  pthread_mutex_lock(&queue_lock);
  while (*last != NULL) last = &(*last)->next;
  *last = added;
  pthread_cond_signal(&queue_filled);
  pthread_mutex_unlock(&queue_lock);
  return 0;
}

static int async_wait(tvmrt_device* self, tvmrt_region* region, int try_wait) {
  graph* g = region->device_graph;
  int result;
  (void)self;
  pthread_mutex_lock(&g->lock);
  if (try_wait && g->is_busy) {
    pthread_mutex_unlock(&g->lock);
    return TVMRT_DEVICE_BUSY;
  }
  while (g->is_busy) pthread_cond_wait(&g->ended, &g->lock);
  result = g->result;
  pthread_mutex_unlock(&g->lock);
  return result == 0 ? 0 : fail(g->why);
}

/* Mutants do not change the code after this line. */

static const tvmrt_memory_device far_memory = {.struct_bytes = sizeof(far_memory),
                                               .name = "ext_dev",
                                               .exists = exists,
                                               .alloc = far_alloc,
                                               .free = far_free,
                                               .copy = far_copy};

static int get_memory(TVMValue* args, int* codes, int count, TVMRetValueHandle ret,
                      void* resource) {
  TVMValue address = {.v_handle = (void*)(uintptr_t)&far_memory};
  int code = kTVMOpaqueHandle;
  (void)args;
  (void)codes;
  (void)count;
  (void)resource;
  return TVMCFuncSetReturn(ret, &address, &code, 1);
}

static int init(tvmrt_device* self) {
  TVMFunctionHandle function;
  int rc = TVMFuncCreateFromCFunc(get_memory, NULL, NULL, &function);
  (void)self;
  is_stopping = 0;
  if (rc == 0) rc = TVMFuncRegisterGlobal("device_api.ext_dev", function, 1);
  for (int i = 0; rc == 0 && i < QUEUES; ++i) {
    rc = pthread_create(&workers[i], NULL, work, NULL) == 0 ? 0 : fail("no thread");
  }
  return rc;
}

static int release_device(tvmrt_device* self) {
  (void)self;
  pthread_mutex_lock(&queue_lock);
  is_stopping = 1;
  pthread_cond_broadcast(&queue_filled);
  pthread_mutex_unlock(&queue_lock);
  for (int i = 0; i < QUEUES; ++i) (void)pthread_join(workers[i], NULL);
  return 0;
}

static const tvmrt_device_interface slots = {.init = init,
                                             .pre_run = pre_run,
                                             .run = run,
                                             .async_run = async_run,
                                             .async_wait = async_wait,
                                             .release_graph = release_graph,
                                             .release_device = release_device};
static const tvmrt_device_allocator questions = {.describe = describe, .evaluation = evaluation};
static const tvmrt_device_memory memory = {.struct_bytes = sizeof(memory),
                                           .device = {kDLExtDev, 0}};
static const tvmrt_device device = {.struct_bytes = sizeof(device),
                                    .name = "reference",
                                    .interface = &slots,
                                    .allocator = &questions,
                                    .interface_bytes = sizeof(slots),
                                    .allocator_bytes = sizeof(questions),
                                    .num_queues = QUEUES,
                                    .memory = &memory};

int register_reference_device(void) { return tvmrt_device_register(&device); }
int unregister_reference_device(void) { return tvmrt_device_unregister("reference"); }
