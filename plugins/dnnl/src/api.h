/*
 * What differs between oneDNN 2 and oneDNN 3, behind one face: no file but api.c knows which is built.
 * Names that both versions share are used as they are.
 *
 * Functions return a status of oneDNN and set no error text.
 */
#ifndef TVMRT_DEVICES_DNNL_API_H_
#define TVMRT_DEVICES_DNNL_API_H_

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Layouts --------------------------------------------------------------------------------------- */

/* The descriptors that layouts point to. Zeroed is empty; api_pool_free() ends them all. */
typedef struct {
  void** items;
  int32_t count, capacity;
} api_pool;

void api_pool_free(api_pool* pool);

/* Element type, extents and order in memory of a tensor; a value, valid as long as its pool. */
typedef struct {
  const void* md; /* oneDNN's descriptor */
  int ndims;
  dnnl_data_type_t dtype;
  dnnl_dims_t dims;
} layout;

/* Strides in elements; NULL: the primitive chooses the order. */
dnnl_status_t api_layout(api_pool* pool, int ndims, const dnnl_dim_t* dims, dnnl_data_type_t dtype,
                         const dnnl_dim_t* strides, layout* out);
/* The layout that a primitive has chosen where it was offered `offered`: dnnl_query_src_md and the like. */
dnnl_status_t api_chosen(api_pool* pool, const_dnnl_primitive_desc_t pd, dnnl_query_t what,
                         const layout* offered, layout* out);
bool api_equal(const layout* a, const layout* b);
size_t api_bytes(const layout* l);

/* Primitives ------------------------------------------------------------------------------------ */

typedef enum { API_CONV, API_DECONV, API_MATMUL, API_ELTWISE, API_BINARY } api_kind;

/* A primitive for inference before it is made. What a kind does not read stays zero; a layout that is
 * NULL is left out. */
typedef struct {
  api_kind kind;
  const char* what; /* for messages: "a convolution" */
  dnnl_alg_kind_t alg;
  const layout *src, *weights, *bias, *dst; /* weights: the second operand of any kind */
  const dnnl_dim_t *strides, *dilations, *before, *after;
  float alpha, beta; /* parameters of eltwise */
} api_op;

/* The caller destroys *out. */
dnnl_status_t api_primitive(const api_op* op, dnnl_engine_t engine,
                            const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t* out);

/* Attributes ------------------------------------------------------------------------------------ */

dnnl_status_t api_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float alpha, float beta);
/* Multiply sum and bias by these; unimplemented if the version wants it as a post-operation. */
dnnl_status_t api_set_scales(dnnl_primitive_attr_t attr, int64_t count, int mask,
                             const float* scales);
/* *is_operand: the number must be given as an argument of the primitive too, an int32 under
 * DNNL_ARG_ATTR_ZERO_POINTS | arg. */
dnnl_status_t api_set_zero_point(dnnl_primitive_attr_t attr, int arg, int32_t zero,
                                 bool* is_operand);

#endif
