/* Which nodes form a group, and the order in which groups are built.
 *
 * Two passes: nodes are sorted into groups by what reads what, without a look at oneDNN, then
 * groups are built in order. A group that oneDNN cannot do as a whole, or only slowly, loses posts
 * from its end until it can. */
#include "build.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  const char* op;
  fused_builder* fused; /* NULL: no pointwise nodes follow in the same primitive */
  lone_builder* lone;
} head_row;

/* Products of bytes take none: what follows them is part of how they round. */
static const head_row HEADS[] = {
    {"conv", build_conv, NULL},
    {"conv_transpose", build_conv_transpose, NULL},
    {"matmul", build_matmul, NULL},
    {"qconv", NULL, build_qconv},
    {"qmatmul", NULL, build_qmatmul},
    {"max_pool", build_pool, NULL},
    {"avg_pool", build_pool, NULL},
    {"qmax_pool", NULL, build_qmax_pool},
    {"qavg_pool", NULL, build_qavg_pool},
    {"qadd", NULL, build_qadd},
    {"quantize", NULL, build_quantize},
    {"dequantize", NULL, build_dequantize},
    {"reduce_sum", build_reduce, NULL},
    {"reduce_mean", build_reduce, NULL},
    {"reduce_max", build_reduce, NULL},
    {"reduce_min", build_reduce, NULL},
    {"reduce_prod", build_reduce, NULL},
    {"reduce_sum_square", build_reduce, NULL},
    {"pick", NULL, build_resample},
    {"softmax", NULL, build_softmax},
    {"layer_norm", NULL, build_layer_norm},
    {"group_norm", NULL, build_group_norm},
    {"lrn", NULL, build_lrn},
    {"concat", NULL, build_concat},
    {"reshape", NULL, build_view},
    {"transpose", NULL, build_view},
    {"slice", NULL, build_view},
    {"identity", NULL, build_view},
    {"cast", NULL, build_cast},
    {"lstm", NULL, build_recurrent},
    {"gru", NULL, build_recurrent},
    {"rnn", NULL, build_recurrent},
};

/* Small readers that all builders use --------------------------------------------------------- */

/* Tables are short: searched from the front. */
const void* build_row(const void* table, size_t count, size_t bytes, const char* op) {
  const char* row = table;
  for (; count > 0; --count, row += bytes) {
    if (strcmp(*(const char* const*)(const void*)row, op) == 0) return row;
  }
  return NULL;
}

/* Borrowed; numbers were checked when the region was read. */
const tvmrt_region_tensor* build_tensor(const plan* p, int32_t tensor) {
  return &p->region->tensors[tensor];
}

/* Optional inputs may be missing at the end or be left out in between. */
int32_t build_input(const tvmrt_region_node* node, int which) {
  return which < node->num_inputs ? node->inputs[which] : -1;
}

/* The tensor that a primitive leaves: that of its last post, which has swallowed the node's own. */
int32_t build_result(const tvmrt_region_node* node, const post* posts, int num_posts) {
  return num_posts > 0 ? posts[num_posts - 1].result : node->outputs[0];
}

/* A constant of one float: such operands become numbers of an operation instead of memory. */
bool build_scalar(const plan* p, int32_t tensor, float* out) {
  const tvmrt_region_tensor* t = build_tensor(p, tensor);
  if (t->data == NULL || tvmrt_region_size(p->region, tensor) != 1) return false;
  if (t->dtype.code != kDLFloat || t->dtype.bits != 32) return false;
  memcpy(out, t->data, sizeof(*out));
  return true;
}

/* With the region's extents: what oneDNN computed may have been flattened. */
int build_set(plan* p, int32_t tensor, const view* v) {
  const tvmrt_region_tensor* t = build_tensor(p, tensor);
  view shaped;
  PLAN_TRY(layout_reshape(p, v, t->ndim, t->shape, &shaped));
  plan_set(p, tensor, &shaped);
  return 0;
}

/* Reduced precision concerns floats alone. */
dnnl_data_type_t build_dtype(plan* p, const tvmrt_region_node* node, int32_t tensor) {
  dnnl_data_type_t dtype = layout_dtype(build_tensor(p, tensor)->dtype);
  bool reduced = strcmp(tvmrt_node_text(node, "precision", ""), "bfloat16") == 0;
  return dtype == dnnl_f32 && reduced ? dnnl_bf16 : dtype;
}

/* *out is borrowed from the node. The count is compared, since builders read so many. */
int build_ints(plan* p, const tvmrt_region_node* node, const char* key, int count,
               const int64_t** out) {
  int32_t found = 0;
  *out = tvmrt_node_ints(node, key, &found);
  if (found == count) return 0;
  return plan_fail(p, "attribute %s has %d integers; %d are expected", key, (int)found, count);
}

/* oneDNN has such numbers in 32 bits, and multiplies some. Zero is a number of them where `least`
 * allows it, as for elements of an empty axis. */
static bool is_count(int64_t n, int64_t least) { return n >= least && n <= 1 << 28; }

/* From extents and not from the node's own padding behind, which may reach further than any
 * window. */
int build_padding(plan* p, int64_t extent, int64_t windows, int64_t kernel, int64_t stride,
                  int64_t dilation, int64_t before, dnnl_dim_t* after) {
  int64_t padding;
  if (stride < 1 || dilation < 1) return plan_fail(p, "a stride or dilation is below 1");
  if (!is_count(extent, 0) || !is_count(windows, 0) || !is_count(kernel, 1) ||
      !is_count(stride, 1) || !is_count(dilation, 1) || !is_count(before, 0)) {
    return plan_fail(p, "a number of a window is outside 0 to 2^28");
  }
  /* below 2^57 by the bounds above: nothing wraps */
  padding = (windows - 1) * stride + (kernel - 1) * dilation + 1 - extent - before;
  if (padding > 1 << 28) return plan_fail(p, "windows reach further than 2^28 elements");
  *after = padding < 0 ? 0 : padding;
  return 0;
}

/* Groups -------------------------------------------------------------------------------------- */

/* The network's shape, while nodes are sorted into groups. */
typedef struct {
  plan* p;
  const tvmrt_region* r;
  int32_t* readers; /* per tensor: inputs of nodes and outputs of the region that read it */
  int32_t* first;   /* per tensor: the first node that reads it, or -1 */
  int32_t* second;  /* per tensor: another one */
  int32_t* owner;   /* per node: the first node of its group, or -1 */
  int32_t* end;     /* per first node of a group: the last */
  group* groups;    /* per first node */
} sorting;

/* Two readers are told apart, since a swish has two; of more only the number counts. An output
 * counts as a reader, so that nothing is fused over it. */
static void count_readers(sorting* s) {
  const tvmrt_region* r = s->r;
  int32_t i, k;
  for (i = 0; i < r->num_tensors; ++i) s->first[i] = s->second[i] = -1;
  for (i = 0; i < r->num_nodes; ++i) {
    for (k = 0; k < r->nodes[i].num_inputs; ++k) {
      int32_t t = r->nodes[i].inputs[k];
      if (t < 0) continue;
      s->readers[t]++;
      if (s->first[t] < 0) {
        s->first[t] = i;
      } else if (s->second[t] < 0 && s->first[t] != i) {
        s->second[t] = i;
      }
    }
  }
  for (i = 0; i < r->num_outputs; ++i) s->readers[r->outputs[i]]++;
}

/* -1 is no node. */
static bool is_op(const sorting* s, int32_t node, const char* op) {
  return node >= 0 && strcmp(s->r->nodes[node].op, op) == 0;
}

/* x * sigmoid(x) is one operation to oneDNN: the product's node, or -1. The sigmoid may have been
 * taken as the beginning of a group of its own, but by no other. Both readers of x must be these
 * two: a third one would need x in memory. */
static int32_t find_swish(const sorting* s, int32_t x) {
  int32_t gate = s->first[x], product = s->second[x], squashed;
  if (s->readers[x] != 2 || !is_op(s, gate, "sigmoid") || !is_op(s, product, "mul")) return -1;
  /* the sigmoid comes before its product in the region, and may have been sorted alone */
  if (s->owner[gate] >= 0 && s->owner[gate] != gate) return -1;
  squashed = s->r->nodes[gate].outputs[0];
  return s->readers[squashed] == 1 && s->first[squashed] == product ? product : -1;
}

/* Both nodes are taken into the group. */
static int32_t add_swish(sorting* s, group* g, int32_t number, int32_t x, int32_t product) {
  post* out = &g->posts[g->num_posts++];
  memset(out, 0, sizeof(*out));
  s->owner[s->first[x]] = number;
  s->owner[product] = number;
  s->end[number] = product;
  out->kind = POST_ELTWISE;
  out->alg = dnnl_eltwise_swish;
  /* x * sigmoid(alpha * x) */
  out->alpha = 1.0f;
  out->other = -1;
  out->node = product;
  return out->result = s->r->nodes[product].outputs[0];
}

/* Take what follows the tensor `flow` into the group; the tensor behind, or -1 if nothing fits. A
 * value with two readers ends the group: it must be in memory. Three posts are kept free, as one
 * node may need them. A node that belongs to another group already is left where it is. */
static int32_t extend(sorting* s, group* g, int32_t number, int32_t flow) {
  int32_t next = s->first[flow], product = find_swish(s, flow);
  int count;
  if (g->num_posts > BUILD_MAX_POSTS - 3) return -1;
  if (product >= 0) return add_swish(s, g, number, flow, product);
  if (s->readers[flow] != 1 || next < 0 || s->owner[next] >= 0) return -1;
  count = post_read(s->p, &s->r->nodes[next], next, flow, &g->posts[g->num_posts]);
  if (count == 0) return -1;
  g->num_posts += count;
  s->owner[next] = number;
  s->end[number] = next;
  return s->r->nodes[next].outputs[0];
}

/* The operand of a pointwise node that has the result's extents; the other one is broadcast.
 * Constants do not flow: post-operations work on what a primitive has just computed. */
static int32_t flow_of(const sorting* s, const tvmrt_region_node* node) {
  int64_t size = tvmrt_region_size(s->r, node->outputs[0]);
  int32_t a = build_input(node, 0), b = build_input(node, 1);
  if (build_tensor(s->p, a)->data == NULL && tvmrt_region_size(s->r, a) == size) return a;
  return b >= 0 && tvmrt_region_size(s->r, b) == size ? b : a;
}

/* Begin with a pointwise node; the tensor behind it. An operator that is neither a head nor one
 * of post.c's fails here, with its name. */
static int begin_alone(sorting* s, int32_t number, group* g, int32_t* flow) {
  const tvmrt_region_node* node = &s->r->nodes[number];
  int32_t product;
  g->head = -1;
  g->flow = flow_of(s, node);
  product = is_op(s, number, "sigmoid") ? find_swish(s, g->flow) : -1;
  if (product >= 0) {
    *flow = add_swish(s, g, number, g->flow, product);
    return 0;
  }
  g->num_posts = post_read(s->p, node, number, g->flow, g->posts);
  *flow = node->outputs[0];
  if (g->num_posts > 0) return 0;
  return plan_fail(s->p, "operator %s with these operands is none of oneDNN's", node->op);
}

/* The recurrent cell that computes a product itself, -1 if none does. A reshape may stand between
 * both, as products have two axes and cells three. */
static int32_t find_cell(const sorting* s, int32_t number) {
  const tvmrt_region_node* nodes = s->r->nodes;
  int32_t flow = nodes[number].outputs[0], next = s->first[flow];
  if (!is_op(s, number, "matmul") || s->readers[flow] != 1) return -1;
  if (is_op(s, next, "reshape")) {
    flow = nodes[next].outputs[0];
    if (s->readers[flow] != 1) return -1;
    next = s->first[flow];
  }
  if (next < 0 || nodes[next].inputs[0] != flow) return -1;
  return build_cell_takes(s->p, &nodes[number], &nodes[next]) ? next : -1;
}

/* A product, perhaps a reshape, and the cell behind are one group. The group stands where its
 * first node does and is built where its last one is: at the cell. */
static void take_cell(sorting* s, int32_t number, int32_t cell) {
  s->owner[s->first[s->r->nodes[number].outputs[0]]] = number;
  s->owner[cell] = s->owner[number] = number;
  s->end[number] = cell;
  s->groups[number].head = cell;
  s->groups[number].flow = s->r->nodes[cell].outputs[0];
}

/* In the order of the region: a node that an earlier group has taken does not come here. */
static int sort_node(sorting* s, int32_t number) {
  const tvmrt_region_node* node = &s->r->nodes[number];
  const head_row* head = BUILD_ROW(HEADS, node->op); /* NULL for pointwise nodes */
  group* g = &s->groups[number];
  int32_t flow = -1, cell;
  s->p->node = number;
  /* all that follows reads the first of both */
  if (node->num_outputs < 1 || node->num_inputs < 1 || node->inputs[0] < 0) {
    return plan_fail(s->p, "the node has no input or no output");
  }
  cell = find_cell(s, number);
  if (cell >= 0) {
    take_cell(s, number, cell);
    return 0;
  }
  s->owner[number] = s->end[number] = number; /* a group of its own so far */
  g->head = number;
  g->flow = node->outputs[0];
  if (head == NULL) {
    PLAN_TRY(begin_alone(s, number, g, &flow));
  } else if (head->fused != NULL) {
    flow = node->outputs[0];
  }
  while (flow >= 0) flow = extend(s, g, number, flow);
  return 0;
}

/* The counts of readers also tell, while groups are built, what is read later
 * (plan_is_last_use()). */
static int sort_nodes(sorting* s) {
  int32_t i;
  count_readers(s);
  for (i = 0; i < s->r->num_tensors; ++i) s->p->pending[i] = s->readers[i];
  for (i = 0; i < s->r->num_nodes; ++i) s->owner[i] = -1;
  for (i = 0; i < s->r->num_nodes; ++i) {
    if (s->owner[i] < 0) PLAN_TRY(sort_node(s, i));
  }
  return 0;
}

/* Building ------------------------------------------------------------------------------------ */

/* What a group reads has one reader less while it is built. Before it is built: an operand that
 * nobody reads later may be computed in. */
static void read_inputs(const sorting* s, int32_t first) {
  int32_t i, k;
  for (i = first; i <= s->end[first]; ++i) {
    const tvmrt_region_node* node = &s->r->nodes[i];
    for (k = 0; k < node->num_inputs && s->owner[i] == first; ++k) {
      if (node->inputs[k] >= 0) s->p->pending[node->inputs[k]]--;
    }
  }
}

/* The longest beginning of the posts that ends with a node and is not longer than `count`. Half a
 * node's operations would leave a tensor that the region does not have. */
static int whole_nodes(const post* posts, int count) {
  while (count > 0 && posts[count - 1].result < 0) --count;
  return count;
}

/* Operands of posts that are built later have a reader more, or less, until then. */
static void add_readers(plan* p, const post* posts, int num_posts, int32_t change) {
  int i;
  for (i = 0; i < num_posts; ++i) {
    if (posts[i].other >= 0) p->pending[posts[i].other] += change;
  }
}

/* A head with as many posts as oneDNN does well; the others as primitives of their own. Each
 * attempt begins anew; what an unsuitable one has converted stays in the plan. */
static int build_group(plan* p, const group* g) {
  int32_t flow = g->flow;
  int count = g->num_posts, rc;
  const tvmrt_region_node* node;
  const head_row* head;
  if (g->head < 0) return post_build_alone(p, flow, g->posts, count);
  node = &p->region->nodes[g->head];
  head = BUILD_ROW(HEADS, node->op);
  for (;;) {
    p->node = g->head;
    add_readers(p, &g->posts[count], g->num_posts - count, 1);
    rc = head->fused != NULL ? head->fused(p, node, g->posts, count) : head->lone(p, node);
    add_readers(p, &g->posts[count], g->num_posts - count, -1);
    if (rc != DNNL_PLAN_UNSUITABLE || count == 0) break;
    count = whole_nodes(g->posts, count - 1);
  }
  if (rc != 0) return -1;
  if (count > 0) flow = g->posts[count - 1].result;
  if (count == g->num_posts) return 0;
  return post_build_alone(p, flow, &g->posts[count], g->num_posts - count);
}

/* A group is built where its last node stands: all its operands are there by then. */
static int build_groups(const sorting* s) {
  int32_t i;
  for (i = 0; i < s->r->num_nodes; ++i) {
    int32_t first = s->owner[i];
    if (s->end[first] != i) continue;
    read_inputs(s, first);
    if (build_group(s->p, &s->groups[first]) != 0) return -1;
  }
  return 0;
}

/* One block of numbers for all lists. */
int build_nodes(plan* p) {
  size_t tensors = (size_t)p->region->num_tensors + 1, nodes = (size_t)p->region->num_nodes + 1;
  int32_t* numbers = calloc(3 * tensors + 2 * nodes, sizeof(int32_t));
  group* groups = calloc(nodes, sizeof(group));
  sorting s = {.p = p, .r = p->region, .groups = groups};
  int rc;
  if (numbers == NULL || groups == NULL) {
    rc = plan_fail(p, "out of memory");
  } else {
    s.readers = numbers;
    s.first = s.readers + tensors;
    s.second = s.first + tensors;
    s.owner = s.second + tensors;
    s.end = s.owner + nodes;
    rc = sort_nodes(&s);
    if (rc == 0) rc = build_groups(&s);
  }
  free(numbers);
  free(groups);
  return rc == 0 ? 0 : -1;
}
