/* A correct device, with one fault if the variable TVMRT_MUTANT is a number: mistakes that an
   author may make with tvm/runtime/device.h and the operator reference. Supports 2D
   convolutions, matmuls, adds and ReLU in float32, in float16 on request, and in int8. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <tvm/runtime/device.h>

TVMRT_DEVICE_PLUGIN(mutant)

static int mutant;
#define IS(number) (mutant == (number))

typedef struct {
  size_t* places; /* of each tensor in the scratch memory */
  char* scratch;
  size_t scratch_bytes;
  float** halves; /* weights in float16, by tensor */
  int32_t num_tensors;
  int64_t rows; /* of the first input at the first pre_run */
  pthread_t thread;
  int is_started;
  atomic_int done, stop;
  tvmrt_region* region;
  float* late; /* the first result of the run */
  void* lost;
} work;

static char shared[4 << 20];
static atomic_int shared_done;

static int fail(const char* why) {
  TVMPackedFuncSetLastError(why);
  return -1;
}

static void pause_us(long us) {
  const struct timespec span = {us / 1000000, us % 1000000 * 1000};
  (void)nanosleep(&span, NULL);
}

static int32_t operand(const tvmrt_region_node* node, int32_t i) {
  return i < node->num_inputs ? node->inputs[i] : -1;
}
static const tvmrt_region_tensor* type_of(const tvmrt_region* r, const tvmrt_region_node* n,
                                          int32_t i) {
  return operand(n, i) < 0 ? NULL : &r->tensors[n->inputs[i]];
}
static int is(const tvmrt_region_node* node, const char* op) { return strcmp(node->op, op) == 0; }

static int same_shape(const tvmrt_region_tensor* a, const tvmrt_region_tensor* b) {
  return a->ndim == b->ndim &&
         (a->ndim == 0 || memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(int64_t)) == 0);
}

/* NULL if the node is not supported. */
static const char* refusal(const tvmrt_region* r, const tvmrt_region_node* n) {
  const tvmrt_region_tensor* x = type_of(r, n, 0);
  const tvmrt_region_tensor* w = type_of(r, n, 1);
  const tvmrt_region_tensor* y = &r->tensors[n->outputs[0]];
  if (is(n, "relu")) return x->dtype.code == kDLFloat ? NULL : "relu in float32 alone";
  if (is(n, "qadd")) return NULL;
  if (is(n, "add") || is(n, "mul")) {
    if (x->dtype.code != kDLFloat) return "float32 alone";
    return same_shape(x, y) && same_shape(w, y) ? NULL : "equal shapes alone";
  }
  if (is(n, "conv") || is(n, "qconv")) return x->ndim == 4 ? NULL : "images alone";
  if (is(n, "qmatmul")) return NULL;
  if (!is(n, "matmul")) return "no such operator";
  if (w->ndim != 2) return "right operands have two dimensions";
  if (type_of(r, n, 2) != NULL &&
      (type_of(r, n, 2)->ndim != 1 || type_of(r, n, 2)->shape[0] != y->shape[y->ndim - 1])) {
    return "a bias is one a column";
  }
  return NULL;
}

static int evaluation(tvmrt_device* self, const tvmrt_region* region) {
  (void)self;
  for (int32_t i = 0; i < region->num_nodes; ++i) {
    const char* why = refusal(region, &region->nodes[i]);
    if (why == NULL) continue;
    ((tvmrt_region*)(uintptr_t)region)->failed_node = i;
    return fail(why);
  }
  return 0;
}

static int allocate(tvmrt_device* self, tvmrt_region* region) {
  size_t bytes = 64;
  (void)self;
  for (int32_t i = 0; i < region->num_tensors; ++i) bytes += (size_t)region->tensors[i].num_bytes;
  region->reservation = calloc(bytes, 1);
  return region->reservation != NULL ? 0 : fail("no memory");
}
static int release(tvmrt_device* self, tvmrt_region* region) {
  (void)self;
  if (!IS(41)) free(region->reservation);
  region->reservation = NULL;
  return 0;
}

/* Rounded to the eleven significant bits of float16, or fewer. */
static float shorter(float x, int bits) {
  uint32_t u;
  memcpy(&u, &x, 4);
  u += 1u << (23 - bits);
  u &= ~((1u << (24 - bits)) - 1);
  memcpy(&x, &u, 4);
  return x;
}

static int is_reduced(const tvmrt_region_node* n) {
  return strcmp(tvmrt_node_text(n, "precision", ""), "float16") == 0;
}

static void forget_float16(work* w) {
  for (int32_t i = 0; w->halves != NULL && i < w->num_tensors; ++i) {
    if (!IS(13)) free(w->halves[i]);
  }
  free(w->halves);
  w->halves = NULL;
}

static int reduce(work* w, const tvmrt_region* r) {
  w->num_tensors = r->num_tensors;
  w->halves = calloc((size_t)r->num_tensors + 1, sizeof(*w->halves));
  for (int32_t n = 0; w->halves != NULL && n < r->num_nodes; ++n) {
    const int32_t t = operand(&r->nodes[n], 1);
    if (!is_reduced(&r->nodes[n]) || t < 0 || r->tensors[t].data == NULL || w->halves[t] != NULL) {
      continue;
    }
    const size_t bytes = (size_t)r->tensors[t].num_bytes;
    w->halves[t] = malloc(bytes + 1);
    if (w->halves[t] == NULL) return -1;
    for (size_t i = 0; i < bytes / 4; ++i) {
      w->halves[t][i] = shorter(((const float*)r->tensors[t].data)[i], IS(25) ? 4 : 11);
    }
  }
  return w->halves == NULL ? -1 : 0;
}

static int pre_run(tvmrt_device* self, tvmrt_region* region, const char* options) {
  work* w = region->device_graph;
  size_t bytes = 64;
  (void)self;
  (void)options;
  if (w == NULL) w = region->device_graph = calloc(1, sizeof(*w));
  if (w == NULL) return fail("no memory");
  if (w->rows == 0) {
    w->rows = region->num_inputs > 0 && region->tensors[region->inputs[0]].ndim > 0
                  ? region->tensors[region->inputs[0]].shape[0]
                  : 1;
  }
  free(w->places);
  if (!IS(40)) free(w->scratch);
  forget_float16(w);
  w->places = calloc((size_t)region->num_tensors + 1, sizeof(size_t));
  for (int32_t i = 0; w->places != NULL && i < region->num_tensors; ++i) {
    w->places[i] = bytes;
    bytes += (region->tensors[i].num_bytes + 63) / 64 * 64;
  }
  w->scratch = calloc(bytes, 1);
  return w->places != NULL && w->scratch != NULL && reduce(w, region) == 0 ? 0 : fail("no memory");
}

static void* data(const tvmrt_region* region, int32_t tensor) {
  const work* w = region->device_graph;
  if (tensor < 0) return NULL;
  if (region->data[tensor] != NULL) {
    if (IS(34)) return region->data[tensor]->data; /* ignores byte_offset */
    return tvmrt_region_data(region, tensor);
  }
  return (IS(36) ? shared : w->scratch) + w->places[tensor];
}

/* The right operand of the first run of its region. */
static const float* first_of(const tvmrt_region* r, int32_t tensor, const float* now) {
  static float kept[4096];
  static const void* owner;
  const size_t size = (size_t)tvmrt_region_size(r, tensor);
  if (size > 4096) return now;
  if (owner != r->device_graph) memcpy(kept, now, size * sizeof(*kept));
  owner = r->device_graph;
  return kept;
}

static double number(const tvmrt_region* r, int32_t tensor, int64_t i) {
  const DLDataType type = r->tensors[tensor].dtype;
  const void* at = data(r, tensor);
  if (IS(45) && r->num_inputs == 2 && tensor == r->inputs[1] && type.code == kDLFloat) {
    return (double)first_of(r, tensor, at)[i];
  }
  if (type.code == kDLFloat) return (double)((const float*)at)[i];
  if (type.bits == 32) return ((const int32_t*)at)[i];
  if (type.code == kDLUInt && !IS(28)) return ((const uint8_t*)at)[i];
  return ((const int8_t*)at)[i];
}

/* Scale, bias and zero point of weights have one element, or one per channel. */
static double of_channel(const tvmrt_region* r, int32_t tensor, int64_t channel, double missing) {
  if (tensor < 0) return missing;
  return number(r, tensor, tvmrt_region_size(r, tensor) == 1 ? 0 : channel);
}

static void store(const tvmrt_region* r, const tvmrt_region_node* n, int64_t i, double sum,
                  double scale) {
  const int32_t y = n->outputs[0];
  const DLDataType type = r->tensors[y].dtype;
  const int is_signed = type.code == kDLInt;
  if (type.code == kDLFloat) {
    ((float*)data(r, y))[i] = (float)(sum * scale);
    return;
  }
  if (type.bits == 32) {
    ((int32_t*)data(r, y))[i] = (int32_t)(IS(29) ? sum * scale / 2 : IS(39) ? (int16_t)sum : sum);
    return;
  }
  double v = sum * scale;
  v = IS(2) ? round(v) : IS(9) ? trunc(v) : nearbyint(v);
  if (!IS(6)) v += (double)tvmrt_node_int(n, "y_zero", 0);
  double low = (double)tvmrt_node_int(n, "low", 0), high = (double)tvmrt_node_int(n, "high", 0);
  if (IS(3)) low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
  if (!IS(30)) v = v < low ? low : v > high ? high : v;
  ((int8_t*)data(r, y))[i] = (int8_t)(int64_t)v;
}

static void conv(const tvmrt_region* r, const tvmrt_region_node* n) {
  const int quantized = is(n, "qconv");
  const int64_t* xs = tvmrt_region_extents(r, n->inputs[0]);
  const int64_t* ws = r->tensors[n->inputs[1]].shape;
  const int64_t* ys = tvmrt_region_extents(r, n->outputs[0]);
  int32_t count;
  const int64_t* strides = tvmrt_node_ints(n, "strides", &count);
  const int64_t* dilations = tvmrt_node_ints(n, "dilations", &count);
  const int64_t* pads = tvmrt_node_ints(n, IS(16) ? "pads_after" : "pads_before", &count);
  const int64_t groups = tvmrt_node_int(n, "groups", 1);
  const double zero = quantized ? (double)tvmrt_node_int(n, "x_zero", 0) : 0;
  const work* work_ = r->device_graph;
  const float* halves = work_->halves == NULL ? NULL : work_->halves[n->inputs[1]];
  const int32_t bias = operand(n, quantized ? 3 : 2);
  for (int64_t b = 0; b < ys[0]; ++b)
    for (int64_t o = 0; o < ws[0]; ++o)
      for (int64_t h = 0; h < ys[2]; ++h)
        for (int64_t w = 0; w < ys[3]; ++w) {
          double sum = 0;
          const double w_zero = quantized && !IS(4) ? of_channel(r, operand(n, 4), o, 0) : 0;
          for (int64_t c = 0; c < ws[1]; ++c)
            for (int64_t i = 0; i < ws[2] * ws[3]; ++i) {
              if (IS(47) && (i / ws[3] > 4 || i % ws[3] > 4)) continue;
              const int64_t y = h * strides[0] + i / ws[3] * (IS(15) ? 1 : dilations[0]) - pads[0];
              const int64_t x = w * strides[IS(18) ? 0 : 1] +
                                i % ws[3] * (IS(15) ? 1 : dilations[IS(44) ? 0 : 1]) - pads[1];
              const int64_t channel = (IS(17) ? 0 : o / (ws[0] / groups) * ws[1]) + c;
              const int inside = y >= 0 && y < xs[2] && x >= 0 && x < xs[3];
              const int64_t place = (((IS(19) ? 0 : b) * xs[1] + channel) * xs[2] + y) * xs[3] + x;
              const int64_t at = (o * ws[1] + c) * ws[2] * ws[3] + i;
              double value = inside ? number(r, n->inputs[0], place) : IS(1) ? 0 : zero;
              if (inside && halves != NULL) value = (double)shorter((float)value, 11);
              const double weight =
                  halves != NULL ? (double)halves[at] : number(r, n->inputs[1], at);
              sum += (value - zero) * (weight - w_zero);
            }
          if (!(IS(10) && o >= 64) && !(IS(8) && quantized) && !(IS(24) && halves != NULL)) {
            sum += of_channel(r, bias, o, 0);
          }
          const int64_t place = ((b * ws[0] + o) * ys[2] + h) * ys[3] + w;
          if (quantized) {
            store(r, n, place, sum,
                  of_channel(r, n->inputs[2],
                             IS(5)    ? 0
                             : IS(49) ? o % 16
                                      : o,
                             1));
          } else {
            ((float*)data(r, n->outputs[0]))[place] = (float)sum;
          }
        }
}

static void matmul(const tvmrt_region* r, const tvmrt_region_node* n) {
  const int quantized = is(n, "qmatmul");
  const int64_t* ws = r->tensors[n->inputs[1]].shape;
  const double zero = quantized && !IS(7) ? (double)tvmrt_node_int(n, "x_zero", 0) : 0;
  const work* w = r->device_graph;
  const float* halves = w->halves == NULL ? NULL : w->halves[n->inputs[1]];
  const int32_t bias = operand(n, quantized ? 3 : 2);
  const int64_t rows = tvmrt_region_size(r, n->outputs[0]) / ws[1];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < ws[1]; ++j) {
      double sum = 0;
      const double w_zero =
          quantized && !IS(4) ? of_channel(r, operand(n, 4), IS(48) ? 0 : j, 0) : 0;
      for (int64_t k = 0; k < ws[0] && !(IS(11) && k >= 256); ++k) {
        double value = number(r, n->inputs[0], i * ws[0] + k);
        if (halves != NULL) value = (double)shorter((float)value, 11);
        const double weight =
            halves != NULL ? (double)halves[k * ws[1] + j] : number(r, n->inputs[1], k * ws[1] + j);
        sum += (value - zero) * (weight - w_zero);
      }
      if (IS(42)) sum = (double)shorter((float)sum, 8);
      if (!(IS(24) && halves != NULL)) sum += of_channel(r, bias, j, 0);
      if (quantized) {
        store(r, n, i * ws[1] + j, sum, of_channel(r, n->inputs[2], IS(5) ? 0 : j, 1));
      } else {
        ((float*)data(r, n->outputs[0]))[i * ws[1] + j] = (float)sum;
      }
    }
}

static void qadd(const tvmrt_region* r, const tvmrt_region_node* n) {
  const int64_t size = tvmrt_region_size(r, n->outputs[0]);
  const double a_scale = tvmrt_node_float(n, IS(31) ? "b_scale" : "a_scale", 1);
  const double b_scale = tvmrt_node_float(n, IS(31) ? "a_scale" : "b_scale", 1);
  for (int64_t i = 0; i < size; ++i) {
    const double a = number(r, n->inputs[0], i) - (double)tvmrt_node_int(n, "a_zero", 0);
    const double b = number(r, n->inputs[1], i) - (double)tvmrt_node_int(n, "b_zero", 0);
    store(r, n, i, a * a_scale + b * b_scale, 1 / tvmrt_node_float(n, "y_scale", 1));
  }
}

static void pointwise(const tvmrt_region* r, const tvmrt_region_node* n) {
  const float* a = data(r, n->inputs[0]);
  const float* b = data(r, n->inputs[n->num_inputs - 1]);
  float* y = data(r, n->outputs[0]);
  int64_t size = tvmrt_region_size(r, n->outputs[0]);
  const work* w = r->device_graph;
  if (IS(27) && w->rows > 0 && size % w->rows != 0) size -= size % w->rows; /* whole tiles only */
  if (IS(14) && w->rows != r->tensors[r->inputs[0]].shape[0])
    --size; /* correct for the largest tensor only */
  if (IS(33) && size > 4096) size = 4096;
  for (int64_t i = 0; i < size; ++i) {
    if (is(n, "relu"))
      y[i] = IS(12) ? (a[i] > 0 ? a[i] : 0) : (a[i] < 0 ? 0 : a[i]);
    else if (is(n, "mul"))
      y[i] = (IS(37) && isnan(a[i] * b[i])) || (IS(50) && b[i] == 0) ? 0 : a[i] * b[i];
    else
      y[i] = IS(32) && a == b ? a[i] : a[i] + b[i];
  }
  if (IS(35)) y[size] = 0;
}

static int compute(tvmrt_region* region) {
  for (int32_t n = 0; n < region->num_nodes; ++n) {
    const tvmrt_region_node* node = &region->nodes[n];
    if (refusal(region, node) != NULL) return fail("an operator that the device does not know");
    if (is(node, "conv") || is(node, "qconv"))
      conv(region, node);
    else if (is(node, "matmul") || is(node, "qmatmul"))
      matmul(region, node);
    else if (is(node, "qadd"))
      qadd(region, node);
    else
      pointwise(region, node);
    if (IS(36)) pause_us(1000);
  }
  return 0;
}

static int run(tvmrt_device* self, tvmrt_region* region) {
  (void)self;
  return compute(region);
}

/* A long run: it checks whether it should stop before it writes. */
static void* work_on(void* given) {
  work* w = given;
  for (int i = 0; i < 30 && !(atomic_load(&w->stop) && !IS(22)); ++i) pause_us(200);
  if (atomic_load(&w->stop) && IS(22)) w->late[0] = 0;
  if (!atomic_load(&w->stop) && !IS(20)) (void)compute(w->region);
  atomic_store(&w->done, 1);
  if (IS(38)) atomic_store(&shared_done, 1);
  return NULL;
}

static int async_run(tvmrt_device* self, tvmrt_region* region) {
  work* w = region->device_graph;
  (void)self;
  if (IS(46)) w->lost = calloc(1, 4096);
  atomic_store(&w->stop, 0);
  atomic_store(&w->done, 0);
  w->region = region;
  w->late = data(region, region->outputs[0]);
  if (pthread_create(&w->thread, NULL, work_on, w) != 0) return fail("no thread");
  w->is_started = 1;
  return 0;
}

static int async_wait(tvmrt_device* self, tvmrt_region* region, int try_wait) {
  work* w = region->device_graph;
  (void)self;
  if (!w->is_started) return 0;
  if (IS(21)) return 0; /* reports that the run has ended */
  if (try_wait && !(IS(38) ? atomic_load(&shared_done) : atomic_load(&w->done))) {
    return TVMRT_DEVICE_BUSY;
  }
  if (IS(38) && try_wait) return 0;
  (void)pthread_join(w->thread, NULL);
  w->is_started = 0;
  return 0;
}

static int post_run(tvmrt_device* self, tvmrt_region* region) {
  work* w = region->device_graph;
  (void)self;
  atomic_store(&w->stop, 1);
  if (IS(22)) return 0;
  if (w->is_started) (void)pthread_join(w->thread, NULL);
  w->is_started = 0;
  if (IS(23)) free(w->scratch); /* also freed by release_graph */
  return 0;
}

static int release_graph(tvmrt_device* self, void* device_graph) {
  work* w = device_graph;
  (void)self;
  if (w->is_started) (void)pthread_join(w->thread, NULL);
  free(w->places);
  free(w->scratch);
  forget_float16(w);
  free(w);
  return 0;
}

static int describe(tvmrt_device* self, tvmrt_device_description* out) {
  static const char* const ops[] = {"conv",  "matmul",  "relu", "add", "mul",
                                    "qconv", "qmatmul", "qadd", NULL};
  static const char* const types[] = {"float32", "int8", "uint8", "int32", NULL};
  static const char* const precisions[] = {"float16", NULL};
  (void)self;
  out->ops = ops;
  out->dtypes = types;
  out->precisions = precisions;
  return 0;
}

static int optimize_graph(tvmrt_device* self, const tvmrt_region* region, const char* precision,
                          int32_t* out_reduced) {
  (void)self;
  if (IS(43)) return fail("no node was chosen");
  for (int32_t i = 0; i < region->num_nodes; ++i) {
    const tvmrt_region_node* n = &region->nodes[i];
    out_reduced[i] = strcmp(precision, "float16") == 0 && (is(n, "conv") || is(n, "matmul")) &&
                     type_of(region, n, 1)->is_constant;
  }
  return 0;
}

static const tvmrt_device_interface slots = {.pre_run = pre_run,
                                             .run = run,
                                             .post_run = post_run,
                                             .async_run = async_run,
                                             .async_wait = async_wait,
                                             .release_graph = release_graph};
static const tvmrt_device_allocator questions = {
    .describe = describe, .evaluation = evaluation, .allocate = allocate, .release = release};
static const tvmrt_device_optimizer choices = {.optimize_graph = optimize_graph};
static const tvmrt_device device = {.struct_bytes = sizeof(tvmrt_device),
                                    .name = "mutant",
                                    .interface = &slots,
                                    .allocator = &questions,
                                    .optimizer = &choices,
                                    .num_queues = 4};

int register_mutant_device(void) {
  const char* number = getenv("TVMRT_MUTANT");
  mutant = number == NULL ? 0 : atoi(number);
  return tvmrt_device_register(&device);
}
int unregister_mutant_device(void) { return tvmrt_device_unregister("mutant"); }
