/* Memory that is planned at the start of each run, for the sizes of that run, see
 * tvm/runtime/run_plan.h.
 *
 * The placements of the last few sizes are kept: a run of the sizes before it does nothing but
 * compare them, and a run of other sizes of these only changes the pointers in the workspace. A
 * placement is complete, and all memory allocated, before an output changes. The workspace has no
 * contents between runs, so the old one is freed first: two of them may not fit into memory.
 *
 * Sizes that a run finds, such as the number of elements that a condition selects, are placed in
 * phases: main calls `place` each time that it has found some. The buffers of such a phase lie in
 * memory of its own, because the workspace has contents by then; it is kept for the next run. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "aot.h"
#include "run_plan.h"

enum { KEPT_PLACEMENTS = 4, ALIGN_BYTES = 64 };

static const double MAX_ESTIMATE = 4611686018427387904.0; /* 2^62 */

/* What a run of some sizes needs, or a phase of it. */
typedef struct placement {
  uint64_t used; /* number of the run that used it last; 0: it has no values */
  int32_t* sizes;
  int64_t* offsets; /* of all buffers */
  int64_t* extents; /* of all outputs */
  int64_t bytes;    /* of the phase's memory */
  uint64_t total;   /* bytes of all tensors up to the phase */
} placement;

/* The first phase's buffers lie in the workspace, after the pointers. */
typedef struct phase {
  tvmrt_buffers buffers;
  tvmrt_tensor* memory; /* of the others */
} phase;

typedef struct tvmrt_run_memory {
  const tvmrt_run_plan* plan; /* owned by the library */
  tvmrt_aot_executor* executor;
  tvmrt_run_link link;
  phase* phases;
  placement kept[KEPT_PLACEMENTS + 1]; /* the last one is that of a phase with found sizes */
  const placement* current;            /* the workspace has its pointers; NULL: none */
  uint64_t num_runs;
  int64_t pointers_bytes; /* at the beginning of the workspace */
  /* Of the run that is being planned. */
  uint64_t total; /* bytes of inputs, and of all tensors of the phases so far */
  int32_t* sizes;
  double* estimates;
  int64_t* counts;
  tvmrt_tensor** new_outputs; /* NULL: the output keeps its memory */
  uint64_t* words;            /* the memory of all these arrays */
} tvmrt_run_memory;

void tvmrt__run_memory_free(tvmrt_run_memory* m) {
  int32_t i;
  if (m == NULL) return;
  for (i = 0; m->phases != NULL && i < m->plan->num_phases; ++i) {
    tvmrt__buffers_free(&m->phases[i].buffers);
    tvmrt__tensor_release(m->phases[i].memory);
  }
  free(m->phases);
  free(m->words);
  free(m);
}

static int64_t align(int64_t bytes) { return (bytes + ALIGN_BYTES - 1) & -ALIGN_BYTES; }

/* The number of the first buffer of a phase. */
static int32_t first_of(const tvmrt_run_memory* m, int32_t number) {
  return number == 0 ? 0 : m->plan->phase_ends[number - 1];
}

/* ---- creation ---- */

/* Whether the plan is one of this version, and of this network. */
static bool is_valid(const tvmrt_run_plan* p, const tvmrt_dims* dims, const TVMMetadata* m) {
  int64_t num_extents = 0;
  int64_t i;
  for (i = 0; i < m->num_outputs; ++i) num_extents += m->outputs[i].num_shape;
  return p->struct_bytes >= sizeof(*p) && dims != NULL && p->num_sizes == dims->num_dims &&
         p->num_extents == num_extents && m->num_workspace_pools == 1 && p->num_phases >= 1;
}

static void* take(uint64_t** words, size_t count) {
  void* taken = *words;
  *words += count;
  return taken;
}

/* One block, in words of 8 bytes, so that a run allocates only what grows. */
static int make_arrays(tvmrt_run_memory* m, size_t num_outputs) {
  const size_t num_sizes = (size_t)m->plan->num_sizes;
  const size_t num_found = (size_t)m->plan->num_found;
  const size_t num_buffers = (size_t)m->plan->num_buffers;
  const size_t num_extents = (size_t)m->plan->num_extents;
  const size_t num_counts = (size_t)m->plan->num_tensors + num_extents;
  uint64_t* words = tvmrt__calloc((KEPT_PLACEMENTS + 1) * (num_sizes + num_buffers + num_extents) +
                                      num_sizes + num_found + 2 * num_counts + num_outputs,
                                  sizeof(*words));
  size_t i;
  if (words == NULL) return -1;
  m->words = words;
  for (i = 0; i <= KEPT_PLACEMENTS; ++i) {
    m->kept[i].sizes = take(&words, num_sizes);
    m->kept[i].offsets = take(&words, num_buffers);
    m->kept[i].extents = take(&words, num_extents);
  }
  m->sizes = take(&words, num_sizes + num_found);
  m->estimates = take(&words, num_counts);
  m->counts = take(&words, num_counts);
  m->new_outputs = take(&words, num_outputs);
  return 0;
}

static int32_t place_found(tvmrt_run_link* link, int32_t number, const int32_t* found);

static int init_phases(tvmrt_run_memory* m) {
  const tvmrt_run_plan* plan = m->plan;
  int32_t i;
  m->phases = tvmrt__calloc((size_t)plan->num_phases, sizeof(*m->phases));
  if (m->phases == NULL) return -1;
  for (i = 0; i < plan->num_phases; ++i) {
    const int32_t first = first_of(m, i);
    TVMRT_RETURN_IF_ERROR(tvmrt__buffers_init(&m->phases[i].buffers, plan->buffers + first,
                                              plan->phase_ends[i] - first));
  }
  return 0;
}

int tvmrt__aot_read_plan(tvmrt_aot_executor* e) {
  const TVMMetadata* metadata = e->metadata;
  tvmrt_module* library = e->base.module.library;
  tvmrt_run_memory* m;
  void* plan;
  void* dims;
  TVMRT_RETURN_IF_ERROR(tvmrt__network_pointer(library, metadata->mod_name, "get_run_plan", &plan));
  if (plan == NULL) return 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__network_pointer(library, metadata->mod_name, "get_dims", &dims));
  if (e->base.has_state || !is_valid(plan, dims, metadata)) {
    return tvmrt__fail_value(
        "the library's plan of memory does not match network '%.80s'%s; compile it again.",
        metadata->mod_name, e->base.has_state ? ", which keeps state between runs" : "");
  }
  e->base.dims = dims;
  e->memory = m = tvmrt__calloc(1, sizeof(*m));
  if (m == NULL) return -1;
  m->plan = plan;
  m->executor = e;
  m->link.place = place_found;
  m->pointers_bytes = align((m->plan->num_buffers + 2) * (int64_t)sizeof(void*));
  TVMRT_RETURN_IF_ERROR(make_arrays(m, (size_t)metadata->num_outputs));
  return init_phases(m);
}

/* ---- errors ---- */

/* Always -1: a run of these sizes needs a tensor of `elements`, or `bytes`, if that is not 0. */
static int fail_sizes(const tvmrt_aot_executor* e, double elements, uint64_t bytes) {
  const tvmrt_run_plan* plan = e->memory->plan;
  tvmrt_buf text = {NULL, 0, 0};
  int rc = tvmrt__buf_puts(&text, plan->num_sizes > 0 ? "a run at" : "a run");
  int32_t i;
  for (i = 0; rc == 0 && i < plan->num_sizes; ++i) {
    rc = tvmrt__buf_printf(&text, "%s %.80s = %d", i == 0 ? "" : ",", e->base.dims->dims[i].name,
                           (int)e->memory->sizes[i]);
  }
  if (rc == 0 && bytes == 0) {
    (void)tvmrt__fail_value(
        "%s needs a tensor of %.3g elements, and the maximum is 2147483647; use smaller inputs.",
        text.data, elements);
  } else if (rc == 0) {
    (void)tvmrt__fail_value("%s needs %" PRIu64 " bytes for tensors, and the limit is %" PRId64
                            " (max_memory); use smaller inputs, or raise the limit.",
                            text.data, bytes, plan->max_bytes);
  }
  tvmrt__buf_free(&text);
  return -1;
}

/* ---- planning ---- */

static int check_counts(const tvmrt_aot_executor* e, int32_t first, int32_t end, double minimum,
                        double maximum) {
  int32_t i;
  for (i = first; i < end; ++i) {
    const double count = e->memory->estimates[i];
    /* also for a NaN; a run may find negative sizes */
    if (!(count >= minimum && count <= maximum)) return fail_sizes(e, count, 0);
  }
  return 0;
}

/* Counts of a phase, and those that only phase 0 checks, must not be negative. Those of later phases
 * are computed from found sizes of 0 until then, and are not used. */
static int check_phase(const tvmrt_aot_executor* e, int32_t number) {
  const tvmrt_run_plan* plan = e->memory->plan;
  int32_t first = number == 0 ? plan->num_buffers : plan->num_tensors;
  int32_t end = plan->num_tensors;
  size_t i;
  TVMRT_RETURN_IF_ERROR(
      check_counts(e, first_of(e->memory, number), plan->phase_ends[number], 0, INT32_MAX));
  TVMRT_RETURN_IF_ERROR(check_counts(e, first, end, 0, INT32_MAX));
  for (i = 0; i < e->base.outputs.count; ++i) {
    first = end;
    end += e->base.outputs.items[i].bound->dl.ndim;
    if (plan->output_phases[i] == number)
      TVMRT_RETURN_IF_ERROR(check_counts(e, first, end, 0, INT32_MAX));
  }
  return 0;
}

/* Exact counts may only be computed if they do not overflow, which the estimates show. An estimate
 * is not rounded as the exact value is, so that it may be below 0, or far above, where that is 0. */
static int count(const tvmrt_aot_executor* e, int32_t number) {
  tvmrt_run_memory* m = e->memory;
  const int32_t num_counts = m->plan->num_tensors + m->plan->num_extents;
  int32_t i;
  m->plan->estimate(m->sizes, m->estimates);
  TVMRT_RETURN_IF_ERROR(check_counts(e, 0, num_counts, -MAX_ESTIMATE, MAX_ESTIMATE));
  m->plan->count(m->sizes, m->counts);
  for (i = 0; i < num_counts; ++i) m->estimates[i] = (double)m->counts[i];
  return check_phase(e, number);
}

static bool uses_own(const tvmrt_port* port) { return port->grows && port->bound == port->own; }

/* ---- outputs ---- */

typedef enum action { MEASURE, ALLOCATE, USE, DISCARD } action;

/* Use new memory, if there is any. An output in a caller's memory has the extents of that, and main
 * refuses it if it is too small. */
static void use_output(tvmrt_aot_executor* e, size_t i, const int64_t* shape) {
  tvmrt_port* port = &e->base.outputs.items[i];
  tvmrt_tensor* made = e->memory->new_outputs[i];
  if (made != NULL) {
    if (port->is_taken) {
      tvmrt__port_exchange_own(port, made);
    } else {
      tvmrt__port_replace_own(port, made);
    }
    tvmrt__aot_set_arg(e, e->base.inputs.count + i, made);
  }
  tvmrt__port_resize(port, uses_own(port) ? shape : port->capacity);
}

/* Add the bytes of an output to the total, or allocate memory if its own is unsuitable or held by a
 * caller; it keeps that until all is allocated. */
static int prepare_output(tvmrt_aot_executor* e, size_t i, const int64_t* shape, action what) {
  tvmrt_port* port = &e->base.outputs.items[i];
  const DLTensor* t = &port->bound->dl;
  uint64_t bytes;
  bool is_held;
  TVMRT_RETURN_IF_ERROR(tvmrt__shape_bytes(shape, t->ndim, t->dtype, &bytes));
  if (what == MEASURE) {
    e->memory->total += bytes;
    return 0;
  }
  is_held = tvmrt__port_is_held(port);
  if (!is_held && !(uses_own(port) && tvmrt__is_unsuitable(port->own_bytes, bytes))) return 0;
  e->memory->new_outputs[i] =
      is_held ? tvmrt__port_other_own(port, shape)
              : tvmrt__tensor_alloc_workspace(shape, t->ndim, t->dtype, t->device);
  return e->memory->new_outputs[i] == NULL ? -1 : 0;
}

/* Do this for each output whose extents are known in a phase. */
static int each_output(tvmrt_aot_executor* e, const int64_t* extents, int32_t number, action what) {
  tvmrt_run_memory* m = e->memory;
  size_t i;
  for (i = 0; i < e->base.outputs.count; extents += e->base.outputs.items[i++].bound->dl.ndim) {
    if (m->plan->output_phases[i] != number) continue;
    if (what == MEASURE || what == ALLOCATE) {
      TVMRT_RETURN_IF_ERROR(prepare_output(e, i, extents, what));
      continue;
    }
    if (what == USE) {
      use_output(e, i, extents);
    } else {
      tvmrt__tensor_release(m->new_outputs[i]);
    }
    m->new_outputs[i] = NULL;
  }
  return 0;
}

/* ---- placements ---- */

/* Let `total` be the bytes of the inputs. */
static int measure_inputs(tvmrt_aot_executor* e) {
  size_t i;
  e->memory->total = 0;
  for (i = 0; i < e->base.inputs.count; ++i) {
    uint64_t bytes;
    TVMRT_RETURN_IF_ERROR(tvmrt__tensor_bytes(&e->base.inputs.items[i].bound->dl, &bytes));
    e->memory->total += bytes;
  }
  return 0;
}

/* Place the buffers of a phase, whose counts are known. Buffers have less than 2^34 bytes each, so
 * that no sum overflows. */
static int place(tvmrt_aot_executor* e, int32_t number, placement* p) {
  tvmrt_run_memory* m = e->memory;
  const tvmrt_run_plan* plan = m->plan;
  const int32_t first = first_of(m, number);
  int32_t i;
  memcpy(p->extents, m->counts + plan->num_tensors,
         (size_t)plan->num_extents * sizeof(*p->extents));
  TVMRT_RETURN_IF_ERROR(each_output(e, p->extents, number, MEASURE));
  for (i = first; i < plan->phase_ends[number]; ++i) {
    m->counts[i] = align((m->counts[i] * plan->buffers[i].bits + 7) >> 3);
  }
  p->bytes =
      tvmrt__buffers_place(&m->phases[number].buffers, m->counts + first, p->offsets + first);
  if (number == 0) p->bytes += m->pointers_bytes;
  m->total += (uint64_t)p->bytes;
  p->total = m->total;
  if (plan->max_bytes == 0 || m->total <= (uint64_t)plan->max_bytes) return 0;
  return fail_sizes(e, 0, m->total);
}

/* On failure the placement has no values. */
static int plan_sizes(tvmrt_aot_executor* e, placement* p) {
  tvmrt_run_memory* m = e->memory;
  const tvmrt_run_plan* plan = m->plan;
  memset(m->sizes + plan->num_sizes, 0, (size_t)plan->num_found * sizeof(*m->sizes));
  TVMRT_RETURN_IF_ERROR(count(e, 0));
  p->used = 0;
  m->current = NULL; /* it may be this one, if later runs have failed */
  TVMRT_RETURN_IF_ERROR(measure_inputs(e));
  TVMRT_RETURN_IF_ERROR(place(e, 0, p));
  memcpy(p->sizes, m->sizes, (size_t)plan->num_sizes * sizeof(*p->sizes));
  p->used = 1;
  return 0;
}

/* The placement of these sizes; one that is new replaces the one that was not used for longest. */
static int find_placement(tvmrt_aot_executor* e, placement** out) {
  tvmrt_run_memory* m = e->memory;
  const size_t bytes = (size_t)m->plan->num_sizes * sizeof(*m->sizes);
  placement* p;
  *out = m->kept;
  for (p = m->kept; p < m->kept + KEPT_PLACEMENTS; ++p) {
    if (p->used != 0 && memcmp(p->sizes, m->sizes, bytes) == 0) {
      *out = p;
      return 0;
    }
    if (p->used < (*out)->used) *out = p;
  }
  return plan_sizes(e, *out);
}

/* ---- memory ---- */

/* Memory for a phase; pools[1] is the workspace. Buffers without bytes have addresses, too. */
static int provide_memory(tvmrt_aot_executor* e, tvmrt_tensor** pool, int64_t bytes) {
  const DLDataType byte_type = {kDLUInt, 8, 1};
  const DLDevice cpu = {kDLCPU, 0};
  const int64_t extent = bytes == 0 ? ALIGN_BYTES : bytes;
  if (*pool != NULL && !tvmrt__is_unsuitable((uint64_t)(*pool)->dl.shape[0], (uint64_t)extent)) {
    return 0;
  }
  tvmrt__tensor_release(*pool);
  *pool = tvmrt__tensor_alloc_workspace(&extent, 1, byte_type, cpu);
  if (*pool == NULL) return -1;
  if (pool == &e->pools[1]) {
    tvmrt__aot_set_arg(e, e->base.inputs.count + e->base.outputs.count + 1, *pool);
  }
  return 0;
}

/* Main reads the addresses of the plan and of the buffers from the workspace. */
static void write_pointers(const tvmrt_run_memory* m, int32_t number, const placement* p,
                           char* memory) {
  const void** pointers = m->executor->pools[1]->dl.data;
  int32_t i;
  if (number == 0) {
    pointers[0] = m->plan;
    pointers[1 + m->plan->num_buffers] = &m->link;
    memory += m->pointers_bytes;
  }
  for (i = first_of(m, number); i < m->plan->phase_ends[number]; ++i) {
    pointers[1 + i] = memory + p->offsets[i];
  }
}

static int provide_buffers(tvmrt_aot_executor* e, int32_t number, const placement* p) {
  tvmrt_run_memory* m = e->memory;
  tvmrt_tensor** pool = number == 0 ? &e->pools[1] : &m->phases[number].memory;
  if (p == m->current) return 0;
  if (number == 0) m->current = NULL;
  TVMRT_RETURN_IF_ERROR(provide_memory(e, pool, p->bytes));
  write_pointers(m, number, p, (*pool)->dl.data);
  if (number == 0) m->current = p;
  return 0;
}

/* Provide memory and outputs of a phase. On failure its outputs are unchanged. */
static int provide(tvmrt_aot_executor* e, int32_t number, const placement* p) {
  int rc = each_output(e, p->extents, number, ALLOCATE);
  if (rc == 0) rc = provide_buffers(e, number, p);
  (void)each_output(e, p->extents, number, rc == 0 ? USE : DISCARD);
  e->memory->total = p->total;
  return rc;
}

int tvmrt__aot_plan_run(tvmrt_aot_executor* e) {
  tvmrt_run_memory* m = e->memory;
  placement* p;
  TVMRT_RETURN_IF_ERROR(m->plan->read_sizes(e->args, m->sizes));
  TVMRT_RETURN_IF_ERROR(find_placement(e, &p));
  TVMRT_RETURN_IF_ERROR(provide(e, 0, p));
  p->used = ++m->num_runs;
  return 0;
}

/* Main calls it. */
static int32_t place_found(tvmrt_run_link* link, int32_t number, const int32_t* found) {
  tvmrt_run_memory* m = (tvmrt_run_memory*)(void*)((char*)link - offsetof(tvmrt_run_memory, link));
  tvmrt_aot_executor* e = m->executor;
  placement* p = &m->kept[KEPT_PLACEMENTS];
  link->outputs = e->args + e->base.inputs.count;
  memcpy(m->sizes + m->plan->num_sizes, found, (size_t)m->plan->num_found * sizeof(*found));
  TVMRT_RETURN_IF_ERROR(count(e, number));
  TVMRT_RETURN_IF_ERROR(place(e, number, p));
  return provide(e, number, p);
}
