/* oneDNN 2: primitives by way of descriptors of operations, layouts are structs.
 *
 * A layout's descriptor is a struct, of which the pool keeps a copy, so that layouts may be copied
 * and point to it as they do to oneDNN 3's. Operations are described first and then become
 * primitives. */
#include <stdlib.h>

#include "api_kinds.h"

_Static_assert(DNNL_VERSION_MAJOR == 2 && DNNL_VERSION_MINOR >= 6, "oneDNN 2.6 or a later 2.x");

/* Layouts ------------------------------------------------------------------------------------- */

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
  return keep_if(dnnl_memory_desc_reshape(&md, api_md(from), ndims, dims), pool, &md, out);
}

dnnl_status_t api_permute(api_pool* pool, const layout* from, const int* where, layout* out) {
  dnnl_memory_desc_t md;
  return keep_if(dnnl_memory_desc_permute_axes(&md, api_md(from), where), pool, &md, out);
}

/* Only whole blocks are a part of the same memory. */
dnnl_status_t api_part(api_pool* pool, const layout* from, const dnnl_dim_t* sizes,
                       const dnnl_dim_t* starts, layout* out) {
  dnnl_memory_desc_t md;
  return keep_if(dnnl_memory_desc_init_submemory(&md, api_md(from), sizes, starts), pool, &md, out);
}

/* The struct is this version's to change: blocks stay as they are. */
dnnl_status_t api_retype(api_pool* pool, const layout* from, dnnl_data_type_t dtype, layout* out) {
  /* lint: api_md() gives NULL for no layout only */
  dnnl_memory_desc_t md = *(const dnnl_memory_desc_t*)api_md(from);
  md.data_type = dtype;
  return keep(pool, &md, out);
}

/* A copy, as the descriptor goes with the primitive's. */
dnnl_status_t api_chosen(api_pool* pool, const_dnnl_primitive_desc_t pd, dnnl_query_t what,
                         int index, layout* out) {
  const dnnl_memory_desc_t* md = dnnl_primitive_desc_query_md(pd, what, index);
  return md == NULL ? dnnl_invalid_arguments : keep(pool, md, out);
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

#define IN_3(...)

/* *out is whichever of an operation's members the kind has. */
static dnnl_status_t describe(const api_op* op, void* out) {
#define DESCRIBE(kind, function, function_3, ...) \
  case kind:                                      \
    return dnnl_##function##_desc_init(out, __VA_ARGS__);
  switch (op->kind) {
    API_KINDS(DESCRIBE)
    default:
      return dnnl_invalid_arguments;
  }
}

/* oneDNN copies what it needs of the description. NULL: no hint of a forward pass, which training
 * has. */
dnnl_status_t api_primitive(const api_op* op, dnnl_engine_t engine,
                            const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t* out) {
  operation described;
  dnnl_status_t status = describe(op, &described);
  /* what could not be described has no primitive */
  if (status != dnnl_success) return status;
  return dnnl_primitive_desc_create(out, &described, attr, engine, NULL);
}

/* Version 2 wants the structs themselves in a row. */
dnnl_status_t api_concat(int count, const layout* parts, int axis, dnnl_engine_t engine,
                         const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t* out) {
  dnnl_memory_desc_t* mds = calloc((size_t)count, sizeof(*mds));
  dnnl_status_t status;
  int i;
  if (mds == NULL) return dnnl_out_of_memory;
  /* lint: api_md() gives NULL for no layout only */
  for (i = 0; i < count; ++i) mds[i] = *(const dnnl_memory_desc_t*)api_md(&parts[i]);
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
