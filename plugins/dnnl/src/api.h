/*
 * Differences between oneDNN 2 and oneDNN 3: only api.c depends on the version. Names that both
 * versions share are used directly.
 *
 * Functions return a oneDNN status and set no error text.
 */
#ifndef TVMRT_DEVICES_DNNL_API_H_
#define TVMRT_DEVICES_DNNL_API_H_

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Layouts ------------------------------------------------------------------------------------- */

/* Owner of the layouts' descriptors. Zeroed means empty; api_pool_free() frees all. */
typedef struct {
  void** items;
  int32_t count, capacity;
} api_pool;

void api_pool_free(api_pool* pool);

/* Element type, extents and memory order of a tensor; a value, valid as long as its pool. */
typedef struct {
  const void* md; /* oneDNN's descriptor */
  int ndims;
  dnnl_data_type_t dtype;
  dnnl_dims_t dims;
} layout;

/* Strides in elements; NULL: the primitive chooses the order. */
dnnl_status_t api_layout(api_pool* pool, int ndims, const dnnl_dim_t* dims, dnnl_data_type_t dtype,
                         const dnnl_dim_t* strides, layout* out);
/* The layout chosen by a primitive that was offered `offered`; `what` is e.g. dnnl_query_src_md. */
dnnl_status_t api_chosen(api_pool* pool, const_dnnl_primitive_desc_t pd, dnnl_query_t what,
                         const layout* offered, layout* out);
bool api_equal(const layout* a, const layout* b);
size_t api_bytes(const layout* l);

/* Primitives ---------------------------------------------------------------------------------- */

typedef enum { API_CONV, API_DECONV, API_MATMUL, API_ELTWISE, API_BINARY } api_kind;

/* Description of an inference primitive. Members that a kind does not use are zero; a NULL layout
 * is omitted. */
typedef struct {
  api_kind kind;
  const char* what; /* for error texts: "a convolution" */
  dnnl_alg_kind_t alg;
  const layout *src, *weights, *bias, *dst; /* weights: the second operand of any kind */
  const dnnl_dim_t *strides, *dilations, *before, *after;
  float alpha, beta; /* parameters of eltwise */
} api_op;

/* The caller destroys *out. */
dnnl_status_t api_primitive(const api_op* op, dnnl_engine_t engine,
                            const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t* out);

/* Attributes ---------------------------------------------------------------------------------- */

dnnl_status_t api_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float alpha, float beta);
/* Scale sum and bias; dnnl_unimplemented if this version needs a post-operation instead. */
dnnl_status_t api_set_scales(dnnl_primitive_attr_t attr, int64_t count, int mask,
                             const float* scales);
/* *is_operand: the number must also be passed as an argument of the primitive, an int32 under
 * DNNL_ARG_ATTR_ZERO_POINTS | arg. */
dnnl_status_t api_set_zero_point(dnnl_primitive_attr_t attr, int arg, int32_t zero,
                                 bool* is_operand);

#endif
