/*
 * From nodes to primitives. Nodes fall into groups: a product, and what follows it (a sum, a rectifier,
 * bounds), which oneDNN computes on the product's results as post-operations.
 */
#ifndef TVMRT_DEVICES_DNNL_BUILD_H_
#define TVMRT_DEVICES_DNNL_BUILD_H_

#include "plan.h"

#define BUILD_MAX_POSTS 4

/* One pointwise operation on the value that flows through a group. */
typedef struct {
  bool is_sum; /* of what flows and the tensor `other`; else an operation on what flows alone */
  dnnl_alg_kind_t alg;
  float alpha, beta;
  int32_t other;
  int32_t result; /* the tensor after it */
  int32_t node;
} post;

/* All nodes of the region, in order: a plan_builder. */
int build_nodes(plan* p);

/* Readers that all builders use (build.c) ------------------------------------------------------- */

const tvmrt_region_tensor* build_tensor(const plan* p, int32_t tensor);
/* Number of an input, -1 if it is left out. */
int32_t build_input(const tvmrt_region_node* node, int which);
/* Set a tensor's view, reshaped to the tensor's own extents. */
int build_set(plan* p, int32_t tensor, const view* v);

/* Pointwise nodes (post.c) ---------------------------------------------------------------------- */

/* Add the node to the posts of a group, as an operation on its operand `flow`. False if it is none, or
 * does not fit behind them. */
bool post_read(const plan* p, int32_t node, int32_t flow, post* posts, int* num_posts);
/* The posts as primitives of their own. */
int post_build_alone(plan* p, int32_t flow, const post* posts, int num_posts);

/* Attributes of a primitive with posts, whose further operands become arguments. */
typedef struct {
  dnnl_primitive_attr_t attr;
  plan_arg args[2 * BUILD_MAX_POSTS];
  int num_args;
} fused;

/* Attributes for posts on a value that has the extents of the tensor `flow`, or these with the leading
 * ones flattened; `result` is how it lies. The caller calls fused_free(). */
int fused_create(plan* p, int32_t flow, const post* posts, int num_posts, const layout* result,
                 fused* out);
void fused_free(fused* f);
/* Create the primitive's descriptor; UNSUITABLE if oneDNN has but a slow implementation for it with posts. */
int fused_desc(plan* p, const api_op* op, const fused* f, int num_posts,
               dnnl_primitive_desc_t* out);
/* Whether it is one of oneDNN's products of blocks of channels last, its quickest. */
bool fused_is_blockwise(const_dnnl_primitive_desc_t pd);
/* Bring the operands (DNNL_ARG_SRC and DNNL_ARG_WEIGHTS) into the layouts that the primitive has chosen,
 * append it, and set the tensor `result`. The result is the first argument, and has no place before. pd is
 * taken over, also on failure. */
int fused_add(plan* p, const api_op* op, dnnl_primitive_desc_t pd, const fused* f, plan_arg* args,
              int num_args, int32_t result);

/* Products (product.c) -------------------------------------------------------------------------- */

typedef struct product_kind product_kind;
const product_kind* product_find(const char* op); /* NULL for pointwise nodes */
bool product_takes_posts(const product_kind* kind);
/* The product with the first num_posts posts: appends primitives and sets the tensor that results.
 * Returns 0, -1, or PLAN_UNSUITABLE if it cannot be done with so many posts. */
int product_build(plan* p, const product_kind* kind, const tvmrt_region_node* node,
                  const post* posts, int num_posts);

/* Products of bytes (bytes.c): weights as signed numbers around 0; scales, rounding and zero points. */
int bytes_read_weights(plan* p, const tvmrt_region_node* node, view* weights);
int bytes_set_attributes(plan* p, const tvmrt_region_node* node, int ndims, fused* f);

#endif
