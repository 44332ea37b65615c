/*
 * From nodes to primitives. Nodes fall into groups: a head (convolution, matrix product, pooling ...)
 * and the pointwise nodes behind it, which oneDNN computes on the head's results as post-operations.
 * A pointwise node without a head is a group whose first post-operation is a primitive of its own.
 */
#ifndef TVMRT_DEVICES_DNNL_BUILD_H_
#define TVMRT_DEVICES_DNNL_BUILD_H_

#include "plan.h"

#define BUILD_MAX_POSTS 16

typedef enum { POST_ELTWISE, POST_BINARY, POST_PRELU } post_kind;

/* One pointwise operation on a value that flows through a group. */
typedef struct {
  post_kind kind;
  dnnl_alg_kind_t alg;
  float alpha, beta;
  int32_t other;  /* the second operand's tensor; -1 for POST_ELTWISE */
  int32_t result; /* the tensor after it; -1 if the next operation belongs to the same node */
  int32_t node;
} post;

typedef struct {
  int32_t head; /* -1: none, the first post begins */
  int32_t flow; /* the tensor on which the first post works */
  post posts[BUILD_MAX_POSTS];
  int num_posts;
} group;

/*
 * Builds a head with the first num_posts posts: appends primitives and sets the tensor that results.
 * Returns 0, -1, or DNNL_PLAN_UNSUITABLE if it cannot be done with so many posts.
 */
typedef int fused_builder(plan* p, const tvmrt_region_node* node, const post* posts, int num_posts);
/* Builds a head that takes no posts; else the same. */
typedef int lone_builder(plan* p, const tvmrt_region_node* node);

/* All nodes of the region, in order: a plan_builder. */
int build_nodes(plan* p);

/*
 * Padding behind the last of `extent` elements, so that `windows` of them fit; 0 if some elements are
 * reached by none. A number beyond 2^28, which oneDNN's products of 32 bits do not bear, is an error.
 */
int build_padding(plan* p, int64_t extent, int64_t windows, int64_t kernel, int64_t stride,
                  int64_t dilation, int64_t before, dnnl_dim_t* after);

/* Pointwise nodes (post.c) ---------------------------------------------------------------------- */

/* The node as operations on its operand `flow`; the number of them, 0 if it cannot be. */
int post_read(plan* p, const tvmrt_region_node* node, int32_t node_number, int32_t flow, post* out);
/* Posts without a head. */
int post_build_alone(plan* p, int32_t flow, const post* posts, int num_posts);

/* Attributes of a primitive with posts, whose further operands become arguments. */
typedef struct {
  dnnl_primitive_attr_t attr;
  plan_arg args[DNNL_PLAN_ARGS];
  int num_args;
  int32_t result; /* the tensor after the last post, or that of the head */
  bool may_sum;
  bool sums; /* the primitive adds to what `sum` holds, see fused_finish() */
  view sum;
} fused;

/*
 * Attributes for `num_posts` posts on a value with the extents of the tensor `flow`, which is computed
 * with the extents `dims`: the same, or with the leading ones flattened. The caller calls fused_free().
 * With may_sum a tensor that is added and not read again is summed into, where it lies.
 */
int fused_create(plan* p, int32_t flow, const post* posts, int num_posts, int ndims,
                 const int64_t* dims, bool may_sum, fused* out);
void fused_free(fused* f);
/* Create the primitive's descriptor; UNSUITABLE if oneDNN has but a reference implementation for it
 * with these posts. */
int fused_desc(plan* p, const api_op* op, const fused* f, int num_posts,
               dnnl_primitive_desc_t* out);
/* Whether it is one of oneDNN's products of blocks of channels last, its quickest. */
bool fused_is_blockwise(const_dnnl_primitive_desc_t pd);
/* Append the primitive and set the resulting tensor from `dst`, in the shape of the region; pd is taken
 * over, also on failure. */
int fused_add(plan* p, dnnl_primitive_desc_t pd, const fused* f, const plan_arg* args, int num_args,
              const view* dst);
/* The same for a primitive whose operands (DNNL_ARG_SRC and DNNL_ARG_WEIGHTS) are not in the layouts that
 * it has chosen yet, and whose result has no place: it is the first argument. */
int fused_finish(plan* p, dnnl_primitive_desc_t pd, const fused* f, plan_arg* args, int num_args);

/* A tensor's value if it is a constant of one float. */
bool build_scalar(const plan* p, int32_t tensor, float* out);
/* Set a tensor's view, reshaped to the tensor's own extents. */
int build_set(plan* p, int32_t tensor, const view* v);
/* The element type in which a node computes its float tensors. */
dnnl_data_type_t build_dtype(plan* p, const tvmrt_region_node* node, int32_t tensor);
/* An attribute of integers, exactly `count` of them. */
int build_ints(plan* p, const tvmrt_region_node* node, const char* key, int count,
               const int64_t** out);
/* The window of a node. The caller sets `spatial`, at most BUILD_MAX_SPATIAL. */
#define BUILD_MAX_SPATIAL 3
typedef struct {
  int spatial;
  dnnl_alg_kind_t alg;
  dnnl_dims_t kernel, strides, dilations, before, after;
} build_window;
/* x, y: spatial extents of operand and result; those of the kernel are NULL where the node has them. */
int build_read_window(plan* p, const tvmrt_region_node* node, const int64_t* x, const int64_t* y,
                      const int64_t* kernel, build_window* w);
const tvmrt_region_tensor* build_tensor(const plan* p, int32_t tensor);
/* The row of a table for an operator, whose name each row begins with; NULL if there is none. */
#define BUILD_ROW(table, op) \
  build_row(table, sizeof(table) / sizeof(*(table)), sizeof(*(table)), op)
const void* build_row(const void* table, size_t count, size_t bytes, const char* op);
/* Number of an input, -1 if it is left out. */
int32_t build_input(const tvmrt_region_node* node, int which);

/* The tensor behind the posts, or the node's own. */
int32_t build_result(const tvmrt_region_node* node, const post* posts, int num_posts);

/* Heads ----------------------------------------------------------------------------------------- */

fused_builder build_conv, build_conv_transpose, build_matmul, build_pool, build_reduce;
lone_builder build_cast, build_concat, build_dequantize, build_group_norm, build_layer_norm,
    build_lrn, build_qadd, build_qavg_pool, build_qconv, build_qmatmul, build_qmax_pool,
    build_quantize, build_recurrent, build_resample, build_softmax, build_view;
/* Whether a recurrent cell computes this product itself, which stands in front of it. */
bool build_cell_takes(const plan* p, const tvmrt_region_node* product,
                      const tvmrt_region_node* node);

#endif
