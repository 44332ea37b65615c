/*
 * A region as a list of oneDNN primitives: what pre_run builds and run executes.
 *
 * A tensor of the region is a *view*: a place in a *store* (a piece of memory) and the layout that it
 * has there. Blocked layouts stay between primitives; reshapes, transposes and slices only make other
 * views of the same store where the layout allows it.
 *
 * Functions return 0, or -1 with the error text set, unless they say more.
 */
#ifndef TVMRT_DEVICES_DNNL_PLAN_H_
#define TVMRT_DEVICES_DNNL_PLAN_H_

#include <tvm/runtime/device.h>

#include "api.h"

#define DNNL_PLAN_ALIGN 64 /* bytes; of every store */
#define DNNL_PLAN_ARGS 16  /* arguments of one primitive, beside those of concat */

/* Result of a builder: this form does not suit oneDNN, another may. */
#define DNNL_PLAN_UNSUITABLE 1

typedef enum {
  STORE_ARENA,   /* between primitives; shares its bytes with others at other times */
  STORE_BORDER,  /* the caller's memory of tensor `tensor`, bound at each run */
  STORE_CONSTANT /* `data`; freed with the plan if `owned` */
} store_kind;

typedef struct {
  store_kind kind;
  int32_t tensor;
  bool owned;
  void* data;
  size_t bytes;
  size_t offset; /* in the arena */
  int32_t first; /* first and last primitive that touch it */
  int32_t last;
} plan_store;

typedef struct {
  int32_t store; /* -1: not computed yet */
  size_t offset; /* bytes in the store in front of the view */
  layout md;
} view;

/* One argument of a primitive while the plan is built. */
typedef struct {
  int arg; /* DNNL_ARG_... */
  view v;
} plan_arg;

typedef struct {
  dnnl_primitive_t primitive;
  int32_t node; /* of the region, for messages */
  int num_args;
  dnnl_exec_arg_t* args; /* memory objects, made when all places are known */
  plan_arg* pending;     /* the same before that */
} plan_step;

/* How the plan assumes that a tensor of the caller lies in memory. */
typedef struct {
  int32_t tensor;
  dnnl_dims_t strides;
} plan_border;

/* A memory object over the caller's memory. */
typedef struct {
  dnnl_memory_t memory;
  int32_t tensor;
  size_t offset; /* bytes */
  void* bound;
} plan_binding;

typedef struct plan {
  tvmrt_region* region;
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  bool channels_last;
  bool from_call;
  int threads;
  api_pool layouts; /* what all layouts of the plan point into */
  view* views;      /* per tensor of the region */
  int32_t* pending; /* per tensor: readers that are not in the plan yet; outputs have one more */
  plan_store* stores;
  int32_t num_stores, cap_stores;
  plan_step* steps;
  int32_t num_steps, cap_steps;
  plan_border* borders; /* inputs, then outputs */
  int32_t num_borders;
  plan_binding* bindings;
  int32_t num_bindings, cap_bindings;
  struct plan_version* versions; /* tensors that were brought into another layout */
  int32_t num_versions, cap_versions;
  size_t scratch_bytes;
  size_t arena_bytes;
  char* arena;  /* followed by the scratchpad */
  int32_t node; /* being built */
} plan;

/* Errors ---------------------------------------------------------------------------------------- */

/* Sets the error text and marks the node being built; returns -1. */
int plan_fail(plan* p, const char* format, ...);
/* Turns a oneDNN status into 0, DNNL_PLAN_UNSUITABLE (not implemented, invalid arguments) or -1. */
int plan_status(plan* p, dnnl_status_t status, const char* what);

#define PLAN_TRY(call)        \
  do {                        \
    int rc_ = (call);         \
    if (rc_ != 0) return rc_; \
  } while (0)

/* Life ------------------------------------------------------------------------------------------ */

typedef struct {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  bool channels_last; /* prefer channels last to what oneDNN would choose */
  /* Border tensors lie as those of the call that is under way; otherwise channels last. */
  bool from_call;
  int threads; /* for how many primitives are made; 0: oneDNN's own number */
} plan_options;

/* Appends the primitives of all nodes of the region, in order. */
typedef int (*plan_builder)(plan* p);

int plan_create(tvmrt_region* region, const plan_options* options, plan_builder build_nodes,
                plan** out);
void plan_free(plan* p);
int plan_run(plan* p);
/* Whether the tensors of the current call lie in memory as the plan assumes. */
bool plan_fits_call(const plan* p);

/* Places (place.c) ------------------------------------------------------------------------------ */

/* Once all primitives are known: the arena, and their arguments as memory objects. */
int plan_place(plan* p);
/* Where the view begins; border tensors are bound at each run. */
void* plan_address(const plan* p, const view* v);

/* Building -------------------------------------------------------------------------------------- */

/* Make room for one more element. */
int plan_grow(plan* p, void** array, int32_t count, int32_t* capacity, size_t bytes);
/* A new store of the layout's size; in the arena, or owned constant memory. */
int plan_new_view(plan* p, const layout* md, view* out);
int plan_new_constant(plan* p, const layout* md, view* out);
/* Append a primitive; the descriptor is destroyed in any case. */
int plan_add(plan* p, dnnl_primitive_desc_t pd, const plan_arg* args, int num_args);
/* The view of a tensor that is already there. */
int plan_source(plan* p, int32_t tensor, view* out);
void plan_set(plan* p, int32_t tensor, const view* v);
/* Whether nothing that is still to come reads the store. */
bool plan_is_last_use(const plan* p, int32_t store);
/* Say that a primitive computes in place in this store: what it held is gone. */
void plan_overwrite(plan* p, int32_t store);
/* Append the primitive that brings one view into the layout of another. */
int plan_reorder(plan* p, const view* from, const view* to);

/* Layouts --------------------------------------------------------------------------------------- */

dnnl_data_type_t layout_dtype(DLDataType dtype); /* dnnl_data_type_undef if oneDNN has none */
/* Compact row-major; scalars become vectors of one. */
int layout_dense(plan* p, int ndims, const int64_t* dims, dnnl_data_type_t dtype, layout* out);
/* Whatever the primitive likes best, or channels last if that is preferred. */
int layout_free(plan* p, int ndims, const int64_t* dims, dnnl_data_type_t dtype, layout* out);
/* With channels last; UNSUITABLE for a rank that has no name for that. */
int layout_channels_last(plan* p, int ndims, const int64_t* dims, dnnl_data_type_t dtype,
                         layout* out);
/* Whatever the primitive likes best; for up to DNNL_MAX_NDIMS dimensions, and one at least. */
int layout_any(plan* p, int ndims, const int64_t* dims, dnnl_data_type_t dtype, layout* out);
/* What a primitive has chosen: dnnl_query_src_md and the like. */
int layout_chosen(plan* p, const_dnnl_primitive_desc_t pd, dnnl_query_t what, int index,
                  layout* out);
/* The layout in which a border tensor lies. */
int layout_border(plan* p, int32_t tensor, layout* out);
bool layout_is_packed(const layout* md);
bool layout_is_row_major(const layout* md);
/* Whether all blocks are full. */
bool layout_is_whole(const layout* md);

/* The same tensor in another layout or element type; adds a reorder if it has to. */
int layout_convert(plan* p, const view* v, const layout* md, view* out);
/* The same as the primitive wants it. */
int layout_as_chosen(plan* p, const view* v, const_dnnl_primitive_desc_t pd, dnnl_query_t what,
                     int index, view* out);
/* Without gaps in memory. */
int layout_packed(plan* p, const view* v, view* out);
int layout_row_major(plan* p, const view* v, view* out);
int layout_as_dtype(plan* p, const view* v, dnnl_data_type_t dtype, view* out);
int layout_reshape(plan* p, const view* v, int ndims, const int64_t* dims, view* out);
int layout_permute(plan* p, const view* v, const int64_t* perm, view* out);
int layout_slice(plan* p, const view* v, const int64_t* starts, const int64_t* steps,
                 const int64_t* sizes, view* out);

#endif
