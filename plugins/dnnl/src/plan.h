/*
 * A region as a list of oneDNN primitives, which pre_run builds and run executes.
 *
 * A tensor of the region is a *view*: a *store* (a memory block) and its layout there. Blocked
 * layouts are kept between primitives.
 *
 * Functions return 0, or -1 with the error text set, unless stated otherwise.
 */
#ifndef TVMRT_DEVICES_DNNL_PLAN_H_
#define TVMRT_DEVICES_DNNL_PLAN_H_

#include <tvm/runtime/device.h>

#include "api.h"

#define PLAN_ALIGN 64 /* bytes; of every store */

/* Result of a builder: oneDNN does not support this form well, another one may work. */
#define PLAN_UNSUITABLE 1

typedef enum {
  STORE_ARENA,    /* between primitives; shares memory with stores of disjoint lifetimes */
  STORE_BOUNDARY, /* the caller's memory of tensor `tensor`, bound at each run */
  STORE_CONSTANT  /* `data`; freed with the plan if `owned` */
} store_kind;

typedef struct {
  store_kind kind;
  int32_t tensor;
  bool owned;
  void* data;
  size_t bytes;
  size_t offset;       /* in the arena */
  int32_t first, last; /* first and last primitive that uses it */
} plan_store;

typedef struct {
  int32_t store; /* -1: not computed yet; in an argument: the scratch memory */
  layout md;
} view;

/* One argument of a primitive while the plan is built. */
typedef struct {
  int arg; /* DNNL_ARG_... */
  view v;
} plan_arg;

typedef struct {
  dnnl_primitive_t primitive;
  int32_t node; /* of the region, for error texts */
  int num_args;
  dnnl_exec_arg_t* args; /* memory objects, created when all addresses are known */
  plan_arg* pending;     /* the arguments before that */
} plan_step;

/* Strides that the plan assumes for a tensor of the caller. */
typedef struct {
  int32_t tensor;
  dnnl_dims_t strides;
} plan_boundary;

/* A memory object over the caller's memory. */
typedef struct {
  dnnl_memory_t memory;
  int32_t tensor;
  void* bound;
} plan_binding;

/* A converted tensor, for further readers of that layout. */
typedef struct {
  view from, to;
} plan_version;

typedef struct {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  /* Boundary tensors have the strides of the current call; otherwise the compiler's. */
  bool from_call;
  int threads; /* that primitives are created for; 0: oneDNN's own number */
} plan_options;

typedef struct {
  tvmrt_region* region;
  plan_options options;
  api_pool layouts; /* owns the descriptors of all layouts of the plan */
  view* views;      /* per tensor of the region */
  plan_store* stores;
  int32_t num_stores, cap_stores;
  plan_step* steps;
  int32_t num_steps, cap_steps;
  plan_boundary* boundaries; /* inputs, then outputs */
  int32_t num_boundaries;
  plan_binding* bindings;
  int32_t num_bindings, cap_bindings;
  plan_version* versions;
  int32_t num_versions, cap_versions;
  size_t scratch_bytes;
  size_t arena_bytes;
  char* arena;  /* followed by the scratch memory */
  int32_t node; /* being built */
} plan;

/* Sets the error text and marks the node being built; returns -1. */
int plan_fail(plan* p, const char* format, ...);
/* Converts a oneDNN status to 0, PLAN_UNSUITABLE (not implemented, invalid arguments) or -1. */
int plan_status(plan* p, dnnl_status_t status, const char* what);

#define PLAN_TRY(call)        \
  do {                        \
    int rc_ = (call);         \
    if (rc_ != 0) return rc_; \
  } while (0)

/* Lifetime ------------------------------------------------------------------------------------ */

/* Appends the primitives of all nodes of the region, in order. */
typedef int (*plan_builder)(plan* p);

int plan_create(tvmrt_region* region, const plan_options* options, plan_builder build_nodes,
                plan** out);
void plan_free(plan* p);
int plan_run(plan* p);
/* Whether the tensors of the current call have the strides that the plan assumes. */
bool plan_fits_call(const plan* p);

/* Building ------------------------------------------------------------------------------------ */

/* Ensure capacity for one more element. */
int plan_grow(plan* p, void** array, int32_t count, int32_t* capacity, size_t bytes);
/* Make a store of the layout's size, in the arena or as owned constant memory. */
int plan_new_view(plan* p, const layout* md, view* out);
int plan_new_constant(plan* p, const layout* md, view* out);
/* Append a primitive; the descriptor is destroyed in any case. */
int plan_add(plan* p, dnnl_primitive_desc_t pd, const plan_arg* args, int num_args);
/* The view of an existing tensor. */
int plan_source(plan* p, int32_t tensor, view* out);

/* memory_plan.c: once all primitives are known, allocate the arena and create memory objects. */
int plan_assign_memory(plan* p);
/* Start address of the view; boundary tensors are bound at each run. */
void* plan_address(const plan* p, const view* v);

/* Layouts (layout.c) -------------------------------------------------------------------------- */

dnnl_data_type_t layout_dtype(DLDataType dtype); /* dnnl_data_type_undef if oneDNN has none */
/* Compact row-major; scalars become vectors of one element. */
int layout_dense(plan* p, int ndims, const int64_t* dims, dnnl_data_type_t dtype, layout* out);
/* Compact with channels last. */
int layout_channels_last(plan* p, const layout* of, layout* out);
/* Layout chosen by the primitive. */
int layout_any(plan* p, int ndims, const int64_t* dims, dnnl_data_type_t dtype, layout* out);
/* Layout of a boundary tensor; also its strides unless that is NULL. */
int layout_boundary(plan* p, int32_t tensor, layout* out, dnnl_dim_t* strides);

/* The tensor in another layout; adds a reorder if needed. */
int layout_convert(plan* p, const view* v, const layout* md, view* out);
/* Append the reorder of one view into the memory of another. */
int layout_copy(plan* p, const view* from, const view* to);
int layout_row_major(plan* p, const view* v, view* out);
/* The elements with other extents. */
int layout_reshape(plan* p, const view* v, int ndims, const int64_t* dims, view* out);

#endif
