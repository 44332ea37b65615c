/* Convolutions and matmuls with bias, activation and residual add.
 *
 * Every oneDNN object is entered in the layer at once, and layer_free() destroys it. */
#include "layer.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "versions.h"

#define MAX_OPERANDS 7       /* result, source, weights, bias, two added tensors, scratch memory */
#define MAX_EXTENT (1 << 28) /* oneDNN uses 32 bits and multiplies some numbers */
#define TRY(call)               \
  do {                          \
    if ((call) != 0) return -1; \
  } while (0)
#define ONEDNN(call, what) TRY(check(l, call, what))

/* A tensor of the region as the primitive sees it. */
typedef struct {
  const tvmrt_region_tensor* t; /* NULL: scratch memory */
  int32_t index;                /* in the region */
  dnnl_dims_t strides;          /* of the tensor */
  descriptor md;
} operand;

struct layer {
  tvmrt_region* region;
  const onednn* lib;
  int threads;
  bool is_conv;
  bool is_flat;          /* a matmul of one matrix, with all batches as rows */
  int32_t node;          /* for error texts */
  dnnl_dims_t window[4]; /* strides, gaps between elements, padding before and after */
  int ndims;             /* of the result, as the primitive sees it */
  dnnl_dims_t dims;
  float range[2]; /* of bounds that are not appended yet */
  operand operands[MAX_OPERANDS];
  dnnl_exec_arg_t args[MAX_OPERANDS];
  int num_args;
  dnnl_primitive_attr_t attr;
  dnnl_post_ops_t ops;
  dnnl_primitive_desc_t pd, reorder_pd;
  dnnl_primitive_t primitive, reorder;
  dnnl_memory_t from; /* row-major weights, which are reordered once */
  descriptor from_md;
};

static int fail(layer* l, const char* format, ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  TVMPackedFuncSetLastError(text);
  l->region->failed_node = l->node;
  return -1;
}

static int check(layer* l, dnnl_status_t status, const char* what) {
  static const char* const texts[] = {"", "out of memory", "invalid arguments", "not implemented"};
  const char* text = (unsigned)status < 4 ? texts[status] : "a run-time error";
  return status == dnnl_success ? 0 : fail(l, "oneDNN returned %s for %s", text, what);
}

static const tvmrt_region_tensor* tensor_of(const layer* l, int32_t index) {
  return &l->region->tensors[index];
}

static void row_major(int ndims, const int64_t* dims, dnnl_dim_t* out) {
  for (int i = ndims - 1; i >= 0; --i) out[i] = i == ndims - 1 ? 1 : out[i + 1] * dims[i + 1];
}

/* Strides of the current call's tensor; outside of calls those that device.py asks for. */
static void read_strides(const layer* l, int32_t index, dnnl_dim_t* out) {
  const tvmrt_region_tensor* t = tensor_of(l, index);
  const DLTensor* given = l->region->data[index];
  row_major(t->ndim, t->shape, out);
  if (given != NULL && given->strides != NULL) {
    memcpy(out, given->strides, (size_t)t->ndim * sizeof(*out));
  } else if (given == NULL && t->data == NULL && l->is_conv && t->ndim > 2) {
    out[1] = 1;
    out[t->ndim - 1] = t->shape[1];
    for (int i = t->ndim - 2; i > 1; --i) out[i] = out[i + 1] * t->shape[i + 1];
    out[0] = out[2] * t->shape[2];
  }
}

/* Strides of extents of 1 are irrelevant. */
static bool same_strides(const tvmrt_region_tensor* t, const dnnl_dim_t* a, const dnnl_dim_t* b) {
  for (int i = 0; i < t->ndim; ++i) {
    if (t->shape[i] != 1 && a[i] != b[i]) return false;
  }
  return true;
}

/* Extents as the primitive sees them: with leading ones, or as rows and columns. */
static int align(layer* l, const tvmrt_region_tensor* t, int ndims, dnnl_dim_t* out) {
  const int lead = ndims - t->ndim;
  if (l->is_flat && t->ndim > 2) {
    out[0] = 1;
    for (int i = 0; i < t->ndim - 1; ++i) out[0] *= t->shape[i];
    out[1] = t->shape[t->ndim - 1];
    return 0;
  }
  if (lead < 0 || ndims > DNNL_MAX_NDIMS) return fail(l, "tensor %s has too many axes", t->name);
  for (int i = 0; i < ndims; ++i) out[i] = i < lead ? 1 : t->shape[i - lead];
  return 0;
}

static int check_tensor(layer* l, const tvmrt_region_tensor* t) {
  if (t->dtype.code != kDLFloat || t->dtype.bits != 32 || t->ndim > DNNL_MAX_NDIMS) {
    return fail(l, "tensor %s is not float32 of up to 12 axes", t->name);
  }
  for (int i = 0; i < t->ndim; ++i) {
    if (t->shape[i] >= 1 && t->shape[i] <= MAX_EXTENT) continue;
    return fail(l, "tensor %s has an extent outside 1 to 2^28", t->name);
  }
  return 0;
}

/* Append an argument of the primitive, which chooses the layout of constant weights. */
static int add_operand(layer* l, int arg, int32_t index, int ndims, const dnnl_dim_t* dims) {
  const tvmrt_region_tensor* t = tensor_of(l, index);
  operand* o = &l->operands[l->num_args];
  dnnl_dims_t rows, strides;
  TRY(check_tensor(l, t));
  if (l->num_args == MAX_OPERANDS - 1) return fail(l, "the node has too many operands");
  read_strides(l, index, o->strides);
  row_major(t->ndim, t->shape, rows);
  row_major(ndims, dims, strides);
  if (ndims == t->ndim) {
    memcpy(strides, o->strides, sizeof(strides));
  } else if (!same_strides(t, o->strides, rows)) {
    return fail(l, "tensor %s is not row-major", t->name);
  }
  o->t = t;
  o->index = index;
  l->args[l->num_args++].arg = arg;
  if (arg == DNNL_ARG_WEIGHTS && t->data != NULL) {
    ONEDNN(descriptor_new(&l->from_md, ndims, dims, strides), "a layout");
    return check(l, descriptor_new(&o->md, ndims, dims, NULL), "a layout");
  }
  return check(l, descriptor_new(&o->md, ndims, dims, strides), "a layout");
}

/* Append a tensor that is added to the result. oneDNN would read past the end of one that does not
 * broadcast. */
static int add_addend(layer* l, int arg, int32_t index) {
  dnnl_dims_t dims = {0};
  if (index < 0) return fail(l, "an input is missing");
  TRY(align(l, tensor_of(l, index), l->ndims, dims));
  for (int i = 0; i < l->ndims; ++i) {
    if (dims[i] == 1 || dims[i] == l->dims[i]) continue;
    return fail(l, "tensor %s does not broadcast to the result", tensor_of(l, index)->name);
  }
  return add_operand(l, arg, index, l->ndims, dims);
}

/* Read an attribute with a number per spatial axis. */
static int read_numbers(layer* l, const char* key, int count, int64_t minimum, dnnl_dim_t* out) {
  int32_t found = 0;
  const int64_t* values = tvmrt_node_ints(&l->region->nodes[0], key, &found);
  for (int i = 0; i < count && found == count; ++i) {
    if (values[i] < minimum || values[i] > MAX_EXTENT) found = 0;
    out[i] = values[i];
  }
  if (found == count) return 0;
  return fail(l, "attribute %s has not %d numbers of %d to 2^28", key, count, (int)minimum);
}

/* The padding at the end follows from the extents, since the node's own may exceed the last window.
 * Numbers of up to 2^28 do not overflow. */
static int read_window(layer* l, const tvmrt_region_tensor* x, const tvmrt_region_tensor* w,
                       const tvmrt_region_tensor* y) {
  const int n = x->ndim - 2;
  TRY(read_numbers(l, "strides", n, 1, l->window[0]));
  TRY(read_numbers(l, "dilations", n, 1, l->window[1]));
  TRY(read_numbers(l, "pads_before", n, 0, l->window[2]));
  for (int i = 0; i < n; ++i) {
    const int64_t span =
        (y->shape[i + 2] - 1) * l->window[0][i] + (w->shape[i + 2] - 1) * l->window[1][i] + 1;
    const int64_t after = span - x->shape[i + 2] - l->window[2][i];
    if (after > MAX_EXTENT) return fail(l, "a window spans more than 2^28 elements");
    l->window[3][i] = after < 0 ? 0 : after;
    l->window[1][i]--;
  }
  return 0;
}

/* oneDNN has the weights of several groups as [groups, channels of one, ...]. */
static int split_groups(layer* l, int64_t groups, dnnl_dim_t* dims) {
  if (groups < 1 || dims[0] % groups != 0) return fail(l, "the weights do not fall into groups");
  memmove(dims + 1, dims, (size_t)l->ndims * sizeof(*dims));
  dims[1] /= groups;
  dims[0] = groups;
  return 0;
}

static int read_layer(layer* l) {
  static const int args[] = {DNNL_ARG_DST, DNNL_ARG_SRC, DNNL_ARG_WEIGHTS};
  const tvmrt_region_node* node = &l->region->nodes[0];
  const int64_t groups = tvmrt_node_int(node, "groups", 1);
  const tvmrt_region_tensor* t[4] = {NULL}; /* result, operands, bias */
  int32_t index[4] = {l->region->outputs[0], -1, -1, -1};
  for (int i = 0; i < 3 && i < node->num_inputs; ++i) index[i + 1] = node->inputs[i];
  if (index[0] < 0 || index[1] < 0 || index[2] < 0) return fail(l, "an input is missing");
  for (int i = 0; i < 4 && index[i] >= 0; ++i) t[i] = tensor_of(l, index[i]);
  l->is_conv = strcmp(node->op, "conv") == 0;
  if (!l->is_conv && strcmp(node->op, "matmul") != 0) {
    return fail(l, "oneDNN does not support operator %s here", node->op);
  }
  const bool has_groups = l->is_conv && groups != 1;
  l->is_flat = !l->is_conv && t[2]->ndim == 2;
  l->ndims = l->is_flat ? 2 : t[0]->ndim;
  for (int i = 0; i < 3; ++i) {
    dnnl_dims_t dims = {0};
    if (l->is_conv ? t[i]->ndim != l->ndims || t[i]->ndim < 3 || t[i]->ndim > 5 : t[i]->ndim < 2) {
      return fail(l, "tensor %s has the wrong number of axes", t[i]->name);
    }
    TRY(align(l, t[i], l->ndims, dims));
    if (i == 0) memcpy(l->dims, dims, sizeof(dims));
    if (i == 2 && has_groups) TRY(split_groups(l, groups, dims));
    TRY(add_operand(l, args[i], index[i], l->ndims + (i == 2 && has_groups), dims));
  }
  if (l->is_conv) TRY(read_window(l, t[1], t[2], t[0]));
  if (t[3] == NULL) return 0;
  if (!l->is_conv) return add_addend(l, DNNL_ARG_BIAS, index[3]);
  return add_operand(l, DNNL_ARG_BIAS, index[3], t[3]->ndim, t[3]->shape);
}

static bool is_bound(const tvmrt_region_node* node) {
  return strcmp(node->op, "max") == 0 || strcmp(node->op, "min") == 0;
}

/* Bounds that follow each other are one clip, since oneDNN 2.6 uses wrong parameters for a second
 * one. If they cross, the later one wins, as with separate nodes. */
static int add_bound(layer* l, const tvmrt_region_node* node, int32_t index) {
  const tvmrt_region_tensor* t = index < 0 ? NULL : tensor_of(l, index);
  const int is_min = strcmp(node->op, "min") == 0;
  if (t == NULL || t->data == NULL || tvmrt_region_size(l->region, index) != 1) {
    return fail(l, "the bound of %s is not a constant number", node->op);
  }
  TRY(check_tensor(l, t));
  memcpy(&l->range[is_min], t->data, sizeof(float));
  if (l->range[0] > l->range[1]) l->range[!is_min] = l->range[is_min];
  if (l->node + 1 < l->region->num_nodes && is_bound(node + 1)) return 0;
  const float low = l->range[0], high = l->range[1];
  l->range[0] = -INFINITY;
  l->range[1] = INFINITY;
  return check(l, APPEND_ELTWISE(l->ops, dnnl_eltwise_clip, low, high), "a clip");
}

/* Append a node that reads the tensor `flow` as a post-operation. */
static int add_post_op(layer* l, const tvmrt_region_node* node, int32_t flow) {
  const bool is_first = node->num_inputs > 0 && node->inputs[0] == flow;
  const bool is_second = node->num_inputs == 2 && node->inputs[1] == flow;
  const int32_t other = node->num_inputs == 2 ? node->inputs[is_first] : -1;
  const tvmrt_region_tensor *x = tensor_of(l, flow), *y = tensor_of(l, node->outputs[0]);
  const int index = dnnl_post_ops_len(l->ops);
  if (is_first == is_second || x->ndim != y->ndim ||
      memcmp(x->shape, y->shape, (size_t)x->ndim * sizeof(x->shape[0])) != 0) {
    return fail(l, "the node does not continue the node before");
  }
  if (is_bound(node)) return add_bound(l, node, other);
  if (strcmp(node->op, "relu") == 0) {
    return check(l, APPEND_ELTWISE(l->ops, dnnl_eltwise_relu, 0.0f, 0.0f), "relu");
  }
  if (strcmp(node->op, "add") != 0) return fail(l, "oneDNN cannot append %s", node->op);
  TRY(add_addend(l, DNNL_ARG_ATTR_MULTIPLE_POST_OP(index) | DNNL_ARG_SRC_1, other));
  const_descriptor md = l->operands[l->num_args - 1].md;
  return check(l, dnnl_post_ops_append_binary(l->ops, dnnl_binary_add, md), "an add");
}

/* Reorder constant weights into the layout that the primitive has chosen. */
static int reorder_weights(layer* l, const operand* o, const_descriptor md, dnnl_memory_t* to) {
  const dnnl_engine_t engine = l->lib->engine;
  ONEDNN(dnnl_memory_create(&l->from, l->from_md, engine, (void*)o->t->data), "memory");
  ONEDNN(dnnl_memory_create(to, md, engine, DNNL_MEMORY_ALLOCATE), "memory");
  ONEDNN(dnnl_reorder_primitive_desc_create(&l->reorder_pd, l->from_md, engine, md, engine, NULL),
         "a change of layout");
  ONEDNN(dnnl_primitive_create(&l->reorder, l->reorder_pd), "a change of layout");
  const dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, l->from}, {DNNL_ARG_TO, *to}};
  ONEDNN(dnnl_primitive_execute(l->reorder, l->lib->stream, 2, args), "a change of layout");
  return check(l, dnnl_stream_wait(l->lib->stream), "a change of layout");
}

/* Scratch memory is the layer's own, since oneDNN's belongs to the thread that made the primitive. */
static int make_memory(layer* l) {
  const_descriptor weights = dnnl_primitive_desc_query_md(l->pd, dnnl_query_weights_md, 0);
  const_descriptor scratch = dnnl_primitive_desc_query_md(l->pd, dnnl_query_scratchpad_md, 0);
  const dnnl_engine_t engine = l->lib->engine;
  for (int i = 0; i < l->num_args; ++i) {
    const operand* o = &l->operands[i];
    dnnl_memory_t* out = &l->args[i].memory;
    void* data = o->t->data == NULL ? DNNL_MEMORY_NONE : (void*)o->t->data; /* set by each run */
    if (o->t->data != NULL && l->args[i].arg == DNNL_ARG_WEIGHTS) {
      TRY(reorder_weights(l, o, weights, out));
    } else {
      ONEDNN(dnnl_memory_create(out, o->md, engine, data), "memory");
    }
  }
  if (scratch == NULL || dnnl_memory_desc_get_size(scratch) == 0) return 0;
  dnnl_exec_arg_t* arg = &l->args[l->num_args++];
  arg->arg = DNNL_ARG_SCRATCHPAD;
  return check(l, dnnl_memory_create(&arg->memory, scratch, engine, DNNL_MEMORY_ALLOCATE),
               "memory");
}

static int build(layer* l) {
  const tvmrt_region* r = l->region;
  int32_t flow = -1;
  const operand* o = l->operands;
  if (r->num_nodes < 1 || r->num_outputs != 1) return fail(l, "the region is not a layer");
  TRY(read_layer(l));
  ONEDNN(dnnl_post_ops_create(&l->ops), "post-operations");
  for (; l->node < r->num_nodes; ++l->node) {
    const tvmrt_region_node* node = &r->nodes[l->node];
    if (node->num_outputs != 1) return fail(l, "the node has not one output");
    if (l->node > 0) TRY(add_post_op(l, node, flow));
    flow = node->outputs[0];
  }
  l->node = 0;
  if (flow != r->outputs[0]) return fail(l, "the output is not that of the last node");
  ONEDNN(dnnl_primitive_attr_create(&l->attr), "attributes");
  ONEDNN(dnnl_primitive_attr_set_post_ops(l->attr, l->ops), "post-operations");
  ONEDNN(dnnl_primitive_attr_set_scratchpad_mode(l->attr, dnnl_scratchpad_mode_user), "attributes");
  descriptor bias = l->args[3].arg == DNNL_ARG_BIAS ? o[3].md : NULL;
  descriptor md[4] = {o[1].md, o[2].md, bias, o[0].md};
  ONEDNN(layer_desc_new(&l->pd, md, l->is_conv ? l->window : NULL, l->lib->engine, l->attr),
         l->is_conv ? "a convolution" : "a matmul");
  ONEDNN(dnnl_primitive_create(&l->primitive, l->pd), "a primitive");
  return make_memory(l);
}

layer* layer_new(tvmrt_region* region, const onednn* lib, int threads) {
  layer* l = calloc(1, sizeof(*l));
  if (l == NULL) {
    TVMPackedFuncSetLastError("out of memory");
    return NULL;
  }
  *l = (layer){.region = region, .lib = lib, .threads = threads, .range = {-INFINITY, INFINITY}};
  if (build(l) == 0) return l;
  layer_free(l);
  return NULL;
}

void layer_free(layer* l) {
  if (l == NULL) return;
  for (int i = 0; i < MAX_OPERANDS; ++i) {
    if (l->args[i].memory != NULL) dnnl_memory_destroy(l->args[i].memory);
    descriptor_free(l->operands[i].md);
  }
  if (l->primitive != NULL) dnnl_primitive_destroy(l->primitive);
  if (l->pd != NULL) dnnl_primitive_desc_destroy(l->pd);
  if (l->attr != NULL) dnnl_primitive_attr_destroy(l->attr);
  if (l->ops != NULL) dnnl_post_ops_destroy(l->ops);
  if (l->reorder != NULL) dnnl_primitive_destroy(l->reorder);
  if (l->reorder_pd != NULL) dnnl_primitive_desc_destroy(l->reorder_pd);
  if (l->from != NULL) dnnl_memory_destroy(l->from);
  descriptor_free(l->from_md);
  free(l);
}

int layer_run(layer* l, int threads) {
  if (threads != l->threads) return LAYER_STALE;
  for (int i = 0; i < l->num_args && l->operands[i].t != NULL; ++i) {
    const operand* o = &l->operands[i];
    void* data = tvmrt_region_data(l->region, o->index);
    dnnl_dims_t strides = {0};
    if (data == NULL) return fail(l, "tensor %s has no memory", o->t->name);
    read_strides(l, o->index, strides);
    if (!same_strides(o->t, strides, o->strides)) return LAYER_STALE;
    if (o->t->data != NULL) continue;
    ONEDNN(dnnl_memory_set_data_handle(l->args[i].memory, data), "binding memory");
  }
  ONEDNN(dnnl_primitive_execute(l->primitive, l->lib->stream, l->num_args, l->args), "a primitive");
  return check(l, dnnl_stream_wait(l->lib->stream), "a primitive");
}
