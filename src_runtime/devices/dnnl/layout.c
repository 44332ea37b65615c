/* Layouts of tensors: which view of a store stands for a reshape, a transpose, a slice.
 *
 * Functions give another view of the same store where oneDNN can express it, and otherwise append a
 * conversion. What they make is valid as long as the plan. */
#include <string.h>

#include "plan.h"

/* Truth values are bytes. undef for what oneDNN has no elements of. */
dnnl_data_type_t layout_dtype(DLDataType dtype) {
  if (dtype.lanes != 1) return dnnl_data_type_undef;
  switch (dtype.code * 256 + dtype.bits) {
    case kDLFloat * 256 + 32:
      return dnnl_f32;
    case kDLBfloat * 256 + 16:
      return dnnl_bf16;
    case kDLInt * 256 + 32:
      return dnnl_s32;
    case kDLInt * 256 + 8:
      return dnnl_s8;
    case kDLUInt * 256 + 8:
    case kDLUInt * 256 + 1:
      return dnnl_u8;
    default:
      return dnnl_data_type_undef;
  }
}

/* Scalars are vectors of one to oneDNN. More dimensions than oneDNN has are an error here, in
 * front of every array of that size. */
static int copy_dims(plan* p, int* ndims, const int64_t* dims, dnnl_dims_t out) {
  int i;
  if (*ndims > DNNL_MAX_NDIMS) return plan_fail(p, "tensors of rank %d are too large", *ndims);
  for (i = 0; i < *ndims; ++i) out[i] = dims[i];
  if (*ndims == 0) out[(*ndims)++] = 1;
  return 0;
}

/* What oneDNN makes of it belongs to the plan's pool. */
static int by_tag(plan* p, int ndims, const dnnl_dims_t dims, dnnl_data_type_t dtype,
                  dnnl_format_tag_t tag, layout* out) {
  return plan_status(p, api_by_tag(&p->layouts, ndims, dims, dtype, tag, out), "a layout");
}

static int by_strides(plan* p, int ndims, const dnnl_dims_t dims, dnnl_data_type_t dtype,
                      const dnnl_dims_t strides, layout* out) {
  return plan_status(p, api_by_strides(&p->layouts, ndims, dims, dtype, strides, out), "a layout");
}

/* The primitive chooses; layout_chosen() tells what it took. */
int layout_any(plan* p, int ndims, const int64_t* dims, dnnl_data_type_t dtype, layout* out) {
  return by_tag(p, ndims, dims, dtype, dnnl_format_tag_any, out);
}

/* `index` tells several of a kind apart: the weights of a cell. */
int layout_chosen(plan* p, const_dnnl_primitive_desc_t pd, dnnl_query_t what, int index,
                  layout* out) {
  return plan_status(p, api_chosen(&p->layouts, pd, what, index, out), "a layout");
}

/* Row-major, whatever the user prefers between primitives. */
int layout_dense(plan* p, int ndims, const int64_t* dims, dnnl_data_type_t dtype, layout* out) {
  dnnl_dims_t copy, strides;
  int i;
  PLAN_TRY(copy_dims(p, &ndims, dims, copy));
  strides[ndims - 1] = 1;
  for (i = ndims - 2; i >= 0; --i) strides[i] = strides[i + 1] * copy[i + 1];
  return by_strides(p, ndims, copy, dtype, strides, out);
}

/* The view as the primitive wants this operand, converted if need be. Constants are converted
 * once, when the plan is made. */
int layout_as_chosen(plan* p, const view* v, const_dnnl_primitive_desc_t pd, dnnl_query_t what,
                     int index, view* out) {
  layout md;
  PLAN_TRY(layout_chosen(p, pd, what, index, &md));
  return layout_convert(p, v, &md, out);
}

/* Named by their ranks: one, two or three spatial axes. */
static dnnl_format_tag_t channels_last_tag(int ndims) {
  switch (ndims) {
    case 3:
      return dnnl_nwc;
    case 4:
      return dnnl_nhwc;
    case 5:
      return dnnl_ndhwc;
    default:
      return dnnl_format_tag_undef;
  }
}

/* UNSUITABLE for what is no image. */
int layout_channels_last(plan* p, int ndims, const int64_t* dims, dnnl_data_type_t dtype,
                         layout* out) {
  dnnl_format_tag_t tag = channels_last_tag(ndims);
  /* without a text: the caller has another way */
  if (tag == dnnl_format_tag_undef) return DNNL_PLAN_UNSUITABLE;
  return by_tag(p, ndims, dims, dtype, tag, out);
}

/* The primitive chooses, unless the user wants channels last. */
int layout_free(plan* p, int ndims, const int64_t* dims, dnnl_data_type_t dtype, layout* out) {
  dnnl_dims_t copy;
  dnnl_format_tag_t tag = dnnl_format_tag_any;
  PLAN_TRY(copy_dims(p, &ndims, dims, copy));
  if (p->channels_last && channels_last_tag(ndims) != dnnl_format_tag_undef) {
    tag = channels_last_tag(ndims);
  }
  return by_tag(p, ndims, copy, dtype, tag, out);
}

/* Strides of a compact tensor: axis 1 fastest, then from the last axis to axis 2, then axis 0.
 * Only for ranks of three and more. */
static void channels_last_strides(int ndims, const dnnl_dims_t dims, dnnl_dims_t out) {
  dnnl_dim_t stride = dims[1];
  int i;
  out[1] = 1;
  for (i = ndims - 1; i >= 2; --i) {
    out[i] = stride;
    stride *= dims[i];
  }
  out[0] = stride;
}

/* Whether the compiler has promised row-major tensors for this region. Told by the first node, as
 * regions have no attributes of their own. */
static bool has_dense_borders(const tvmrt_region* r) {
  return r->num_nodes > 0 && strcmp(tvmrt_node_text(&r->nodes[0], "borders", ""), "dense") == 0;
}

/* Of the call's tensor where one is there, else as the runtime most likely passes it. Channels
 * last is what the compiler's own layers hand to this device; where a call brings other strides,
 * the plan is made once more for these. */
int layout_border(plan* p, int32_t tensor, layout* out) {
  const tvmrt_region_tensor* t = &p->region->tensors[tensor];
  const DLTensor* given = p->from_call ? p->region->data[tensor] : NULL;
  dnnl_data_type_t dtype = layout_dtype(t->dtype);
  dnnl_dims_t dims, strides;
  int ndims = t->ndim, i;
  if (dtype == dnnl_data_type_undef) {
    return plan_fail(p, "oneDNN has no elements of the type of tensor %s", t->name);
  }
  /* vectors and matrices have one order */
  bool dense = given == NULL ? ndims < 3 || has_dense_borders(p->region) : given->strides == NULL;
  if (ndims < 1 || dense) {
    return layout_dense(p, ndims, t->shape, dtype, out);
  }
  PLAN_TRY(copy_dims(p, &ndims, t->shape, dims));
  if (given == NULL) {
    channels_last_strides(ndims, dims, strides);
  } else {
    for (i = 0; i < ndims; ++i) strides[i] = given->strides[i];
  }
  return by_strides(p, ndims, dims, dtype, strides, out);
}

/* Without blocks: an element's place follows from strides alone. */
static bool is_plain(const layout* md) { return md->blocked && md->inner_blocks == 0; }

/* Gaps between elements show in the size; padding of blocks counts as elements. False for layouts
 * whose order oneDNN does not tell. */
bool layout_is_packed(const layout* md) {
  size_t elements = dnnl_data_type_size(md->data_type);
  int i;
  if (!md->blocked || md->offset != 0) return false;
  for (i = 0; i < md->ndims; ++i) elements *= (size_t)md->padded_dims[i];
  return elements == api_bytes(md);
}

bool layout_is_whole(const layout* md) {
  return md->blocked &&
         memcmp(md->dims, md->padded_dims, (size_t)md->ndims * sizeof(*md->dims)) == 0;
}

/* Strides of extents of one mean nothing. */
bool layout_is_row_major(const layout* md) {
  dnnl_dim_t stride = 1;
  int i;
  if (!is_plain(md) || md->offset != 0) return false;
  for (i = md->ndims - 1; i >= 0; --i) {
    if (md->dims[i] != 1 && md->strides[i] != stride) return false;
    stride *= md->dims[i];
  }
  return true;
}

/* No copy where it lies so already. *out may be the view itself, as everywhere here. */
int layout_row_major(plan* p, const view* v, view* out) {
  layout md;
  PLAN_TRY(layout_dense(p, v->md.ndims, v->md.dims, v->md.data_type, &md));
  if (layout_is_row_major(&v->md)) {
    out->store = v->store;
    out->offset = v->offset;
    out->md = md; /* canonical strides for extents of one */
    return 0;
  }
  return layout_convert(p, v, &md, out);
}

/* Whether the strides are these; those of extents of one mean nothing. Of a layout without
 * blocks. */
static bool has_strides(const layout* md, const dnnl_dims_t strides) {
  int i;
  for (i = 0; i < md->ndims; ++i) {
    if (md->dims[i] != 1 && md->strides[i] != strides[i]) return false;
  }
  return true;
}

/* oneDNN knows layouts by their strides, those of extents of one too: give it the ones it
 * expects. Others are copied to row-major order. Blocks without gaps stay as they are: oneDNN's
 * quick forms read them. */
int layout_packed(plan* p, const view* v, view* out) {
  dnnl_dims_t strides;
  *out = *v;
  if (!layout_is_packed(&v->md) || layout_is_row_major(&v->md)) {
    return layout_row_major(p, v, out);
  }
  if (!is_plain(&v->md) || v->md.ndims < 3) return 0;
  channels_last_strides(v->md.ndims, v->md.dims, strides);
  if (!has_strides(&v->md, strides)) return 0;
  return by_strides(p, v->md.ndims, v->md.dims, v->md.data_type, strides, &out->md);
}

/* In the same order where that can be expressed, since the reader may want it so. Rounds as
 * oneDNN's reorder does, to the nearest even. */
int layout_as_dtype(plan* p, const view* v, dnnl_data_type_t dtype, view* out) {
  layout md;
  if (v->md.data_type == dtype) {
    *out = *v;
    return 0;
  }
  if (!layout_is_packed(&v->md) || api_retype(&p->layouts, &v->md, dtype, &md) != dnnl_success) {
    PLAN_TRY(layout_dense(p, v->md.ndims, v->md.dims, dtype, &md));
  }
  return layout_convert(p, v, &md, out);
}

/* Extents come from checked regions: their product fits. */
static int64_t count_elements(int ndims, const dnnl_dims_t dims) {
  int64_t count = 1;
  int i;
  /* lint: ndims says how many of the extents are set */
  for (i = 0; i < ndims; ++i) count *= dims[i];
  return count;
}

static bool same_dims(const layout* md, int ndims, const int64_t* dims) {
  int i;
  if (md->ndims != ndims) return false;
  for (i = 0; i < ndims; ++i) {
    if (md->dims[i] != dims[i]) return false;
  }
  return true;
}

/* oneDNN's own reshape splits and joins axes of blocked layouts, where it can; a row-major tensor
 * has strides of the new extents in any case. The number of elements is compared first, since a
 * view of more would read beyond its store. */
int layout_reshape(plan* p, const view* v, int ndims, const int64_t* dims, view* out) {
  dnnl_dims_t copy;
  layout md;
  view dense;
  PLAN_TRY(copy_dims(p, &ndims, dims, copy));
  if (count_elements(ndims, copy) != count_elements(v->md.ndims, v->md.dims)) {
    return plan_fail(p, "a tensor has another number of elements than it is taken for");
  }
  if (same_dims(&v->md, ndims, copy)) {
    *out = *v;
    return 0;
  }
  if (!layout_is_row_major(&v->md) &&
      api_reshape(&p->layouts, &v->md, ndims, copy, &md) == dnnl_success) {
    *out = (view){v->store, v->offset, md};
    return 0;
  }
  PLAN_TRY(layout_row_major(p, v, &dense));
  PLAN_TRY(layout_dense(p, ndims, copy, v->md.data_type, &dense.md));
  *out = dense;
  return 0;
}

/* oneDNN wants where each axis goes, the region says where each comes from. An axis that is named
 * twice leaves another at 0, which oneDNN refuses. */
int layout_permute(plan* p, const view* v, const int64_t* perm, view* out) {
  int where[DNNL_MAX_NDIMS], i;
  layout md;
  for (i = 0; i < v->md.ndims; ++i) where[i] = 0;
  for (i = 0; i < v->md.ndims; ++i) {
    if (perm[i] < 0 || perm[i] >= v->md.ndims) return plan_fail(p, "perm is no permutation");
    /* the inverse */
    where[perm[i]] = i;
  }
  PLAN_TRY(plan_status(p, api_permute(&p->layouts, &v->md, where, &md), "transpose"));
  *out = (view){v->store, v->offset, md};
  return 0;
}

/* Every steps[i]-th of sizes[i] elements in a plain layout; UNSUITABLE if oneDNN refuses. Only
 * strides change; the offset is in elements here, and in bytes in the view. */
static int take_every(plan* p, const view* v, const int64_t* starts, const int64_t* steps,
                      const int64_t* sizes, view* out) {
  dnnl_dims_t strides;
  dnnl_dim_t offset = 0;
  layout md;
  int i;
  for (i = 0; i < v->md.ndims; ++i) {
    /* within the store, as layout_slice() has compared */
    offset += starts[i] * v->md.strides[i];
    strides[i] = v->md.strides[i] * steps[i];
  }
  PLAN_TRY(by_strides(p, v->md.ndims, sizes, v->md.data_type, strides, &md));
  *out = (view){v->store, v->offset + (size_t)offset * dnnl_data_type_size(md.data_type), md};
  return 0;
}

/* oneDNN takes no axis whose last step ends beyond the next outer axis: copy the tensor to where
 * each axis has room for whole steps. The gaps are never read, and hold whatever was there. */
static int make_room(plan* p, const view* v, const int64_t* steps, const int64_t* sizes,
                     view* out) {
  dnnl_dims_t strides;
  dnnl_dim_t stride = 1;
  layout md;
  int i;
  for (i = v->md.ndims - 1; i >= 0; --i) {
    int64_t room = sizes[i] * steps[i];
    strides[i] = stride;
    stride *= room > v->md.dims[i] ? room : v->md.dims[i];
  }
  PLAN_TRY(by_strides(p, v->md.ndims, v->md.dims, v->md.data_type, strides, &md));
  return layout_convert(p, v, &md, out);
}

/* Whole blocks, where they lie; UNSUITABLE if the slice is none. An axis of which one element is
 * taken has no step that would matter. */
static int slice_blocks(plan* p, const view* v, const int64_t* starts, const int64_t* steps,
                        const int64_t* sizes, view* out) {
  layout md;
  int i;
  for (i = 0; i < v->md.ndims; ++i) {
    if (steps[i] != 1 && sizes[i] != 1) return DNNL_PLAN_UNSUITABLE;
  }
  PLAN_TRY(plan_status(p, api_part(&p->layouts, &v->md, sizes, starts, &md), "a slice"));
  *out = (view){v->store, v->offset, md};
  return 0;
}

/* Views without a copy where they can be. Everything is checked before, since oneDNN checks only
 * its own layouts. Two copies at most: into rows, and into rows with room for whole steps. */
int layout_slice(plan* p, const view* v, const int64_t* starts, const int64_t* steps,
                 const int64_t* sizes, view* out) {
  view plain = *v;
  int i, rc;
  for (i = 0; i < v->md.ndims; ++i) {
    if (steps[i] < 1) return plan_fail(p, "oneDNN cannot read backwards");
    if (starts[i] < 0 || sizes[i] < 1 || starts[i] + (sizes[i] - 1) * steps[i] >= v->md.dims[i]) {
      return plan_fail(p, "the slice leaves axis %d", i);
    }
  }
  if (!is_plain(&plain.md)) {
    rc = slice_blocks(p, v, starts, steps, sizes, out);
    if (rc != DNNL_PLAN_UNSUITABLE) return rc;
    PLAN_TRY(layout_row_major(p, v, &plain));
  }
  rc = take_every(p, &plain, starts, steps, sizes, out);
  if (rc != DNNL_PLAN_UNSUITABLE) return rc;
  PLAN_TRY(make_room(p, &plain, steps, sizes, &plain));
  return take_every(p, &plain, starts, steps, sizes, out);
}
