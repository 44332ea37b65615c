/* Layouts of tensors: which view of a store stands for a reshape, a transpose, a slice. */
#include <string.h>

#include "plan.h"

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

/* Scalars are vectors of one to oneDNN. */
static int copy_dims(plan* p, int* ndims, const int64_t* dims, dnnl_dims_t out) {
  int i;
  if (*ndims > DNNL_MAX_NDIMS) return plan_fail(p, "tensors of rank %d are too large", *ndims);
  for (i = 0; i < *ndims; ++i) out[i] = dims[i];
  if (*ndims == 0) out[(*ndims)++] = 1;
  return 0;
}

static int by_tag(plan* p, int ndims, const dnnl_dims_t dims, dnnl_data_type_t dtype,
                  dnnl_format_tag_t tag, dnnl_memory_desc_t* out) {
  return plan_status(p, dnnl_memory_desc_init_by_tag(out, ndims, dims, dtype, tag), "layout");
}

int layout_dense(plan* p, int ndims, const int64_t* dims, dnnl_data_type_t dtype,
                 dnnl_memory_desc_t* out) {
  dnnl_dims_t copy, strides;
  int i;
  PLAN_TRY(copy_dims(p, &ndims, dims, copy));
  strides[ndims - 1] = 1;
  for (i = ndims - 2; i >= 0; --i) strides[i] = strides[i + 1] * copy[i + 1];
  return plan_status(p, dnnl_memory_desc_init_by_strides(out, ndims, copy, dtype, strides),
                     "layout");
}

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

int layout_free(plan* p, int ndims, const int64_t* dims, dnnl_data_type_t dtype,
                dnnl_memory_desc_t* out) {
  dnnl_dims_t copy;
  dnnl_format_tag_t tag = dnnl_format_tag_any;
  PLAN_TRY(copy_dims(p, &ndims, dims, copy));
  if (p->channels_last && channels_last_tag(ndims) != dnnl_format_tag_undef) {
    tag = channels_last_tag(ndims);
  }
  return by_tag(p, ndims, copy, dtype, tag, out);
}

/* Strides of a compact tensor: axis 1 fastest, then from the last axis to axis 2, then axis 0. */
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

int layout_border(plan* p, int32_t tensor, dnnl_memory_desc_t* out) {
  const tvmrt_region_tensor* t = &p->region->tensors[tensor];
  const DLTensor* given = p->from_call ? p->region->data[tensor] : NULL;
  dnnl_data_type_t dtype = layout_dtype(t->dtype);
  dnnl_dims_t dims, strides;
  int ndims = t->ndim, i;
  if (dtype == dnnl_data_type_undef) {
    return plan_fail(p, "oneDNN has no elements of the type of tensor %s", t->name);
  }
  if (ndims < 1 || (given != NULL && given->strides == NULL) || (given == NULL && ndims < 3)) {
    return layout_dense(p, ndims, t->shape, dtype, out);
  }
  PLAN_TRY(copy_dims(p, &ndims, t->shape, dims));
  if (given == NULL) {
    channels_last_strides(ndims, dims, strides);
  } else {
    for (i = 0; i < ndims; ++i) strides[i] = given->strides[i];
  }
  return plan_status(p, dnnl_memory_desc_init_by_strides(out, ndims, dims, dtype, strides),
                     "layout");
}

static bool is_plain(const dnnl_memory_desc_t* md) {
  return md->format_kind == dnnl_blocked && md->format_desc.blocking.inner_nblks == 0;
}

bool layout_is_packed(const dnnl_memory_desc_t* md) {
  size_t elements = dnnl_data_type_size(md->data_type);
  int i;
  if (md->format_kind != dnnl_blocked || md->offset0 != 0) return false;
  for (i = 0; i < md->ndims; ++i) elements *= (size_t)md->padded_dims[i];
  return elements == dnnl_memory_desc_get_size(md);
}

bool layout_is_row_major(const dnnl_memory_desc_t* md) {
  dnnl_dim_t stride = 1;
  int i;
  if (!is_plain(md) || md->offset0 != 0) return false;
  for (i = md->ndims - 1; i >= 0; --i) {
    if (md->dims[i] != 1 && md->format_desc.blocking.strides[i] != stride) return false;
    stride *= md->dims[i];
  }
  return true;
}

int layout_row_major(plan* p, const view* v, view* out) {
  dnnl_memory_desc_t md;
  PLAN_TRY(layout_dense(p, v->md.ndims, v->md.dims, v->md.data_type, &md));
  if (layout_is_row_major(&v->md)) {
    out->store = v->store;
    out->md = md; /* canonical strides for extents of one */
    return 0;
  }
  return layout_convert(p, v, &md, out);
}

/* Whether the strides are these; those of extents of one mean nothing. */
static bool has_strides(const dnnl_memory_desc_t* md, const dnnl_dims_t strides) {
  int i;
  for (i = 0; i < md->ndims; ++i) {
    if (md->dims[i] != 1 && md->format_desc.blocking.strides[i] != strides[i]) return false;
  }
  return true;
}

/* oneDNN knows layouts by their strides, those of extents of one too: give it the ones it expects. */
int layout_packed(plan* p, const view* v, view* out) {
  dnnl_dims_t strides;
  *out = *v;
  if (!layout_is_packed(&v->md) || layout_is_row_major(&v->md)) {
    return layout_row_major(p, v, out);
  }
  if (!is_plain(&v->md) || v->md.ndims < 3) return 0;
  channels_last_strides(v->md.ndims, v->md.dims, strides);
  if (!has_strides(&v->md, strides)) return 0;
  return plan_status(
      p,
      dnnl_memory_desc_init_by_strides(&out->md, v->md.ndims, v->md.dims, v->md.data_type, strides),
      "layout");
}

int layout_as_dtype(plan* p, const view* v, dnnl_data_type_t dtype, view* out) {
  dnnl_memory_desc_t md = v->md;
  if (md.data_type == dtype) {
    *out = *v;
    return 0;
  }
  if (!layout_is_packed(&md)) {
    PLAN_TRY(layout_dense(p, md.ndims, v->md.dims, dtype, &md));
  }
  md.data_type = dtype;
  return layout_convert(p, v, &md, out);
}

static int64_t count_elements(int ndims, const dnnl_dims_t dims) {
  int64_t count = 1;
  int i;
  for (i = 0; i < ndims; ++i) count *= dims[i];
  return count;
}

static bool same_dims(const dnnl_memory_desc_t* md, int ndims, const int64_t* dims) {
  int i;
  if (md->ndims != ndims) return false;
  for (i = 0; i < ndims; ++i) {
    if (md->dims[i] != dims[i]) return false;
  }
  return true;
}

int layout_reshape(plan* p, const view* v, int ndims, const int64_t* dims, view* out) {
  dnnl_dims_t copy;
  dnnl_memory_desc_t md;
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
      dnnl_memory_desc_reshape(&md, &v->md, ndims, copy) == dnnl_success) {
    out->store = v->store;
    out->md = md;
    return 0;
  }
  PLAN_TRY(layout_row_major(p, v, &dense));
  out->store = dense.store;
  return layout_dense(p, ndims, copy, v->md.data_type, &out->md);
}

int layout_permute(plan* p, const view* v, const int64_t* perm, view* out) {
  int where[DNNL_MAX_NDIMS], i;
  dnnl_memory_desc_t md;
  for (i = 0; i < v->md.ndims; ++i) where[i] = 0;
  for (i = 0; i < v->md.ndims; ++i) {
    if (perm[i] < 0 || perm[i] >= v->md.ndims) return plan_fail(p, "perm is no permutation");
    where[perm[i]] = i;
  }
  PLAN_TRY(plan_status(p, dnnl_memory_desc_permute_axes(&md, &v->md, where), "transpose"));
  out->store = v->store;
  out->md = md;
  return 0;
}

int layout_slice(plan* p, const view* v, const int64_t* starts, const int64_t* steps,
                 const int64_t* sizes, view* out) {
  bool dense_steps = true;
  int i, n = v->md.ndims;
  view plain = *v;
  dnnl_memory_desc_t md;
  for (i = 0; i < n; ++i) {
    if (steps[i] < 1) return plan_fail(p, "oneDNN cannot read backwards");
    if (starts[i] < 0 || sizes[i] < 1 || starts[i] + (sizes[i] - 1) * steps[i] >= v->md.dims[i]) {
      return plan_fail(p, "the slice leaves axis %d", i);
    }
    dense_steps = dense_steps && (steps[i] == 1 || sizes[i] == 1);
  }
  if (dense_steps && dnnl_memory_desc_init_submemory(&md, &v->md, sizes, starts) == dnnl_success) {
    out->store = v->store;
    out->md = md;
    return 0;
  }
  if (!is_plain(&plain.md)) PLAN_TRY(layout_row_major(p, v, &plain));
  for (i = 0; i < n; ++i) {
    dnnl_dim_t* stride = &plain.md.format_desc.blocking.strides[i];
    plain.md.offset0 += starts[i] * *stride;
    *stride *= steps[i];
    plain.md.dims[i] = plain.md.padded_dims[i] = sizes[i];
  }
  *out = plain;
  return 0;
}
