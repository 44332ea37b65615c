/* Layouts of tensors, and conversions between layouts.
 *
 * A conversion is a primitive of the plan, or is done immediately if the tensor is a constant.
 * Layouts are valid as long as the plan. */
#include <string.h>

#include "plan.h"

dnnl_data_type_t layout_dtype(DLDataType dtype) {
  if (dtype.lanes != 1) return dnnl_data_type_undef;
  switch (dtype.code * 256 + dtype.bits) {
    case kDLFloat * 256 + 32:
      return dnnl_f32;
    case kDLInt * 256 + 32:
      return dnnl_s32;
    case kDLInt * 256 + 8:
      return dnnl_s8;
    case kDLUInt * 256 + 8:
      return dnnl_u8;
    default:
      return dnnl_data_type_undef;
  }
}

/* Too many dimensions are an error here, before any array of DNNL_MAX_NDIMS is filled. */
static int make(plan* p, int ndims, const int64_t* dims, dnnl_data_type_t dtype,
                const dnnl_dim_t* strides, layout* out) {
  if (ndims > DNNL_MAX_NDIMS) return plan_fail(p, "tensors of rank %d are not supported", ndims);
  return plan_status(p, api_layout(&p->layouts, ndims, dims, dtype, strides, out), "a layout");
}

int layout_any(plan* p, int ndims, const int64_t* dims, dnnl_data_type_t dtype, layout* out) {
  return make(p, ndims, dims, dtype, NULL, out);
}

/* At most DNNL_MAX_NDIMS dimensions. */
static void row_major_strides(int ndims, const int64_t* dims, dnnl_dim_t* out) {
  int i;
  for (i = ndims - 1; i >= 0; --i) out[i] = i == ndims - 1 ? 1 : out[i + 1] * dims[i + 1];
}

/* oneDNN represents scalars as vectors of one element. */
int layout_dense(plan* p, int ndims, const int64_t* dims, dnnl_data_type_t dtype, layout* out) {
  static const int64_t one = 1;
  dnnl_dims_t strides;
  if (ndims == 0) return make(p, 1, &one, dtype, &one, out);
  if (ndims <= DNNL_MAX_NDIMS) row_major_strides(ndims, dims, strides);
  return make(p, ndims, dims, dtype, strides, out);
}

/* At least three dimensions. */
static void channels_last_strides(int ndims, const int64_t* dims, dnnl_dim_t* out) {
  int i;
  out[1] = 1;
  out[ndims - 1] = dims[1];
  for (i = ndims - 2; i > 1; --i) out[i] = out[i + 1] * dims[i + 1];
  out[0] = out[2] * dims[2];
}

int layout_channels_last(plan* p, const layout* of, layout* out) {
  dnnl_dims_t strides;
  channels_last_strides(of->ndims, of->dims, strides);
  return make(p, of->ndims, of->dims, of->dtype, strides, out);
}

/* Whether the compiler guarantees row-major tensors for this region. The first node has the
 * attribute, since regions have no attributes. */
static bool has_dense_boundary(const tvmrt_region* r) {
  return r->num_nodes > 0 && strcmp(tvmrt_node_text(&r->nodes[0], "borders", ""), "dense") == 0;
}

/* Layout of the call's tensor, or else the runtime's most likely one: channels last, which the
 * compiler's own layers pass to this device. If a call has other strides, the plan is rebuilt. */
int layout_boundary(plan* p, int32_t tensor, layout* out, dnnl_dim_t* strides) {
  const tvmrt_region_tensor* t = &p->region->tensors[tensor];
  const DLTensor* given = p->options.from_call ? p->region->data[tensor] : NULL;
  const dnnl_data_type_t dtype = layout_dtype(t->dtype);
  dnnl_dims_t own;
  if (dtype == dnnl_data_type_undef) {
    return plan_fail(p, "oneDNN does not support the data type of tensor %s", t->name);
  }
  if (t->ndim > DNNL_MAX_NDIMS) return plan_fail(p, "tensor %s has too many axes", t->name);
  if (strides == NULL) strides = own;
  if (t->ndim == 0) return layout_dense(p, 0, NULL, dtype, out);
  if (given != NULL && given->strides != NULL) {
    memcpy(strides, given->strides, (size_t)t->ndim * sizeof(*strides));
  } else if (given == NULL && t->ndim >= 3 && !has_dense_boundary(p->region)) {
    channels_last_strides(t->ndim, t->shape, strides);
  } else {
    row_major_strides(t->ndim, t->shape, strides);
  }
  return make(p, t->ndim, t->shape, dtype, strides, out);
}

/* Conversions --------------------------------------------------------------------------------- */

/* With scratch memory of the plan, like all primitives. */
static int reorder_desc(plan* p, const view* from, const view* to, dnnl_primitive_desc_t* out) {
  dnnl_engine_t engine = p->options.engine;
  dnnl_primitive_attr_t attr = NULL;
  dnnl_status_t status = dnnl_primitive_attr_create(&attr);
  if (status == dnnl_success) {
    status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
  }
  if (status == dnnl_success) {
    status = dnnl_reorder_primitive_desc_create(out, from->md.md, engine, to->md.md, engine, attr);
  }
  if (attr != NULL) dnnl_primitive_attr_destroy(attr);
  return plan_status(p, status, "a change of layout");
}

int layout_copy(plan* p, const view* from, const view* to) {
  dnnl_primitive_desc_t pd = NULL;
  plan_arg args[2] = {{DNNL_ARG_FROM, *from}, {DNNL_ARG_TO, *to}};
  PLAN_TRY(reorder_desc(p, from, to, &pd));
  return plan_add(p, pd, args, 2);
}

/* Converts before the plan runs, with oneDNN's own temporary scratch memory. */
static int copy_now(plan* p, const view* from, const view* to) {
  const dnnl_engine_t engine = p->options.engine;
  dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, NULL}, {DNNL_ARG_TO, NULL}};
  dnnl_primitive_desc_t pd = NULL;
  dnnl_primitive_t primitive = NULL;
  dnnl_status_t status =
      dnnl_reorder_primitive_desc_create(&pd, from->md.md, engine, to->md.md, engine, NULL);
  if (status == dnnl_success) status = dnnl_primitive_create(&primitive, pd);
  if (status == dnnl_success) {
    status = dnnl_memory_create(&args[0].memory, from->md.md, engine, plan_address(p, from));
  }
  if (status == dnnl_success) {
    status = dnnl_memory_create(&args[1].memory, to->md.md, engine, plan_address(p, to));
  }
  if (status == dnnl_success) {
    status = dnnl_primitive_execute(primitive, p->options.stream, 2, args);
  }
  /* before the objects in use are destroyed */
  if (status == dnnl_success) status = dnnl_stream_wait(p->options.stream);
  if (args[0].memory != NULL) dnnl_memory_destroy(args[0].memory);
  if (args[1].memory != NULL) dnnl_memory_destroy(args[1].memory);
  if (primitive != NULL) dnnl_primitive_destroy(primitive);
  if (pd != NULL) dnnl_primitive_desc_destroy(pd);
  return plan_status(p, status, "weights");
}

/* Linear search, since a region has few. NULL if the conversion does not exist yet. */
static const view* find_version(const plan* p, const view* v, const layout* md) {
  int32_t i;
  for (i = 0; i < p->num_versions; ++i) {
    const plan_version* known = &p->versions[i];
    if (known->from.store == v->store && api_equal(&known->from.md, &v->md) &&
        api_equal(&known->to.md, md)) {
      return &known->to;
    }
  }
  return NULL;
}

/* Constants are converted immediately, other tensors by a primitive of the plan. Converting to the
 * present layout is free. *out may be the view itself. */
int layout_convert(plan* p, const view* v, const layout* md, view* out) {
  const view* known = find_version(p, v, md);
  plan_version made = {.from = *v};
  if (known != NULL || api_equal(&v->md, md)) {
    *out = known != NULL ? *known : *v;
    return 0;
  }
  if (p->stores[v->store].kind == STORE_CONSTANT) {
    PLAN_TRY(plan_new_constant(p, md, &made.to));
    PLAN_TRY(copy_now(p, &made.from, &made.to));
  } else {
    PLAN_TRY(plan_new_view(p, md, &made.to));
    PLAN_TRY(layout_copy(p, &made.from, &made.to));
  }
  PLAN_TRY(plan_grow(p, (void**)&p->versions, p->num_versions, &p->cap_versions, sizeof(made)));
  p->versions[p->num_versions++] = made;
  *out = made.to;
  return 0;
}

int layout_row_major(plan* p, const view* v, view* out) {
  layout md;
  PLAN_TRY(layout_dense(p, v->md.ndims, v->md.dims, v->md.dtype, &md));
  return layout_convert(p, v, &md, out);
}

/* Extents come from checked regions, so their product does not overflow. */
static int64_t count_elements(int ndims, const int64_t* dims) {
  int64_t count = 1;
  int i;
  for (i = 0; i < ndims; ++i) count *= dims[i];
  return count;
}

/* The tensor is made row-major before it gets the new extents. The number of elements is checked
 * first, since a larger view would read past the end of its store. */
int layout_reshape(plan* p, const view* v, int ndims, const int64_t* dims, view* out) {
  layout md;
  if (count_elements(ndims, dims) != count_elements(v->md.ndims, v->md.dims)) {
    return plan_fail(p, "a reshape changes the number of elements");
  }
  PLAN_TRY(layout_dense(p, ndims, dims, v->md.dtype, &md));
  /* lint: layout_dense() has filled it */
  if (md.ndims == v->md.ndims &&
      memcmp(md.dims, v->md.dims, (size_t)md.ndims * sizeof(md.dims[0])) == 0) {
    *out = *v;
    return 0;
  }
  PLAN_TRY(layout_row_major(p, v, out));
  out->md = md;
  return 0;
}
