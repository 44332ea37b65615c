/*
 * Converts nodes to primitives. Nodes are grouped: a convolution or matmul and the pointwise nodes
 * after it (add, relu, clip), which oneDNN computes as post-operations.
 */
#ifndef TVMRT_DEVICES_DNNL_BUILD_H_
#define TVMRT_DEVICES_DNNL_BUILD_H_

#include "plan.h"

#define BUILD_MAX_POST_OPS 4

/* One pointwise operation on the main value of a group. */
typedef struct {
  bool is_sum; /* adds the tensor `other`; otherwise a unary operation */
  dnnl_alg_kind_t alg;
  float alpha, beta;
  int32_t other;
  int32_t result; /* the tensor after the operation */
  int32_t node;
} post_op;

/* Build all nodes of the region, in order: a plan_builder. */
int build_nodes(plan* p);

/* Look-up functions of all builders (build.c) ------------------------------------------------- */

const tvmrt_region_tensor* build_tensor(const plan* p, int32_t tensor);
/* Index of an input; -1 if it is omitted. */
int32_t build_input(const tvmrt_region_node* node, int which);
/* Set a tensor's view, reshaped to the tensor's own extents. */
int build_set(plan* p, int32_t tensor, const view* v);

/* Pointwise nodes (post_ops.c) ------------------------------------------------------------ */

/* Append the node to the posts of a group, as an operation on its operand `flow`. False if it is
 * not supported, or cannot follow the present posts. */
bool post_op_read(const plan* p, int32_t node, int32_t flow, post_op* post_ops, int* num_post_ops);
/* Build the posts as separate primitives. */
int post_op_build_separate(plan* p, int32_t flow, const post_op* post_ops, int num_post_ops);

/* Attributes of a primitive with posts; their other operands are arguments. */
typedef struct {
  dnnl_primitive_attr_t attr;
  plan_arg args[2 * BUILD_MAX_POST_OPS];
  int num_args;
} fused;

/* Make attributes for posts on a value with the extents of the tensor `flow`, possibly with the
 * leading ones flattened. `result` is its layout. The caller calls fused_free(). */
int fused_create(plan* p, int32_t flow, const post_op* post_ops, int num_post_ops,
                 const layout* result, fused* out);
void fused_free(fused* f);
/* Create the primitive's descriptor; PLAN_UNSUITABLE if it would be slow with posts. */
int fused_desc(plan* p, const api_op* op, const fused* f, int num_post_ops,
               dnnl_primitive_desc_t* out);
/* Whether it is one of oneDNN's brgemm kernels for channels last, its fastest. */
bool fused_is_blockwise(const_dnnl_primitive_desc_t pd);
/* Convert the operands (DNNL_ARG_SRC and DNNL_ARG_WEIGHTS) to the layouts that the primitive has
 * chosen, append it, and set the tensor `result`. The first argument is the result, without a store
 * yet. pd is taken over, also on failure. */
int fused_add(plan* p, const api_op* op, dnnl_primitive_desc_t pd, const fused* f, plan_arg* args,
              int num_args, int32_t result);

/* Convolutions and matmuls (conv_matmul.c) ------------------------------------------------ */

typedef struct weighted_op weighted_op;
const weighted_op* weighted_op_find(const char* op); /* NULL for pointwise nodes */
bool weighted_op_takes_post_ops(const weighted_op* kind);
/* Build the layer with the first num_post_ops posts: append primitives and set the resulting
 * tensor. Returns 0, -1, or PLAN_UNSUITABLE if this number of posts is not supported. */
int weighted_op_build(plan* p, const weighted_op* kind, const tvmrt_region_node* node,
                      const post_op* post_ops, int num_post_ops);

/* Int8 layers (int8.c): weights with zero point 0; scales, rounding and zero points. */
int int8_read_weights(plan* p, const tvmrt_region_node* node, view* weights);
int int8_set_attributes(plan* p, const tvmrt_region_node* node, int ndims, fused* f);

#endif
