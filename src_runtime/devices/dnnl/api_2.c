/* oneDNN 2: primitives by way of descriptors of operations, layouts are structs.
 *
 * A layout's descriptor is a struct, of which the pool keeps a copy, so that layouts may be copied
 * and point to it as they do to oneDNN 3's. Operations are described first and then become
 * primitives; the table has a row for each kind. */
#include <stdlib.h>

#include "api.h"

_Static_assert(DNNL_VERSION_MAJOR == 2 && DNNL_VERSION_MINOR >= 6, "oneDNN 2.6 or a later 2.x");

/* Layouts ------------------------------------------------------------------------------------- */

/* NULL for a layout that is left out, as oneDNN has it. */
static const dnnl_memory_desc_t* md_of(const layout* l) {
  return l == NULL ? NULL : (const dnnl_memory_desc_t*)l->handle;
}

/* With the plan, whose layouts all point in here. */
void api_pool_free(api_pool* pool) {
  int32_t i;
  for (i = 0; i < pool->count; ++i) free(pool->items[i]);
  free(pool->items);
  *pool = (api_pool){0};
}

/* Keep a copy of the descriptor, and tell what is in it. Layouts stay until the plan ends, also
 * those of attempts that were given up: they are small. */
static dnnl_status_t keep(api_pool* pool, const dnnl_memory_desc_t* md, layout* out) {
  dnnl_memory_desc_t* kept;
  if (pool->count == pool->capacity) {
    int32_t larger = pool->capacity == 0 ? 64 : 2 * pool->capacity;
    void* moved = realloc(pool->items, (size_t)larger * sizeof(pool->items[0]));
    if (moved == NULL) return dnnl_out_of_memory;
    pool->items = moved;
    pool->capacity = larger;
  }
  /* by itself: layouts point into it, and the list of them moves when it grows */
  kept = malloc(sizeof(*kept));
  if (kept == NULL) return dnnl_out_of_memory;
  *kept = *md;
  pool->items[pool->count++] = (struct dnnl_memory_desc*)kept;
  *out = (layout){.handle = (const struct dnnl_memory_desc*)kept,
                  .ndims = kept->ndims,
                  .data_type = kept->data_type,
                  .dims = kept->dims,
                  .any = kept->format_kind == dnnl_format_kind_any,
                  .blocked = kept->format_kind == dnnl_blocked};
  if (out->blocked) {
    out->padded_dims = kept->padded_dims;
    out->offset = kept->offset0;
    out->strides = kept->format_desc.blocking.strides;
    out->inner_blocks = kept->format_desc.blocking.inner_nblks;
  }
  return dnnl_success;
}

/* For calls that fill a descriptor: one that failed has filled nothing. */
static dnnl_status_t keep_if(dnnl_status_t status, api_pool* pool, const dnnl_memory_desc_t* md,
                             layout* out) {
  return status == dnnl_success ? keep(pool, md, out) : status;
}

/* The order by its name, as "channels last"; of a rank that the name does not have it is
 * refused. */
dnnl_status_t api_by_tag(api_pool* pool, int ndims, const dnnl_dim_t* dims, dnnl_data_type_t dtype,
                         dnnl_format_tag_t tag, layout* out) {
  dnnl_memory_desc_t md;
  return keep_if(dnnl_memory_desc_init_by_tag(&md, ndims, dims, dtype, tag), pool, &md, out);
}

dnnl_status_t api_by_strides(api_pool* pool, int ndims, const dnnl_dim_t* dims,
                             dnnl_data_type_t dtype, const dnnl_dim_t* strides, layout* out) {
  dnnl_memory_desc_t md;
  return keep_if(dnnl_memory_desc_init_by_strides(&md, ndims, dims, dtype, strides), pool, &md,
                 out);
}

/* Without moving elements, or not at all: the caller copies then. */
dnnl_status_t api_reshape(api_pool* pool, const layout* from, int ndims, const dnnl_dim_t* dims,
                          layout* out) {
  dnnl_memory_desc_t md;
  return keep_if(dnnl_memory_desc_reshape(&md, md_of(from), ndims, dims), pool, &md, out);
}

dnnl_status_t api_permute(api_pool* pool, const layout* from, const int* where, layout* out) {
  dnnl_memory_desc_t md;
  return keep_if(dnnl_memory_desc_permute_axes(&md, md_of(from), where), pool, &md, out);
}

/* Only whole blocks are a part of the same memory. */
dnnl_status_t api_part(api_pool* pool, const layout* from, const dnnl_dim_t* sizes,
                       const dnnl_dim_t* starts, layout* out) {
  dnnl_memory_desc_t md;
  return keep_if(dnnl_memory_desc_init_submemory(&md, md_of(from), sizes, starts), pool, &md, out);
}

/* The struct is this version's to change: blocks stay as they are. */
dnnl_status_t api_retype(api_pool* pool, const layout* from, dnnl_data_type_t dtype, layout* out) {
  /* lint: md_of() gives NULL for no layout only */
  dnnl_memory_desc_t md = *md_of(from);
  md.data_type = dtype;
  return keep(pool, &md, out);
}

/* A copy, as the descriptor goes with the primitive's. */
dnnl_status_t api_chosen(api_pool* pool, const_dnnl_primitive_desc_t pd, dnnl_query_t what,
                         int index, layout* out) {
  const dnnl_memory_desc_t* md = dnnl_primitive_desc_query_md(pd, what, index);
  return md == NULL ? dnnl_invalid_arguments : keep(pool, md, out);
}

/* By what they mean, not by their address. */
bool api_equal(const layout* a, const layout* b) {
  return dnnl_memory_desc_equal(md_of(a), md_of(b)) != 0;
}

/* With the padding of blocks. */
size_t api_bytes(const layout* l) { return dnnl_memory_desc_get_size(md_of(l)); }

/* Over memory that stays the plan's or the caller's. */
dnnl_status_t api_memory(dnnl_memory_t* out, const layout* l, dnnl_engine_t engine, void* data) {
  return dnnl_memory_create(out, md_of(l), engine, data);
}

/* Operations ---------------------------------------------------------------------------------- */

/* Room for whichever is described; it lives for the time of the call. */
typedef union {
  dnnl_convolution_desc_t convolution;
  dnnl_deconvolution_desc_t deconvolution;
  dnnl_matmul_desc_t matmul;
  dnnl_pooling_v2_desc_t pooling;
  dnnl_reduction_desc_t reduction;
  dnnl_resampling_desc_t resampling;
  dnnl_softmax_v2_desc_t softmax;
  dnnl_layer_normalization_desc_t layer_normalization;
  dnnl_lrn_desc_t lrn;
  dnnl_eltwise_desc_t eltwise;
  dnnl_binary_desc_t binary;
  dnnl_prelu_desc_t prelu;
  dnnl_rnn_desc_t rnn;
} operation;

typedef dnnl_status_t (*describer)(const api_op* op, operation* out);

/* The direct algorithm alone: others transform their operands and round otherwise. */
static dnnl_status_t convolution(const api_op* op, operation* out) {
  return dnnl_dilated_convolution_forward_desc_init(
      &out->convolution, dnnl_forward_inference, dnnl_convolution_direct, md_of(op->src),
      md_of(op->weights), md_of(op->bias), md_of(op->dst), op->strides, op->dilations, op->before,
      op->after);
}

/* Windows are given as those of the convolution that it undoes. */
static dnnl_status_t deconvolution(const api_op* op, operation* out) {
  return dnnl_dilated_deconvolution_forward_desc_init(
      &out->deconvolution, dnnl_forward_inference, dnnl_deconvolution_direct, md_of(op->src),
      md_of(op->weights), md_of(op->bias), md_of(op->dst), op->strides, op->dilations, op->before,
      op->after);
}

/* No algorithm to be chosen, and no axes: the last two are the matrices. */
static dnnl_status_t matmul(const api_op* op, operation* out) {
  return dnnl_matmul_desc_init(&out->matmul, md_of(op->src), md_of(op->weights), md_of(op->bias),
                               md_of(op->dst));
}

/* The second version of these, which has dilations. */
static dnnl_status_t pooling(const api_op* op, operation* out) {
  return dnnl_pooling_v2_forward_desc_init(&out->pooling, dnnl_forward_inference, op->alg,
                                           md_of(op->src), md_of(op->dst), op->strides, op->kernel,
                                           op->dilations, op->before, op->after);
}

/* `constant` is what some algorithms add; those used here ignore it. */
static dnnl_status_t reduction(const api_op* op, operation* out) {
  return dnnl_reduction_desc_init(&out->reduction, op->alg, md_of(op->src), md_of(op->dst),
                                  op->alpha, op->constant);
}

/* No factors: they follow from the extents. */
static dnnl_status_t nearest(const api_op* op, operation* out) {
  return dnnl_resampling_forward_desc_init(&out->resampling, dnnl_forward_inference,
                                           dnnl_resampling_nearest, NULL, md_of(op->src),
                                           md_of(op->dst));
}

static dnnl_status_t softmax(const api_op* op, operation* out) {
  return dnnl_softmax_v2_forward_desc_init(&out->softmax, dnnl_forward_inference, op->alg,
                                           md_of(op->src), md_of(op->dst), op->axis);
}

/* No statistics from outside: mean and variance are computed by the primitive itself. */
static dnnl_status_t layer_norm(const api_op* op, operation* out) {
  return dnnl_layer_normalization_forward_desc_init(&out->layer_normalization,
                                                    dnnl_forward_inference, md_of(op->src), NULL,
                                                    op->constant, op->flags);
}

static dnnl_status_t lrn(const api_op* op, operation* out) {
  return dnnl_lrn_forward_desc_init(&out->lrn, dnnl_forward_inference, dnnl_lrn_across_channels,
                                    md_of(op->src), op->size, op->alpha, op->beta, op->constant);
}

/* Element by element the result has the operand's layout: this version is told of one alone. */
static dnnl_status_t eltwise(const api_op* op, operation* out) {
  return dnnl_eltwise_forward_desc_init(&out->eltwise, dnnl_forward_inference, op->alg,
                                        md_of(op->src), op->alpha, op->beta);
}

/* The second operand may have extents of 1, which broadcast. */
static dnnl_status_t binary(const api_op* op, operation* out) {
  return dnnl_binary_desc_init(&out->binary, op->alg, md_of(op->src), md_of(op->weights),
                               md_of(op->dst));
}

/* Slopes are the weights, in the same rank as the operand. The result has the operand's layout. */
static dnnl_status_t prelu(const api_op* op, operation* out) {
  return dnnl_prelu_forward_desc_init(&out->prelu, dnnl_forward_inference, md_of(op->src),
                                      md_of(op->weights));
}

/* One direction at a time: nodes of both are two cells to the compiler. */
static dnnl_rnn_direction_t direction(const api_op* op) {
  return op->reversed ? dnnl_unidirectional_right2left : dnnl_unidirectional_left2right;
}

/* Without peepholes and projections. The last argument, 0, is for flags. */
static dnnl_status_t lstm(const api_op* op, operation* out) {
  return dnnl_lstm_forward_desc_init(&out->rnn, dnnl_forward_inference, direction(op),
                                     md_of(op->src), md_of(op->state), md_of(op->cell),
                                     md_of(op->weights), md_of(op->recurrence), md_of(op->bias),
                                     md_of(op->dst), md_of(op->new_state), md_of(op->new_cell), 0);
}

static dnnl_status_t gru(const api_op* op, operation* out) {
  return dnnl_gru_forward_desc_init(&out->rnn, dnnl_forward_inference, direction(op),
                                    md_of(op->src), md_of(op->state), md_of(op->weights),
                                    md_of(op->recurrence), md_of(op->bias), md_of(op->dst),
                                    md_of(op->new_state), 0);
}

/* "lbr": linear before reset, with a bias of its own for the recurrence. */
static dnnl_status_t gru_before_reset(const api_op* op, operation* out) {
  return dnnl_lbr_gru_forward_desc_init(&out->rnn, dnnl_forward_inference, direction(op),
                                        md_of(op->src), md_of(op->state), md_of(op->weights),
                                        md_of(op->recurrence), md_of(op->bias), md_of(op->dst),
                                        md_of(op->new_state), 0);
}

/* alpha and beta are parameters of the activation; tanh has none. */
static dnnl_status_t rnn(const api_op* op, operation* out) {
  return dnnl_vanilla_rnn_forward_desc_init(
      &out->rnn, dnnl_forward_inference, op->alg, direction(op), md_of(op->src), md_of(op->state),
      md_of(op->weights), md_of(op->recurrence), md_of(op->bias), md_of(op->dst),
      md_of(op->new_state), 0, op->alpha, op->beta);
}

/* Every kind has a row, so that nobody asks whether there is one. */
static const describer DESCRIBERS[API_NUM_KINDS] = {
    [API_CONV] = convolution,
    [API_DECONV] = deconvolution,
    [API_MATMUL] = matmul,
    [API_POOL] = pooling,
    [API_REDUCTION] = reduction,
    [API_NEAREST] = nearest,
    [API_SOFTMAX] = softmax,
    [API_LAYER_NORM] = layer_norm,
    [API_LRN] = lrn,
    [API_ELTWISE] = eltwise,
    [API_BINARY] = binary,
    [API_PRELU] = prelu,
    [API_LSTM] = lstm,
    [API_GRU] = gru,
    [API_RNN] = rnn,
    [API_GRU_BEFORE_RESET] = gru_before_reset,
};

/* oneDNN copies what it needs of the description. NULL: no hint of a forward pass, which training
 * has. */
dnnl_status_t api_primitive(const api_op* op, dnnl_engine_t engine,
                            const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t* out) {
  operation described;
  dnnl_status_t status = DESCRIBERS[op->kind](op, &described);
  /* what could not be described has no primitive */
  if (status != dnnl_success) return status;
  return dnnl_primitive_desc_create(out, &described, attr, engine, NULL);
}

/* Both sides are of one engine, the CPU. */
dnnl_status_t api_reorder(const layout* from, const layout* to, dnnl_engine_t engine,
                          const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t* out) {
  return dnnl_reorder_primitive_desc_create(out, md_of(from), engine, md_of(to), engine, attr);
}

/* Version 2 wants the structs themselves in a row. */
dnnl_status_t api_concat(int count, const layout* parts, int axis, dnnl_engine_t engine,
                         const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t* out) {
  dnnl_memory_desc_t* mds = calloc((size_t)count, sizeof(*mds));
  dnnl_status_t status;
  int i;
  if (mds == NULL) return dnnl_out_of_memory;
  /* lint: md_of() gives NULL for no layout only */
  for (i = 0; i < count; ++i) mds[i] = *md_of(&parts[i]);
  status = dnnl_concat_primitive_desc_create(out, NULL, count, axis, mds, attr, engine);
  free(mds);
  return status;
}

/* Attributes ---------------------------------------------------------------------------------- */

/* 1.0: the result is not scaled. */
dnnl_status_t api_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float alpha,
                                 float beta) {
  return dnnl_post_ops_append_eltwise(ops, 1.0f, alg, alpha, beta);
}

/* The result's memory, times 1, is added to what the primitive has computed. */
dnnl_status_t api_append_sum(dnnl_post_ops_t ops) { return dnnl_post_ops_append_sum(ops, 1.0f); }

/* The operand's memory becomes an argument of the primitive, by the number of the operation. */
dnnl_status_t api_append_binary(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, const layout* other) {
  return dnnl_post_ops_append_binary(ops, alg, md_of(other));
}

/* Output scales multiply the sum with its bias, as this device's products want it. */
dnnl_status_t api_set_scales(dnnl_primitive_attr_t attr, int64_t count, int mask,
                             const float* scales) {
  return dnnl_primitive_attr_set_output_scales(attr, count, mask, scales);
}

/* The version has the number in the attribute. */
dnnl_status_t api_set_zero_point(dnnl_primitive_attr_t attr, int arg, int32_t zero,
                                 bool* is_operand) {
  *is_operand = false;
  return dnnl_primitive_attr_set_zero_points(attr, arg, 1, 0, &zero);
}
