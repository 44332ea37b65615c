/* Building and running a plan: stores, primitives, the arena.
 *
 * Primitives are appended in execution order. Everything that the plan acquires is immediately
 * entered in one of its lists and freed by plan_free(), also after a failure. Runs of a region are
 * sequential, so a plan has one arena. */
#include "plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The runtime reports the failed node to the user. Texts are truncated at the buffer's size. */
int plan_fail(plan* p, const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  TVMPackedFuncSetLastError(text);
  p->region->failed_node = p->node;
  return -1;
}

/* Status in words, for plan_status(). */
static const char* status_text(dnnl_status_t status) {
  switch (status) {
    case dnnl_out_of_memory:
      return "out of memory";
    case dnnl_invalid_arguments:
      return "invalid arguments";
    case dnnl_unimplemented:
      return "not implemented";
    default:
      return "a run-time error";
  }
}

/* Unsupported operations may be possible in another form, so builders may retry; out of memory
 * fails the region. The text of the last failure stays. */
int plan_status(plan* p, dnnl_status_t status, const char* what) {
  if (status == dnnl_success) return 0;
  plan_fail(p, "oneDNN returned %s for %s", status_text(status), what);
  return status == dnnl_unimplemented || status == dnnl_invalid_arguments ? PLAN_UNSUITABLE : -1;
}

/* On failure the list is unchanged. Elements move, so callers keep indices instead of addresses. */
int plan_grow(plan* p, void** array, int32_t count, int32_t* capacity, size_t bytes) {
  int32_t larger = *capacity == 0 ? 16 : *capacity * 2;
  void* moved;
  if (count < *capacity) return 0;
  moved = realloc(*array, (size_t)larger * bytes);
  if (moved == NULL) return plan_fail(p, "out of memory");
  *array = moved;
  *capacity = larger;
  return 0;
}

/* Returns an index, since the list moves when it grows. */
static int add_store(plan* p, const plan_store* s, int32_t* out) {
  PLAN_TRY(plan_grow(p, (void**)&p->stores, p->num_stores, &p->cap_stores, sizeof(plan_store)));
  *out = p->num_stores;
  p->stores[p->num_stores++] = *s;
  return 0;
}

/* The lifetime is not known yet: touch() records the first and last primitive. */
int plan_new_view(plan* p, const layout* md, view* out) {
  plan_store s = {.kind = STORE_ARENA, .tensor = -1, .first = -1, .last = -1};
  s.bytes = api_bytes(md);
  out->md = *md;
  return add_store(p, &s, &out->store);
}

/* The allocated size is a multiple of the alignment, for aligned_alloc(), and never 0. The caller
 * fills the memory before its first use. */
int plan_new_constant(plan* p, const layout* md, view* out) {
  plan_store s = {.kind = STORE_CONSTANT, .tensor = -1, .owned = true};
  int rc;
  s.bytes = api_bytes(md);
  s.data = aligned_alloc(PLAN_ALIGN, (s.bytes + PLAN_ALIGN) / PLAN_ALIGN * PLAN_ALIGN);
  if (s.data == NULL) return plan_fail(p, "out of memory for weights of %zu bytes", s.bytes);
  out->md = *md;
  rc = add_store(p, &s, &out->store);
  if (rc != 0) free(s.data);
  return rc;
}

/* Tensors are computed in order, so a tensor without a store was never computed. Omitted inputs
 * have the number -1 and are reported as missing. */
int plan_source(plan* p, int32_t tensor, view* out) {
  if (tensor < 0 || tensor >= p->region->num_tensors) return plan_fail(p, "an input is missing");
  if (p->views[tensor].store < 0) {
    return plan_fail(p, "tensor %s is read before it is computed", p->region->tensors[tensor].name);
  }
  *out = p->views[tensor];
  return 0;
}

/* Primitives ---------------------------------------------------------------------------------- */

/* The step being added has the number num_steps. */
static void extend_lifetime(plan* p, const view* v) {
  plan_store* s = &p->stores[v->store];
  if (s->first < 0) s->first = p->num_steps;
  s->last = p->num_steps;
}

/* The plan provides scratch memory, so that primitives allocate none at run time; its size is the
 * maximum. Memory objects are created by plan_assign_memory(), since stores have no addresses yet. */
static int fill_step(plan* p, plan_step* s, dnnl_primitive_desc_t pd, const plan_arg* args,
                     int num_args) {
  view scratch = {.store = -1};
  size_t bytes;
  int i;
  PLAN_TRY(plan_status(
      p, api_chosen(&p->layouts, pd, dnnl_query_scratchpad_md, &scratch.md, &scratch.md),
      "scratch memory"));
  bytes = api_bytes(&scratch.md);
  if (bytes > p->scratch_bytes) p->scratch_bytes = bytes;
  s->node = p->node;
  s->num_args = num_args + (bytes > 0);
  s->pending = calloc((size_t)s->num_args, sizeof(plan_arg));
  s->args = calloc((size_t)s->num_args, sizeof(dnnl_exec_arg_t));
  if (s->pending == NULL || s->args == NULL) return plan_fail(p, "out of memory");
  PLAN_TRY(plan_status(p, dnnl_primitive_create(&s->primitive, pd), "a primitive"));
  for (i = 0; i < num_args; ++i) {
    s->pending[i] = args[i];
    extend_lifetime(p, &args[i].v);
  }
  if (bytes > 0) s->pending[num_args] = (plan_arg){DNNL_ARG_SCRATCHPAD, scratch};
  return 0;
}

/* Also frees a partly filled step. */
static void free_step(plan_step* s) {
  int i;
  for (i = 0; s->args != NULL && i < s->num_args; ++i) {
    if (s->args[i].memory != NULL) dnnl_memory_destroy(s->args[i].memory);
  }
  if (s->primitive != NULL) dnnl_primitive_destroy(s->primitive);
  free(s->args);
  free(s->pending);
}

/* Takes over pd, also on failure. On failure the step is not added, and the region fails. */
int plan_add(plan* p, dnnl_primitive_desc_t pd, const plan_arg* args, int num_args) {
  plan_step s = {0};
  int rc = plan_grow(p, (void**)&p->steps, p->num_steps, &p->cap_steps, sizeof(plan_step));
  if (rc == 0) rc = fill_step(p, &s, pd, args, num_args);
  dnnl_primitive_desc_destroy(pd);
  if (rc != 0) {
    free_step(&s);
    return -1;
  }
  p->steps[p->num_steps++] = s;
  return 0;
}

/* Boundary tensors ---------------------------------------------------------------------------- */

/* Record the strides that the plan assumes for plan_fits_call(). */
static int record_boundary(plan* p, int32_t tensor) {
  plan_boundary* b = &p->boundaries[p->num_boundaries++];
  layout md;
  b->tensor = tensor;
  return layout_boundary(p, tensor, &md, b->strides);
}

/* Called first: layouts of boundary tensors are needed while nodes are built. */
static int record_boundaries(plan* p) {
  const tvmrt_region* r = p->region;
  size_t count = (size_t)r->num_inputs + (size_t)r->num_outputs;
  int32_t i;
  /* one more, so the size is never 0 */
  p->boundaries = calloc(count + 1, sizeof(plan_boundary));
  if (p->boundaries == NULL) return plan_fail(p, "out of memory");
  for (i = 0; i < r->num_inputs; ++i) PLAN_TRY(record_boundary(p, r->inputs[i]));
  for (i = 0; i < r->num_outputs; ++i) PLAN_TRY(record_boundary(p, r->outputs[i]));
  return 0;
}

/* The store is the caller's memory and needs no arena space. */
static int enter_boundary(plan* p, int32_t tensor, view* out) {
  plan_store s = {.kind = STORE_BOUNDARY, .tensor = tensor, .first = -1, .last = -1};
  PLAN_TRY(layout_boundary(p, tensor, &out->md, NULL));
  s.bytes = api_bytes(&out->md);
  return add_store(p, &s, &out->store);
}

/* The store is the region's memory, which outlives the plan and is not written. */
static int enter_constant(plan* p, int32_t tensor) {
  const tvmrt_region_tensor* t = &p->region->tensors[tensor];
  plan_store s = {.kind = STORE_CONSTANT, .tensor = -1, .data = (void*)t->data};
  view v = {0};
  /* types that oneDNN does not support are never read by it */
  if (layout_dtype(t->dtype) == dnnl_data_type_undef) return 0;
  PLAN_TRY(layout_dense(p, t->ndim, t->shape, layout_dtype(t->dtype), &v.md));
  s.bytes = api_bytes(&v.md);
  PLAN_TRY(add_store(p, &s, &v.store));
  p->views[tensor] = v;
  return 0;
}

/* Inputs after constants: an input that also has a value is the caller's. */
static int enter_tensors(plan* p) {
  const tvmrt_region* r = p->region;
  int32_t i;
  view v;
  for (i = 0; i < r->num_tensors; ++i) {
    if (r->tensors[i].data != NULL) PLAN_TRY(enter_constant(p, i));
  }
  for (i = 0; i < r->num_inputs; ++i) {
    PLAN_TRY(enter_boundary(p, r->inputs[i], &v));
    p->views[r->inputs[i]] = v;
  }
  return 0;
}

/* Whether the store contains only this output, in the caller's layout. A boundary store is another
 * output already, or an input, which must not be written. */
static bool can_write_directly(const plan* p, const view* v, const layout* md) {
  /* lint: plan_source() has filled it */
  const plan_store* s = &p->stores[v->store];
  return s->kind == STORE_ARENA && s->bytes == api_bytes(md) && api_equal(&v->md, md);
}

/* If a tensor is computed in the caller's layout, its store becomes the caller's memory; otherwise
 * it is copied. */
static int leave_output(plan* p, int32_t tensor) {
  layout md;
  view from, to;
  PLAN_TRY(plan_source(p, tensor, &from));
  PLAN_TRY(layout_boundary(p, tensor, &md, NULL));
  if (can_write_directly(p, &from, &md)) {
    /* its primitives need no change: they refer to the store by index */
    p->stores[from.store].kind = STORE_BOUNDARY;
    p->stores[from.store].tensor = tensor;
    return 0;
  }
  PLAN_TRY(enter_boundary(p, tensor, &to));
  return layout_copy(p, &from, &to);
}

/* Lifetime ------------------------------------------------------------------------------------ */

/* p->node is for error texts; errors after the nodes belong to no node. */
static int build(plan* p, plan_builder build_nodes) {
  const tvmrt_region* r = p->region;
  int32_t i;
  for (i = 0; i < r->num_tensors; ++i) p->views[i].store = -1;
  PLAN_TRY(record_boundaries(p));
  PLAN_TRY(enter_tensors(p));
  PLAN_TRY(build_nodes(p));
  p->node = -1;
  for (i = 0; i < r->num_outputs; ++i) PLAN_TRY(leave_output(p, r->outputs[i]));
  return plan_assign_memory(p);
}

/* The error text is per thread; the region's failed_node is the node. On failure *out is NULL and
 * everything is freed. */
int plan_create(tvmrt_region* region, const plan_options* options, plan_builder build_nodes,
                plan** out) {
  plan* p = calloc(1, sizeof(*p));
  *out = NULL;
  if (p == NULL) {
    TVMPackedFuncSetLastError("out of memory");
    return -1;
  }
  p->region = region;
  p->options = *options;
  p->node = -1;
  p->views = calloc((size_t)region->num_tensors + 1, sizeof(view));
  if ((p->views == NULL ? plan_fail(p, "out of memory") : build(p, build_nodes)) != 0) {
    plan_free(p);
    return -1;
  }
  *out = p;
  return 0;
}

/* NULL does nothing. Memory objects are destroyed with the steps, before their memory. */
void plan_free(plan* p) {
  int32_t i;
  if (p == NULL) return;
  for (i = 0; i < p->num_steps; ++i) free_step(&p->steps[i]);
  for (i = 0; i < p->num_stores; ++i) {
    if (p->stores[i].owned) free(p->stores[i].data);
  }
  free(p->steps);
  free(p->stores);
  free(p->boundaries);
  free(p->bindings);
  free(p->versions);
  free(p->views);
  free(p->arena);
  api_pool_free(&p->layouts);
  free(p);
}

/* Running ------------------------------------------------------------------------------------- */

/* Whether a tensor has the assumed strides; strides of extents of 1 are irrelevant. A missing
 * tensor is reported by the run. */
static bool boundary_fits(const plan* p, const plan_boundary* b) {
  const DLTensor* t = p->region->data[b->tensor];
  int64_t dense = 1;
  int i;
  if (t == NULL) return true;
  for (i = t->ndim - 1; i >= 0; --i) {
    int64_t stride = t->strides == NULL ? dense : t->strides[i];
    if (t->shape[i] != 1 && stride != b->strides[i]) return false;
    dense *= t->shape[i];
  }
  return true;
}

/* Called before each run; makes no oneDNN calls. */
bool plan_fits_call(const plan* p) {
  int32_t i;
  for (i = 0; i < p->num_boundaries; ++i) {
    if (!boundary_fits(p, &p->boundaries[i])) return false;
  }
  return true;
}

/* Set only addresses that have changed, since most callers pass the same memory repeatedly. */
static int bind_call(plan* p) {
  int32_t i;
  for (i = 0; i < p->num_bindings; ++i) {
    plan_binding* b = &p->bindings[i];
    char* data = tvmrt_region_data(p->region, b->tensor);
    if (data == b->bound) continue;
    PLAN_TRY(plan_status(p, dnnl_memory_set_data_handle(b->memory, data), "binding memory"));
    b->bound = data;
  }
  return 0;
}

/* Results are complete after waiting for the stream. If a primitive fails, earlier ones have run,
 * so outputs may be partly written. */
int plan_run(plan* p) {
  int32_t i;
  if (bind_call(p) != 0) return -1;
  for (i = 0; i < p->num_steps; ++i) {
    const plan_step* s = &p->steps[i];
    /* queued on the process's stream, which runs on the calling thread */
    dnnl_status_t status =
        dnnl_primitive_execute(s->primitive, p->options.stream, s->num_args, s->args);
    if (status != dnnl_success) {
      p->node = s->node;
      plan_status(p, status, "running a primitive");
      return -1;
    }
  }
  return dnnl_stream_wait(p->options.stream) == dnnl_success
             ? 0
             : plan_fail(p, "oneDNN's stream failed");
}
