/*
 * What differs between oneDNN 2 and oneDNN 3, behind one face: api_2.c or api_3.c is built, and no other
 * file knows which. Names that both versions share are used as they are; what reads the same for both,
 * though their types differ, is in api_both.c.
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

/* The descriptors that layouts point into. Zeroed is empty; api_pool_free() ends them all. */
typedef struct {
  struct dnnl_memory_desc** items;
  int32_t count, capacity;
} api_pool;

void api_pool_free(api_pool* pool);

/* Extents, element type and order in memory of a tensor; a value, valid as long as its pool. */
typedef struct {
  const struct dnnl_memory_desc* handle;
  int ndims;
  dnnl_data_type_t data_type;
  const dnnl_dim_t* dims;
  bool any; /* the primitive chooses the order */
  bool
      blocked; /* the order is that of strides, perhaps of blocks; what is below is zero otherwise */
  const dnnl_dim_t* padded_dims;
  const dnnl_dim_t* strides; /* elements */
  int inner_blocks;          /* 0: strides alone */
  dnnl_dim_t offset;         /* elements in front of the first one */
} layout;

/* The descriptor as the version's calls take it; NULL for a layout that is left out, as oneDNN has it. */
static inline const void* api_md(const layout* l) { return l == NULL ? NULL : l->handle; }

dnnl_status_t api_by_tag(api_pool* pool, int ndims, const dnnl_dim_t* dims, dnnl_data_type_t dtype,
                         dnnl_format_tag_t tag, layout* out);
dnnl_status_t api_by_strides(api_pool* pool, int ndims, const dnnl_dim_t* dims,
                             dnnl_data_type_t dtype, const dnnl_dim_t* strides, layout* out);
/* invalid_arguments if elements would have to move. */
dnnl_status_t api_reshape(api_pool* pool, const layout* from, int ndims, const dnnl_dim_t* dims,
                          layout* out);
/* Axis i becomes axis where[i]. */
dnnl_status_t api_permute(api_pool* pool, const layout* from, const int* where, layout* out);
/* A part of a tensor; unimplemented if it does not begin and end with a block. */
dnnl_status_t api_part(api_pool* pool, const layout* from, const dnnl_dim_t* sizes,
                       const dnnl_dim_t* starts, layout* out);
/* The same order with elements of another type; unimplemented if the version cannot express it. */
dnnl_status_t api_retype(api_pool* pool, const layout* from, dnnl_data_type_t dtype, layout* out);
/* The layout that a primitive has chosen: dnnl_query_src_md and the like. */
dnnl_status_t api_chosen(api_pool* pool, const_dnnl_primitive_desc_t pd, dnnl_query_t what,
                         int index, layout* out);
bool api_equal(const layout* a, const layout* b);
size_t api_bytes(const layout* l);

/* Memory whose elements lie at `data`, which stays the caller's. */
dnnl_status_t api_memory(dnnl_memory_t* out, const layout* l, dnnl_engine_t engine, void* data);

/* Primitives ------------------------------------------------------------------------------------ */

typedef enum {
  API_CONV,
  API_DECONV,
  API_MATMUL,
  API_POOL,
  API_REDUCTION,
  API_NEAREST,
  API_SOFTMAX,
  API_LAYER_NORM,
  API_LRN,
  API_ELTWISE,
  API_BINARY,
  API_PRELU,
  API_LSTM,
  API_GRU,
  API_GRU_BEFORE_RESET, /* multiplies before it resets */
  API_RNN
} api_kind;

/* A primitive for inference before it is made. What a kind does not read stays zero; a layout that is
 * NULL is left out. */
typedef struct {
  api_kind kind;
  const char* what; /* for messages: "a convolution" */
  dnnl_alg_kind_t alg;
  const layout *src, *weights, *bias, *dst; /* weights: the second operand of any kind */
  const dnnl_dim_t *strides, *kernel, *dilations, *before, *after;
  float alpha, beta; /* parameters of eltwise, exponents and factors of lrn, power of reductions */
  float constant;    /* epsilon, or what lrn adds */
  int64_t size;      /* channels that lrn looks at */
  int axis;
  unsigned flags; /* dnnl_normalization_flags_t */
  /* recurrent cells: weights of the recurrence, states before and after */
  const layout *recurrence, *state, *cell, *new_state, *new_cell;
  bool reversed;
} api_op;

/* The caller destroys *out. */
dnnl_status_t api_primitive(const api_op* op, dnnl_engine_t engine,
                            const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t* out);
dnnl_status_t api_reorder(const layout* from, const layout* to, dnnl_engine_t engine,
                          const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t* out);
dnnl_status_t api_concat(int count, const layout* parts, int axis, dnnl_engine_t engine,
                         const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t* out);

/* Attributes ------------------------------------------------------------------------------------ */

dnnl_status_t api_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float alpha, float beta);
dnnl_status_t api_append_sum(dnnl_post_ops_t ops);
dnnl_status_t api_append_binary(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, const layout* other);
/* Multiply sum and bias by these; unimplemented if the version wants it as a post-operation. */
dnnl_status_t api_set_scales(dnnl_primitive_attr_t attr, int64_t count, int mask,
                             const float* scales);
/* *is_operand: the number must be given as an argument of the primitive too, an int32 under
 * DNNL_ARG_ATTR_ZERO_POINTS | arg. */
dnnl_status_t api_set_zero_point(dnnl_primitive_attr_t attr, int arg, int32_t zero,
                                 bool* is_operand);

#endif
