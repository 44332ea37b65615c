/* Compatibility layer for oneDNN 2 and oneDNN 3.
 *
 * Version 2 has layouts as structs, which the pool copies, and creates primitives from operation
 * descriptors. Version 3 has layout objects, creates primitives directly, and takes quantisation
 * parameters as arguments. */
#include "api.h"

#include <stdlib.h>

#define IS_2 (DNNL_VERSION_MAJOR == 2)

_Static_assert(DNNL_VERSION_MAJOR == 3 || (IS_2 && DNNL_VERSION_MINOR >= 6),
               "oneDNN 2.6 or a later 2.x, or 3.x");

/* Layouts ------------------------------------------------------------------------------------- */

/* Ensure capacity for one more item. Items stay in the pool until the plan is freed, also those of
 * abandoned attempts, which are small. */
static bool has_room(api_pool* pool) {
  int32_t larger = pool->capacity == 0 ? 64 : 2 * pool->capacity;
  void* moved;
  if (pool->count < pool->capacity) return true;
  moved = realloc(pool->items, (size_t)larger * sizeof(pool->items[0]));
  if (moved == NULL) return false;
  pool->items = moved;
  pool->capacity = larger;
  return true;
}

#if IS_2

/* Allocated separately: layouts point to the descriptors, and the list moves when it grows. */
static dnnl_status_t keep(api_pool* pool, const dnnl_memory_desc_t* md, layout* out) {
  dnnl_memory_desc_t* copy = has_room(pool) ? malloc(sizeof(*copy)) : NULL;
  if (copy == NULL) return dnnl_out_of_memory;
  *copy = *md;
  out->md = pool->items[pool->count++] = copy;
  return dnnl_success;
}

static void free_item(void* item) { free(item); }

static dnnl_status_t make(api_pool* pool, int ndims, const dnnl_dim_t* dims, dnnl_data_type_t dtype,
                          const dnnl_dim_t* strides, layout* out) {
  dnnl_memory_desc_t md;
  dnnl_status_t status =
      strides == NULL ? dnnl_memory_desc_init_by_tag(&md, ndims, dims, dtype, dnnl_format_tag_any)
                      : dnnl_memory_desc_init_by_strides(&md, ndims, dims, dtype, strides);
  return status == dnnl_success ? keep(pool, &md, out) : status;
}

#else

/* The descriptor is copied, since oneDNN's own is freed with the primitive's. */
static dnnl_status_t keep(api_pool* pool, const_dnnl_memory_desc_t md, layout* out) {
  dnnl_memory_desc_t copy = NULL;
  dnnl_status_t status = has_room(pool) ? dnnl_memory_desc_clone(&copy, md) : dnnl_out_of_memory;
  if (status == dnnl_success) out->md = pool->items[pool->count++] = copy;
  return status;
}

static void free_item(void* item) { dnnl_memory_desc_destroy(item); }

static dnnl_status_t make(api_pool* pool, int ndims, const dnnl_dim_t* dims, dnnl_data_type_t dtype,
                          const dnnl_dim_t* strides, layout* out) {
  dnnl_memory_desc_t md = NULL;
  dnnl_status_t status =
      strides == NULL
          ? dnnl_memory_desc_create_with_tag(&md, ndims, dims, dtype, dnnl_format_tag_any)
          : dnnl_memory_desc_create_with_strides(&md, ndims, dims, dtype, strides);
  if (status != dnnl_success) return status;
  status = keep(pool, md, out);
  dnnl_memory_desc_destroy(md);
  return status;
}

#endif

/* Called when the plan is freed, since its layouts point into the pool. */
void api_pool_free(api_pool* pool) {
  int32_t i;
  for (i = 0; i < pool->count; ++i) free_item(pool->items[i]);
  free(pool->items);
  *pool = (api_pool){0};
}

/* Extents are copied: the caller's may be valid only during the call. */
dnnl_status_t api_layout(api_pool* pool, int ndims, const dnnl_dim_t* dims, dnnl_data_type_t dtype,
                         const dnnl_dim_t* strides, layout* out) {
  int i;
  out->ndims = ndims;
  out->dtype = dtype;
  for (i = 0; i < ndims; ++i) out->dims[i] = dims[i];
  return make(pool, ndims, out->dims, dtype, strides, out);
}

/* Returns invalid_arguments if the primitive has no such argument. `out` may be `offered`. */
dnnl_status_t api_chosen(api_pool* pool, const_dnnl_primitive_desc_t pd, dnnl_query_t what,
                         const layout* offered, layout* out) {
  const void* md = dnnl_primitive_desc_query_md(pd, what, 0);
  *out = *offered;
  return md == NULL ? dnnl_invalid_arguments : keep(pool, md, out);
}

/* Compares the content, not the address. */
bool api_equal(const layout* a, const layout* b) {
  return dnnl_memory_desc_equal(a->md, b->md) != 0;
}

/* Including the padding of blocks. */
size_t api_bytes(const layout* l) { return dnnl_memory_desc_get_size(l->md); }

/* Primitives ---------------------------------------------------------------------------------- */

static const void* md_of(const layout* l) { return l == NULL ? NULL : l->md; }

/*
 * X(kind, function of version 2, function of version 3, arguments...): equal arguments in equal
 * order, except for IN_3(), a result with the operand's layout.
 *
 * Convolutions use only the direct algorithm: others transform their operands and round
 * differently. A deconvolution gets the window of the convolution that it inverts. Dilations count
 * the gaps between elements: 0 is a dense window.
 */
#define MD(name) md_of(op->name)
#define FORWARD dnnl_forward_inference
#define WEIGHTED MD(src), MD(weights), MD(bias), MD(dst)
#define WINDOW op->strides, op->dilations, op->before, op->after
#define KINDS(X)                                                                                  \
  X(API_CONV, dilated_convolution_forward, convolution_forward, FORWARD, dnnl_convolution_direct, \
    WEIGHTED, WINDOW)                                                                             \
  X(API_DECONV, dilated_deconvolution_forward, deconvolution_forward, FORWARD,                    \
    dnnl_deconvolution_direct, WEIGHTED, WINDOW)                                                  \
  X(API_MATMUL, matmul, matmul, WEIGHTED)                                                         \
  X(API_ELTWISE, eltwise_forward, eltwise_forward, FORWARD, op->alg, MD(src) IN_3(MD(dst)),       \
    op->alpha, op->beta)                                                                          \
  X(API_BINARY, binary, binary, op->alg, MD(src), MD(weights), MD(dst))

#if IS_2

#define IN_3(...)

/* Storage for any operation's descriptor, valid during the call. */
typedef union {
  dnnl_convolution_desc_t convolution;
  dnnl_deconvolution_desc_t deconvolution;
  dnnl_matmul_desc_t matmul;
  dnnl_eltwise_desc_t eltwise;
  dnnl_binary_desc_t binary;
} operation;

/* *out is the member of `operation` for this kind. */
static dnnl_status_t describe(const api_op* op, void* out) {
#define DESCRIBE(kind, function, function_3, ...) \
  case kind:                                      \
    return dnnl_##function##_desc_init(out, __VA_ARGS__);
  switch (op->kind) {
    KINDS(DESCRIBE)
    default:
      return dnnl_invalid_arguments;
  }
}

/* oneDNN copies what it needs of the descriptor. NULL: no forward hint, which only training
 * needs. */
dnnl_status_t api_primitive(const api_op* op, dnnl_engine_t engine,
                            const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t* out) {
  operation described;
  dnnl_status_t status = describe(op, &described);
  if (status != dnnl_success) return status;
  return dnnl_primitive_desc_create(out, &described, attr, engine, NULL);
}

#else

#define IN_3(...) , __VA_ARGS__

dnnl_status_t api_primitive(const api_op* op, dnnl_engine_t engine,
                            const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t* out) {
#define CREATE(kind, function_2, function, ...) \
  case kind:                                    \
    return dnnl_##function##_primitive_desc_create(out, engine, __VA_ARGS__, attr);
  switch (op->kind) {
    KINDS(CREATE)
    default:
      return dnnl_invalid_arguments;
  }
}

#endif

/* Attributes ---------------------------------------------------------------------------------- */

/* 1.0: the result is not scaled; version 3 has no such parameter. */
dnnl_status_t api_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float alpha,
                                 float beta) {
#if IS_2
  return dnnl_post_ops_append_eltwise(ops, 1.0f, alg, alpha, beta);
#else
  return dnnl_post_ops_append_eltwise(ops, alg, alpha, beta);
#endif
}

/* Version 3's scales exclude the bias, which must be scaled and rounded with the sum. */
dnnl_status_t api_set_scales(dnnl_primitive_attr_t attr, int64_t count, int mask,
                             const float* scales) {
#if IS_2
  return dnnl_primitive_attr_set_output_scales(attr, count, mask, scales);
#else
  (void)attr, (void)count, (void)mask, (void)scales;
  return dnnl_unimplemented;
#endif
}

/* Version 2 stores the number in the attribute; version 3 takes it as an argument. */
dnnl_status_t api_set_zero_point(dnnl_primitive_attr_t attr, int arg, int32_t zero,
                                 bool* is_operand) {
  *is_operand = !IS_2;
#if IS_2
  return dnnl_primitive_attr_set_zero_points(attr, arg, 1, 0, &zero);
#else
  (void)zero;
  return dnnl_primitive_attr_set_zero_points_mask(attr, arg, 0);
#endif
}
