/* Memory of a plan's stores, and memory objects of its primitives.
 *
 * This is the last step of building a plan: the primitives that use each store are known, so stores
 * of the arena with disjoint lifetimes share memory. Afterwards every primitive has its memory
 * objects; only boundary tensors get another address with a call. */
#include <stdlib.h>
#include <string.h>

#include "plan.h"

/* Both ends are inclusive: a primitive must not write where it reads. */
static bool overlap_in_time(const plan_store* a, const plan_store* b) {
  return a->first <= b->last && b->first <= a->last;
}

/* The lowest offset without a conflict with a simultaneously live store. Earlier stores have their
 * offsets already. Stores are placed in order of creation, which is nearly the order of their
 * lifetimes. */
static size_t lowest_offset(const plan* p, int32_t index) {
  const plan_store* s = &p->stores[index];
  size_t offset = 0;
  bool moved = true;
  int32_t i;
  while (moved) {
    moved = false;
    for (i = 0; i < index; ++i) {
      const plan_store* o = &p->stores[i];
      /* unused stores need no memory */
      if (o->kind != STORE_ARENA || o->first < 0 || !overlap_in_time(s, o)) continue;
      if (offset < o->offset + o->bytes && o->offset < offset + s->bytes) {
        offset = (o->offset + o->bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
        moved = true;
      }
    }
  }
  return offset;
}

/* Scratch memory follows the arena and is shared by all primitives, since one runs at a time. It is
 * zeroed, since the padding of blocks is read. */
static int assign_offsets(plan* p) {
  size_t bytes;
  int32_t i;
  for (i = 0; i < p->num_stores; ++i) {
    plan_store* s = &p->stores[i];
    if (s->kind != STORE_ARENA || s->first < 0) continue;
    s->offset = lowest_offset(p, i);
    if (s->offset + s->bytes > p->arena_bytes) p->arena_bytes = s->offset + s->bytes;
  }
  p->arena_bytes = (p->arena_bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
  bytes = (p->arena_bytes + p->scratch_bytes + PLAN_ALIGN) / PLAN_ALIGN * PLAN_ALIGN;
  /* at least one byte more than both, so the size is never 0 */
  p->arena = aligned_alloc(PLAN_ALIGN, bytes);
  if (p->arena == NULL) return plan_fail(p, "out of memory for an arena of %zu bytes", bytes);
  memset(p->arena, 0, bytes);
  return 0;
}

/* Store -1 is the scratch memory. Boundary tensors have no address before a run. */
void* plan_address(const plan* p, const view* v) {
  const plan_store* s;
  if (v->store < 0) return p->arena + p->arena_bytes;
  s = &p->stores[v->store];
  switch (s->kind) {
    case STORE_ARENA:
      return p->arena + s->offset;
    case STORE_CONSTANT:
      return s->data;
    default:
      return DNNL_MEMORY_NONE;
  }
}

/* The step owns the memory object and frees it. Boundary tensors are recorded, so that each call
 * can set their address. */
static int bind_arg(plan* p, const view* v, dnnl_memory_t* out) {
  plan_binding b = {0};
  PLAN_TRY(plan_status(p, dnnl_memory_create(out, v->md.md, p->options.engine, plan_address(p, v)),
                       "memory"));
  if (v->store < 0 || p->stores[v->store].kind != STORE_BOUNDARY) return 0;
  PLAN_TRY(plan_grow(p, (void**)&p->bindings, p->num_bindings, &p->cap_bindings, sizeof(b)));
  b.memory = *out;
  b.tensor = p->stores[v->store].tensor;
  p->bindings[p->num_bindings++] = b;
  return 0;
}

/* The pending arguments are freed: running needs only the memory objects. */
static int bind_steps(plan* p) {
  int32_t i;
  int a;
  for (i = 0; i < p->num_steps; ++i) {
    plan_step* s = &p->steps[i];
    p->node = s->node;
    for (a = 0; a < s->num_args; ++a) {
      s->args[a].arg = s->pending[a].arg;
      PLAN_TRY(bind_arg(p, &s->pending[a].v, &s->args[a].memory));
    }
    free(s->pending);
    s->pending = NULL;
  }
  return 0;
}

/* No primitive may be added afterwards. */
int plan_assign_memory(plan* p) {
  PLAN_TRY(assign_offsets(p));
  return bind_steps(p);
}
