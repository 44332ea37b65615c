/* Matmuls with a bias per column, ReLU and adds in float32, as an author might write them;
   -DMUTANT=n builds one fault in. The state of a region is in its graph: weights, and a buffer
   for each tensor between two nodes. */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <tvm/runtime/device.h>

#ifndef MUTANT
#define MUTANT 0
#endif
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

TVMRT_DEVICE_PLUGIN(matmul)

typedef struct {
  size_t* places; /* of each tensor in the scratch memory */
  char* scratch;
  int prepared;
  float* first; /* input of the first run */
} work;

#if MUTANT == 4 || MUTANT == 18
static char shared[1 << 21];
#endif
#if MUTANT == 15
static work* last_prepared;
#endif

static int fail(const char* why) {
  TVMPackedFuncSetLastError(why);
  return -1;
}

static void pause_ms(long ms) {
  const struct timespec span = {ms / 1000, ms % 1000 * 1000000};
  (void)nanosleep(&span, NULL);
}

static int32_t operand(const tvmrt_region_node* node, int32_t i) {
  return i < node->num_inputs ? node->inputs[i] : -1;
}

/* NULL if the node is not supported. */
static const char* refusal(const tvmrt_region* r, const tvmrt_region_node* node) {
  const tvmrt_region_tensor* y = &r->tensors[node->outputs[0]];
  if (strcmp(node->op, "relu") == 0) return NULL;
#if MUTANT == 30 /* accepts adds with broadcasting */
  if (strcmp(node->op, "add") == 0) return NULL;
#endif
  if (strcmp(node->op, "add") == 0) {
    return r->tensors[node->inputs[0]].num_bytes == y->num_bytes &&
                   r->tensors[node->inputs[1]].num_bytes == y->num_bytes
               ? NULL
               : "sums of equal shapes alone";
  }
  if (strcmp(node->op, "matmul") != 0) return "no such operator";
#if MUTANT != 1 /* accepts right operands of three dimensions */
  if (r->tensors[node->inputs[1]].ndim != 2) return "right operands have two dimensions";
#endif
#if MUTANT != 2 /* treats any bias as one per column */
  if (operand(node, 2) >= 0) {
    const tvmrt_region_tensor* b = &r->tensors[node->inputs[2]];
    if (b->ndim != 1 || b->shape[0] != y->shape[y->ndim - 1]) return "a bias is one a column";
  }
#endif
  return NULL;
}

static int evaluation(tvmrt_device* self, const tvmrt_region* region) {
  (void)self;
#if MUTANT == 32 /* rejects constants at load, which the compiler does not show */
  for (int32_t i = 0; i < region->num_tensors; ++i) {
    if (region->tensors[i].data != NULL && region->runtime != NULL) return fail("no weights");
  }
#endif
  for (int32_t i = 0; i < region->num_nodes; ++i) {
    const char* why = refusal(region, &region->nodes[i]);
    if (why == NULL) continue;
    ((tvmrt_region*)(uintptr_t)region)->failed_node = i;
    return fail(why);
  }
  return 0;
}

static void forget(work* w) {
  free(w->places);
  free(w->scratch);
}

static int pre_run(tvmrt_device* self, tvmrt_region* region, const char* options) {
  work* w = region->device_graph;
  size_t bytes = 64;
  (void)self;
  (void)options;
#if MUTANT == 22 /* can be prepared only once */
  if (w != NULL) return fail("it is prepared already");
#endif
  if (w == NULL) w = region->device_graph = calloc(1, sizeof(*w));
  if (w == NULL) return fail("no memory");
  ++w->prepared;
  forget(w);
  w->places = calloc((size_t)region->num_tensors + 1, sizeof(size_t));
  for (int32_t i = 0; w->places != NULL && i < region->num_tensors; ++i) {
    w->places[i] = bytes;
    bytes += (region->tensors[i].num_bytes + 63) / 64 * 64;
  }
  w->scratch = calloc(bytes, 1);
#if MUTANT == 15
  last_prepared = w;
#endif
  return w->places != NULL && w->scratch != NULL ? 0 : fail("no memory");
}

static float* data(const tvmrt_region* region, int32_t tensor) {
  const DLTensor* border = region->data[tensor];
  work* w = region->device_graph;
  char* scratch;
#if MUTANT == 15 /* uses the context that was prepared last */
  w = last_prepared;
#endif
  scratch = w->scratch;
#if MUTANT == 4 /* one buffer for all regions and threads */
  scratch = shared;
#elif MUTANT == 18 /* contexts share the scratch memory of the first */
  if (region->base != NULL) scratch = ((const work*)region->base->device_graph)->scratch;
#endif
  if (border == NULL) return (float*)(void*)(scratch + w->places[tensor]);
#if MUTANT == 12 /* reads from the input of the first run */
  if (tensor == region->inputs[0]) {
    if (w->first == NULL) w->first = tvmrt_region_data(region, tensor);
    return w->first;
  }
#endif
#if MUTANT == 25 /* writes to the output of the first run */
  if (tensor == region->outputs[0]) {
    if (w->first == NULL) w->first = tvmrt_region_data(region, tensor);
    return w->first;
  }
#endif
#if MUTANT == 19 /* ignores byte_offset */
  return border->data;
#elif MUTANT == 16 /* assumes that tensors are aligned to 64 bytes */
  return (float*)(((uintptr_t)border->data + border->byte_offset) & ~(uintptr_t)63);
#else
  return tvmrt_region_data(region, tensor);
#endif
}

#if MUTANT == 31
/* Eight bits of each value: a wrong accumulator type. */
static float coarse(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  bits &= 0xffff0000u;
  memcpy(&x, &bits, sizeof(bits));
  return x;
}
#endif

static void multiply(const tvmrt_region* region, const tvmrt_region_node* node, int rectified) {
  const int64_t* w_shape = region->tensors[node->inputs[1]].shape;
  const int64_t inner = w_shape[0];
  const int64_t columns = w_shape[1];
  int64_t stride = columns;
#if MUTANT == 27 /* one width for all matmuls; never a larger one, so that it stays in bounds */
  static int64_t width;
  if (width == 0) width = columns;
  if (width < columns) stride = width;
#endif
  const float* a = data(region, node->inputs[0]);
  const float* w = data(region, node->inputs[1]);
  const float* bias = operand(node, 2) >= 0 ? data(region, node->inputs[2]) : NULL;
  float* y = data(region, node->outputs[0]);
  int64_t rows = tvmrt_region_size(region, node->outputs[0]) / columns;
#if MUTANT == 5 /* drops the bias */
  bias = NULL;
#elif MUTANT == 28 /* uses the weights of the previous matmul, if it has these extents */
  static float kept[1 << 16]; /* a copy: the previous matmul may be freed */
  static int64_t kept_size;
  if (kept_size != inner * columns && inner * columns <= 1 << 16) {
    memcpy(kept, w, (size_t)(inner * columns) * sizeof(*w));
    kept_size = inner * columns;
  }
  if (kept_size == inner * columns) w = kept;
#elif MUTANT == 6  /* computes in place of its input */
  ((float*)(uintptr_t)a)[0] *= 2;
#elif MUTANT == 7  /* a buffer of 64 */
  const int64_t used = inner < 64 ? inner : 64;
#elif MUTANT == 8  /* a tile of 64 rows, once */
  if (rows > 64) rows = 64;
#elif MUTANT == 20 /* drops the bias before ReLU */
  if (rectified) bias = NULL;
#elif MUTANT == 23 /* skips the remainder of a vector of 4 */
  const int64_t done = columns / 4 * 4;
#elif MUTANT == 26 /* uses the first matrix of a batch for all */
  const tvmrt_region_tensor* left = &region->tensors[node->inputs[0]];
  rows = left->ndim > 1 ? left->shape[left->ndim - 2] : 1;
#elif MUTANT == 21 /* adds the bias again at each preparation */
  const float times = (float)((const work*)region->device_graph)->prepared;
#endif
#if MUTANT != 7
  const int64_t used = inner;
#endif
#if MUTANT != 21
  const float times = 1;
#endif
#if MUTANT != 23
  const int64_t done = columns;
#endif
  (void)rectified;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < done; ++j) {
      float sum = bias == NULL ? 0 : bias[j] * times;
      for (int64_t k = 0; k < used; ++k) sum += a[i * inner + k] * w[k * stride + j];
#if MUTANT == 24 /* accumulates into its output */
      sum += y[i * columns + j];
#elif MUTANT == 31 /* keeps eight bits */
      sum = coarse(sum);
#endif
      y[i * columns + j] = sum;
    }
  }
#if MUTANT == 10 /* whole vectors of 8 only */
  for (int64_t i = rows * columns; i % 8 != 0; ++i) y[i] = 0;
#endif
}

static void compute(const tvmrt_region* region, int32_t n) {
  const tvmrt_region_node* node = &region->nodes[n];
  const int64_t size = tvmrt_region_size(region, node->outputs[0]);
  const int rectified = n + 1 < region->num_nodes && strcmp(region->nodes[n + 1].op, "relu") == 0;
  if (strcmp(node->op, "matmul") == 0) {
    multiply(region, node, rectified);
    return;
  }
  const float* a = data(region, node->inputs[0]);
  const float* b = data(region, node->inputs[node->num_inputs - 1]);
  float* y = data(region, node->outputs[0]);
  const int is_sum = strcmp(node->op, "add") == 0;
  for (int64_t i = 0; i < size; ++i) y[i] = is_sum ? a[i] + b[i] : a[i] > 0 ? a[i] : 0;
}

static int run(tvmrt_device* self, tvmrt_region* region) {
  (void)self;
#if MUTANT == 11 /* never returns */
  for (;;) pause_ms(1000);
#elif MUTANT == 14 /* unregisters while a library uses it */
  if (tvmrt_device_unregister("matmul14") != 0) return -1;
#endif
  for (int32_t n = 0; n < region->num_nodes; ++n) {
    compute(region, n);
    if (MUTANT == 4 || MUTANT == 18 || MUTANT == 15) pause_ms(1);
  }
  return 0;
}

#if MUTANT == 29 /* frees at post_run, and again at release_graph */
static int post_run(tvmrt_device* self, tvmrt_region* region) {
  (void)self;
  forget(region->device_graph);
  return 0;
}
#endif

static int release_graph(tvmrt_device* self, void* device_graph) {
  (void)self;
  forget(device_graph);
  free(device_graph);
  return 0;
}

static int describe(tvmrt_device* self, tvmrt_device_description* out) {
  static const char* const ops[] = {"matmul", "relu", "add", NULL};
  (void)self;
  out->ops = ops;
  return 0;
}

static const tvmrt_device_interface slots = {
    .pre_run = pre_run,
    .run = run,
#if MUTANT == 29
    .post_run = post_run,
#endif
    .release_graph = release_graph,
};
static const tvmrt_device_allocator questions = {.describe = describe, .evaluation = evaluation};
static const tvmrt_device device = {
    .struct_bytes = sizeof(tvmrt_device),
    .name = "matmul" TEXT(MUTANT),
    .interface = &slots,
    .allocator = &questions,
#if MUTANT == 13 /* empty size */
    .interface_bytes = 3,
#endif
};

int register_matmul_device(void) {
#if MUTANT == 9 /* registers twice */
  if (tvmrt_device_register(&device) != 0) return -1;
#endif
  return tvmrt_device_register(&device);
}
int unregister_matmul_device(void) { return tvmrt_device_unregister(device.name); }
