/* oneDNN 3: primitives at once, layouts are opaque, numbers of quantisation are arguments.
 *
 * Descriptors are oneDNN's objects: the pool destroys them, and layouts hold what was queried of
 * them once. */
#include <stdlib.h>

#include "api_kinds.h"

_Static_assert(DNNL_VERSION_MAJOR == 3, "oneDNN 3");

/* Layouts ------------------------------------------------------------------------------------- */

/* With the plan, whose layouts all point in here. */
void api_pool_free(api_pool* pool) {
  int32_t i;
  for (i = 0; i < pool->count; ++i) dnnl_memory_desc_destroy(pool->items[i]);
  free(pool->items);
  *pool = (api_pool){0};
}

typedef struct {
  dnnl_query_t what;
  void* to;
} query_row;

/* Stops at the first question that the descriptor does not answer. */
static dnnl_status_t query_rows(const_dnnl_memory_desc_t md, const query_row* rows, int count) {
  dnnl_status_t status = dnnl_success;
  int i;
  for (i = 0; i < count && status == dnnl_success; ++i) {
    status = dnnl_memory_desc_query(md, rows[i].what, rows[i].to);
  }
  return status;
}

/* What the descriptor holds; the arrays lie in it. Only strides and blocks tell of their order. */
static dnnl_status_t query(const_dnnl_memory_desc_t md, layout* out) {
  dnnl_format_kind_t kind = dnnl_format_kind_undef;
  const query_row rows[] = {{dnnl_query_format_kind, &kind},
                            {dnnl_query_ndims_s32, &out->ndims},
                            {dnnl_query_data_type, &out->data_type},
                            {dnnl_query_dims, (void*)&out->dims}};
  const query_row order[] = {{dnnl_query_padded_dims, (void*)&out->padded_dims},
                             {dnnl_query_strides, (void*)&out->strides},
                             {dnnl_query_inner_nblks_s32, &out->inner_blocks},
                             {dnnl_query_submemory_offset_s64, &out->offset}};
  dnnl_status_t status;
  *out = (layout){.handle = md};
  status = query_rows(md, rows, 4);
  out->any = kind == dnnl_format_kind_any;
  out->blocked = kind == dnnl_blocked;
  return status == dnnl_success && out->blocked ? query_rows(md, order, 4) : status;
}

/* Give the descriptor to the pool, if it was made, and tell what is in it. The descriptor is
 * destroyed where there is no room for it: from the call on it is never the caller's. */
static dnnl_status_t keep(dnnl_status_t status, api_pool* pool, dnnl_memory_desc_t* md,
                          layout* out) {
  if (status != dnnl_success) return status;
  if (pool->count == pool->capacity) {
    int32_t larger = pool->capacity == 0 ? 64 : 2 * pool->capacity;
    void* moved = realloc(pool->items, (size_t)larger * sizeof(pool->items[0]));
    if (moved == NULL) {
      dnnl_memory_desc_destroy(*md);
      return dnnl_out_of_memory;
    }
    pool->items = moved;
    pool->capacity = larger;
  }
  pool->items[pool->count++] = *md;
  return query(*md, out);
}

/* The order by its name, as "channels last"; of a rank that the name does not have it is
 * refused. */
dnnl_status_t api_by_tag(api_pool* pool, int ndims, const dnnl_dim_t* dims, dnnl_data_type_t dtype,
                         dnnl_format_tag_t tag, layout* out) {
  dnnl_memory_desc_t md = NULL;
  return keep(dnnl_memory_desc_create_with_tag(&md, ndims, dims, dtype, tag), pool, &md, out);
}

/* Strides in elements, without blocks. */
dnnl_status_t api_by_strides(api_pool* pool, int ndims, const dnnl_dim_t* dims,
                             dnnl_data_type_t dtype, const dnnl_dim_t* strides, layout* out) {
  dnnl_memory_desc_t md = NULL;
  return keep(dnnl_memory_desc_create_with_strides(&md, ndims, dims, dtype, strides), pool, &md,
              out);
}

/* Without moving elements, or not at all: the caller copies then. */
dnnl_status_t api_reshape(api_pool* pool, const layout* from, int ndims, const dnnl_dim_t* dims,
                          layout* out) {
  dnnl_memory_desc_t md = NULL;
  return keep(dnnl_memory_desc_reshape(&md, api_md(from), ndims, dims), pool, &md, out);
}

/* Axis i of the old layout is axis where[i] of the new one; the memory stays as it is. */
dnnl_status_t api_permute(api_pool* pool, const layout* from, const int* where, layout* out) {
  dnnl_memory_desc_t md = NULL;
  return keep(dnnl_memory_desc_permute_axes(&md, api_md(from), where), pool, &md, out);
}

/* Only whole blocks are a part of the same memory. */
dnnl_status_t api_part(api_pool* pool, const layout* from, const dnnl_dim_t* sizes,
                       const dnnl_dim_t* starts, layout* out) {
  dnnl_memory_desc_t md = NULL;
  return keep(dnnl_memory_desc_create_submemory(&md, api_md(from), sizes, starts), pool, &md, out);
}

/* Blocks of channels, whose number of elements the version tells, but takes only as a tag.
 * unimplemented for other blocks: the caller copies to another order then. */
static dnnl_status_t retype_blocks(api_pool* pool, const layout* from, dnnl_data_type_t dtype,
                                   layout* out) {
  static const dnnl_format_tag_t tags[][4] = {
      {dnnl_aBc4b, dnnl_aBc8b, dnnl_aBc16b, dnnl_aBc32b},
      {dnnl_aBcd4b, dnnl_aBcd8b, dnnl_aBcd16b, dnnl_aBcd32b},
      {dnnl_aBcde4b, dnnl_aBcde8b, dnnl_aBcde16b, dnnl_aBcde32b}};
  /* a row of names for one, two and three spatial axes */
  int rank = from->ndims - 3, i;
  for (i = 0; rank >= 0 && rank < 3 && i < 4; ++i) {
    layout like;
    dnnl_status_t status =
        api_by_tag(pool, from->ndims, from->dims, from->data_type, tags[rank][i], &like);
    if (status != dnnl_success) return status;
    if (api_equal(&like, from)) {
      return api_by_tag(pool, from->ndims, from->dims, dtype, tags[rank][i], out);
    }
  }
  return dnnl_unimplemented;
}

/* A descriptor cannot be changed, so one is made that has the same order. Of a layout that is a
 * part of another the offset could not be kept. */
dnnl_status_t api_retype(api_pool* pool, const layout* from, dnnl_data_type_t dtype, layout* out) {
  if (from->any) {
    return api_by_tag(pool, from->ndims, from->dims, dtype, dnnl_format_tag_any, out);
  }
  if (!from->blocked || from->offset != 0) return dnnl_unimplemented;
  /* strides alone do not tell of blocks */
  if (from->inner_blocks > 0) return retype_blocks(pool, from, dtype, out);
  return api_by_strides(pool, from->ndims, from->dims, dtype, from->strides, out);
}

/* A copy, as the descriptor goes with the primitive's. */
dnnl_status_t api_chosen(api_pool* pool, const_dnnl_primitive_desc_t pd, dnnl_query_t what,
                         int index, layout* out) {
  const_dnnl_memory_desc_t md = dnnl_primitive_desc_query_md(pd, what, index);
  dnnl_memory_desc_t copy = NULL;
  /* the primitive has no such argument */
  if (md == NULL) return dnnl_invalid_arguments;
  return keep(dnnl_memory_desc_clone(&copy, md), pool, &copy, out);
}

/* Operations ---------------------------------------------------------------------------------- */

#define IN_3(...) , __VA_ARGS__

/* *out is the caller's. Version 3 has no description in between. */
dnnl_status_t api_primitive(const api_op* op, dnnl_engine_t engine,
                            const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t* out) {
#define CREATE(kind, function_2, function, ...) \
  case kind:                                    \
    return dnnl_##function##_primitive_desc_create(out, engine, __VA_ARGS__, attr);
  switch (op->kind) {
    API_KINDS(CREATE)
    default:
      return dnnl_invalid_arguments;
  }
}

/* The layout of the result, NULL, is the primitive's to choose. */
dnnl_status_t api_concat(int count, const layout* parts, int axis, dnnl_engine_t engine,
                         const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t* out) {
  const_dnnl_memory_desc_t* mds = calloc((size_t)count, sizeof(*mds));
  dnnl_status_t status;
  int i;
  if (mds == NULL) return dnnl_out_of_memory;
  /* pointers here, where version 2 wants the structs themselves */
  for (i = 0; i < count; ++i) mds[i] = api_md(&parts[i]);
  status = dnnl_concat_primitive_desc_create(out, engine, NULL, count, axis, mds, attr);
  free(mds);
  return status;
}

/* Attributes ---------------------------------------------------------------------------------- */

/* Unlike version 2 it has no factor for the result. */
dnnl_status_t api_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float alpha,
                                 float beta) {
  return dnnl_post_ops_append_eltwise(ops, alg, alpha, beta);
}

/* Times 1, around 0, in the result's own type. */
dnnl_status_t api_append_sum(dnnl_post_ops_t ops) {
  return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}

/* The version's own scales leave out the bias, which would have to be scaled and rounded before. */
dnnl_status_t api_set_scales(dnnl_primitive_attr_t attr, int64_t count, int mask,
                             const float* scales) {
  (void)attr;
  (void)count;
  (void)mask;
  (void)scales;
  return dnnl_unimplemented;
}

/* The number comes as an argument of the primitive, which tells its place. */
dnnl_status_t api_set_zero_point(dnnl_primitive_attr_t attr, int arg, int32_t zero,
                                 bool* is_operand) {
  (void)zero;
  *is_operand = true;
  /* 0: one number for the whole tensor */
  return dnnl_primitive_attr_set_zero_points_mask(attr, arg, 0);
}
