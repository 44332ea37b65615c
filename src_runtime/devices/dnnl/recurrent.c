/* LSTM, GRU and plain recurrent cells.
 *
 * The compiler leaves the recurrence alone to the cell: the input's share of the gates is a
 * matrix product in front. oneDNN's cells multiply the input themselves, so they take over that
 * product where it has constant weights (build_cell_takes()), and get the identity as weights
 * where they cannot. */
#include <string.h>

#include "build.h"

#define MAX_GATES 4

typedef struct {
  const char* op;
  int gates;
  int order[MAX_GATES]; /* oneDNN's gate g is the compiler's gate order[g] */
} cell_row;

/* The compiler has ONNX's i, o, f, c and z, r, h; oneDNN has i, f, c, o and u, r, o. */
static const cell_row CELLS[] = {
    {"lstm", 4, {0, 2, 3, 1}},
    {"gru", 3, {0, 1, 2, 0}},
    {"rnn", 1, {0, 0, 0, 0}},
};

/* Weights are packed once, so they must be known when the plan is made. */
static bool is_constant_floats(const tvmrt_region_tensor* t) {
  return t->data != NULL && t->dtype.code == kDLFloat && t->dtype.bits == 32;
}

/* The product in front of a cell -------------------------------------------------------------- */

/* By a walk, once for a cell. NULL for inputs and constants. Each tensor has one, as the region's
 * loader has seen to. */
static const tvmrt_region_node* producer_of(const plan* p, int32_t tensor) {
  int32_t i;
  for (i = 0; i < p->region->num_nodes; ++i) {
    if (p->region->nodes[i].outputs[0] == tensor) return &p->region->nodes[i];
  }
  return NULL;
}

/* The product whose result, perhaps reshaped, is the cell's input; NULL if there is none. The
 * same pair that build.c has put into one group, asked from behind. */
static const tvmrt_region_node* product_of(const plan* p, const tvmrt_region_node* node) {
  const tvmrt_region_node* made = producer_of(p, node->inputs[0]);
  if (made != NULL && strcmp(made->op, "reshape") == 0) made = producer_of(p, made->inputs[0]);
  return made != NULL && strcmp(made->op, "matmul") == 0 ? made : NULL;
}

/* Whatever oneDNN would read of both is looked at: the product is then never computed by itself. */
bool build_cell_takes(const plan* p, const tvmrt_region_node* product,
                      const tvmrt_region_node* node) {
  const cell_row* row = BUILD_ROW(CELLS, node->op);
  int32_t weights = build_input(product, 1), bias = build_input(product, 2);
  const tvmrt_region_tensor* gates = build_tensor(p, node->inputs[0]);
  const tvmrt_region_tensor* w = weights < 0 ? NULL : build_tensor(p, weights);
  if (row == NULL || product_of(p, node) != product || w == NULL) return false;
  if (!is_constant_floats(w) || w->ndim != 2 || gates->ndim != 3) return false;
  if (w->shape[1] != gates->shape[2]) return false;
  return bias < 0 || (is_constant_floats(build_tensor(p, bias)) &&
                      tvmrt_region_size(p->region, bias) == w->shape[1]);
}

/* Weights ------------------------------------------------------------------------------------- */

typedef struct {
  const cell_row* row;
  /* `inputs` is what the cell multiplies: the product's inner extent, or all gates */
  int64_t steps, batch, inputs, hidden;
  int num_biases;
  view x;
  const float* w;           /* [inputs, gates * hidden], or NULL for the identity */
  const float* bias;        /* [gates * hidden], or NULL */
  const float* r;           /* [gates * hidden, hidden] */
  const float* hidden_bias; /* [hidden] of a GRU that multiplies before it resets, or NULL */
} cell;

/* Zeroed, and written by the caller before anything converts it. The plan frees it, also where
 * the cell fails. */
static int new_constant(plan* p, int ndims, const int64_t* dims, view* out, float** data) {
  layout md;
  PLAN_TRY(layout_dense(p, ndims, dims, dnnl_f32, &md));
  PLAN_TRY(plan_new_constant(p, &md, out));
  *data = p->stores[out->store].data;
  memset(*data, 0, p->stores[out->store].bytes);
  return 0;
}

/* [layers, directions, inputs, gates, hidden] The identity has the square of gates times hidden
 * numbers, for cells without a constant product alone. */
static int layer_weights(plan* p, const cell* c, view* out) {
  /* lint: what is not in the table of cells was refused before */
  dnnl_dims_t dims = {1, 1, c->inputs, c->row->gates, c->hidden};
  int64_t i, g, o, n = c->row->gates * c->hidden;
  float* data;
  PLAN_TRY(new_constant(p, 5, dims, out, &data));
  for (i = 0; i < c->inputs; ++i) {
    for (g = 0; g < c->row->gates; ++g) {
      for (o = 0; o < c->hidden; ++o) {
        /* where the compiler has it: the identity puts gates in oneDNN's order, too */
        int64_t from = c->row->order[g] * c->hidden + o;
        *data++ = c->w == NULL ? (float)(i == from) : c->w[i * n + from];
      }
    }
  }
  return 0;
}

/* The region has each gate's weights by output, oneDNN by input. Written once, while the plan is
 * made. */
static int iteration_weights(plan* p, const cell* c, view* out) {
  dnnl_dims_t dims = {1, 1, c->hidden, c->row->gates, c->hidden};
  int64_t i, g, o;
  float* data;
  PLAN_TRY(new_constant(p, 5, dims, out, &data));
  for (i = 0; i < c->hidden; ++i) {
    for (g = 0; g < c->row->gates; ++g) {
      for (o = 0; o < c->hidden; ++o) {
        *data++ = c->r[(c->row->order[g] * c->hidden + o) * c->hidden + i];
      }
    }
  }
  return 0;
}

/* A GRU that multiplies before it resets has one more gate, with the recurrence's own bias. */
static int biases(plan* p, const cell* c, view* out) {
  dnnl_dims_t dims = {1, 1, c->num_biases, c->hidden};
  int64_t g, o;
  float* data;
  PLAN_TRY(new_constant(p, 4, dims, out, &data));
  for (g = 0; c->bias != NULL && g < c->row->gates; ++g) {
    for (o = 0; o < c->hidden; ++o) {
      data[g * c->hidden + o] = c->bias[c->row->order[g] * c->hidden + o];
    }
  }
  for (o = 0; c->hidden_bias != NULL && o < c->hidden; ++o) {
    data[c->row->gates * c->hidden + o] = c->hidden_bias[o];
  }
  return 0;
}

/* Reading ------------------------------------------------------------------------------------- */

/* Where the product was computed already (another reader needs it), the cell reads its result.
 * Steps, batch and inputs are the cell's extents; a reshape in between is undone by this. */
static int read_input(plan* p, const tvmrt_region_node* node, cell* c) {
  const tvmrt_region_node* product = product_of(p, node);
  dnnl_dims_t dims;
  if (p->views[node->inputs[0]].store >= 0 || product == NULL) {
    /* lint: what is not in the table of cells was refused before */
    c->inputs = c->row->gates * c->hidden;
    PLAN_TRY(plan_source(p, node->inputs[0], &c->x));
  } else {
    const tvmrt_region_tensor* w = build_tensor(p, product->inputs[1]);
    int32_t bias = build_input(product, 2);
    c->inputs = w->shape[0];
    c->w = w->data;
    c->bias = bias < 0 ? NULL : build_tensor(p, bias)->data;
    PLAN_TRY(plan_source(p, product->inputs[0], &c->x));
  }
  dims[0] = c->steps;
  dims[1] = c->batch;
  dims[2] = c->inputs;
  PLAN_TRY(layout_reshape(p, &c->x, 3, dims, &c->x));
  return layout_row_major(p, &c->x, &c->x);
}

/* Everything that oneDNN would read beyond is compared here: weights come from a file. *c borrows
 * the region's constants. */
static int read_cell(plan* p, const tvmrt_region_node* node, cell* c) {
  const tvmrt_region_tensor* x = build_tensor(p, node->inputs[0]);
  const tvmrt_region_tensor* r = build_tensor(p, build_input(node, 1));
  bool before_reset = tvmrt_node_int(node, "linear_before_reset", 0) != 0;
  memset(c, 0, sizeof(*c));
  c->row = BUILD_ROW(CELLS, node->op);
  if (x->ndim != 3 || r->ndim != 2 || !is_constant_floats(r)) {
    return plan_fail(p, "the recurrence weights are not constant");
  }
  c->steps = x->shape[0];
  c->batch = x->shape[1];
  c->hidden = r->shape[1];
  c->r = r->data;
  /* lint: what is not in the table of cells was refused before */
  if (x->shape[2] != c->row->gates * c->hidden || r->shape[0] != x->shape[2]) {
    return plan_fail(p, "the gates do not fit the recurrence weights");
  }
  /* the recurrence's part of the last gate has a bias of its own there */
  c->num_biases = c->row->gates + before_reset;
  if (before_reset && build_input(node, 3) >= 0) {
    if (!is_constant_floats(build_tensor(p, node->inputs[3])) ||
        tvmrt_region_size(p->region, node->inputs[3]) != c->hidden) {
      return plan_fail(p, "the recurrence bias is not constant");
    }
    c->hidden_bias = build_tensor(p, node->inputs[3])->data;
  }
  return read_input(p, node, c);
}

/* Building ------------------------------------------------------------------------------------ */

/* Places of the arguments; those of the cell state are used by LSTM alone. */
enum { X, W, R, B, Y, H0, C0, HN, CN, NUM_ARGS };

typedef struct {
  plan_arg args[NUM_ARGS];
  layout* used[NUM_ARGS]; /* NULL: left out */
} tensors;

/* An initial state; zeros if there is none. Shared by all runs, and never written: new states
 * have a place of their own. */
static int state(plan* p, int32_t tensor, const dnnl_dims_t dims, int which, int arg, tensors* t) {
  if (tensor < 0) {
    float* zeros;
    PLAN_TRY(new_constant(p, 4, dims, &t->args[which].v, &zeros));
  } else {
    PLAN_TRY(plan_source(p, tensor, &t->args[which].v));
    PLAN_TRY(layout_reshape(p, &t->args[which].v, 4, dims, &t->args[which].v));
    PLAN_TRY(layout_row_major(p, &t->args[which].v, &t->args[which].v));
  }
  t->args[which].arg = arg;
  t->used[which] = &t->args[which].v.md;
  return 0;
}

/* A result, in the order in which the cell writes it. Whoever reads it gets it in the network's
 * extents by build_set(). */
static int fresh(plan* p, int ndims, const dnnl_dims_t dims, int which, int arg, tensors* t) {
  layout md;
  PLAN_TRY(layout_dense(p, ndims, dims, dnnl_f32, &md));
  PLAN_TRY(plan_new_view(p, &md, &t->args[which].v));
  t->args[which].arg = arg;
  t->used[which] = &t->args[which].v.md;
  return 0;
}

/* Arguments with arg 0 are left out by add_cell(). A cell state is LSTM's alone. */
static int gather(plan* p, const tvmrt_region_node* node, const cell* c, tensors* t) {
  dnnl_dims_t states = {1, 1, c->batch, c->hidden}, all = {c->steps, c->batch, c->hidden};
  /* lint: what is not in the table of cells was refused before */
  bool lstm = c->row->gates == 4;
  memset(t, 0, sizeof(*t));
  t->args[X] = (plan_arg){DNNL_ARG_SRC_LAYER, c->x};
  t->args[W].arg = DNNL_ARG_WEIGHTS_LAYER;
  t->args[R].arg = DNNL_ARG_WEIGHTS_ITER;
  t->args[B].arg = DNNL_ARG_BIAS;
  PLAN_TRY(layer_weights(p, c, &t->args[W].v));
  PLAN_TRY(iteration_weights(p, c, &t->args[R].v));
  PLAN_TRY(biases(p, c, &t->args[B].v));
  /* W and R are left to the primitive's choice, see describe() */
  t->used[X] = &t->args[X].v.md;
  t->used[B] = &t->args[B].v.md;
  PLAN_TRY(state(p, build_input(node, 2), states, H0, DNNL_ARG_SRC_ITER, t));
  if (lstm) PLAN_TRY(state(p, build_input(node, 3), states, C0, DNNL_ARG_SRC_ITER_C, t));
  PLAN_TRY(fresh(p, 3, all, Y, DNNL_ARG_DST_LAYER, t));
  PLAN_TRY(fresh(p, 4, states, HN, DNNL_ARG_DST_ITER, t));
  return lstm ? fresh(p, 4, states, CN, DNNL_ARG_DST_ITER_C, t) : 0;
}

/* GRUs are told apart by the bias that one of them has more. */
static api_kind kind_of(const cell* c) {
  if (c->row->gates == 4) return API_LSTM;
  if (c->row->gates == 1) return API_RNN;
  return c->num_biases > c->row->gates ? API_GRU_BEFORE_RESET : API_GRU;
}

/* The primitive; it chooses the layouts of the weights, `w` and `r`. */
static int describe(plan* p, const tvmrt_region_node* node, const cell* c, const tensors* t,
                    layout* w, layout* r, api_op* out) {
  layout* const* u = t->used;
  PLAN_TRY(layout_any(p, 5, t->args[W].v.md.dims, dnnl_f32, w));
  PLAN_TRY(layout_any(p, 5, t->args[R].v.md.dims, dnnl_f32, r));
  *out = (api_op){.kind = kind_of(c),
                  .what = "a recurrent cell",
                  .alg = dnnl_eltwise_tanh,
                  .src = u[X],
                  .weights = w,
                  .recurrence = r,
                  .bias = u[B],
                  .dst = u[Y],
                  .state = u[H0],
                  .cell = u[C0],
                  .new_state = u[HN],
                  .new_cell = u[CN],
                  .reversed = tvmrt_node_int(node, "reverse", 0) != 0};
  return 0;
}

/* Weights are packed in the order that the primitive has chosen: 0 is the layer's, 1 the
 * recurrence's. */
static int add_cell(plan* p, const api_op* op, tensors* t) {
  dnnl_primitive_desc_t pd = NULL;
  plan_arg used[NUM_ARGS];
  view* w = &t->args[W].v;
  view* r = &t->args[R].v;
  fused f;
  int i, n = 0, rc;
  PLAN_TRY(fused_create(p, -1, NULL, 0, 0, NULL, false, &f));
  rc = fused_desc(p, op, &f, 0, &pd);
  fused_free(&f);
  PLAN_TRY(rc);
  rc = layout_as_chosen(p, w, pd, dnnl_query_weights_md, 0, w);
  if (rc == 0) rc = layout_as_chosen(p, r, pd, dnnl_query_weights_md, 1, r);
  if (rc != 0) {
    dnnl_primitive_desc_destroy(pd);
    return rc;
  }
  for (i = 0; i < NUM_ARGS; ++i) {
    if (t->args[i].arg != 0) used[n++] = t->args[i];
  }
  return plan_add(p, pd, used, n);
}

/* A result that the network does not use is computed and dropped. The region's results are in the
 * order of ONNX: all states, the last one, the last cell state. */
int build_recurrent(plan* p, const tvmrt_region_node* node) {
  static const int results[] = {Y, HN, CN};
  layout w, r;
  api_op op;
  tensors t;
  cell c;
  int i;
  if (build_input(node, 1) < 0) return plan_fail(p, "the recurrence weights are missing");
  PLAN_TRY(read_cell(p, node, &c));
  PLAN_TRY(gather(p, node, &c, &t));
  PLAN_TRY(describe(p, node, &c, &t, &w, &r, &op));
  PLAN_TRY(add_cell(p, &op, &t));
  for (i = 0; i < node->num_outputs && i < 3; ++i) {
    if (node->outputs[i] >= 0) PLAN_TRY(build_set(p, node->outputs[i], &t.args[results[i]].v));
  }
  return 0;
}
