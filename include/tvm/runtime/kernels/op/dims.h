/*!
 * \file dims.h
 * \brief Check dynamic dimensions of the inputs and store their sizes.
 *
 * Nothing is written before all extents are checked: each must be within the bounds of its
 * dimension, and a dimension must have the same size in all inputs.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_DIMS_H_
#define TVM_RUNTIME_KERNELS_OP_DIMS_H_

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/dims.h>

#include "../scalar/compiler.h"

#define TVMRT_DIMS_TEXT_BYTES 400

/* Check one axis of an input; sizes that are not known yet are negative. */
static inline int32_t tvmrt_read_extent(const tvmrt_dims* about, const tvmrt_dims_tensor* input,
                                        int axis, int64_t extent, int32_t* sizes) {
  const int32_t dim_index = input->dim[axis];
  const char* name = dim_index < 0 ? "" : about->dims[dim_index].name;
  char text[TVMRT_DIMS_TEXT_BYTES];
  if (extent < input->min[axis] || extent > input->max[axis]) {
    char maximum_text[32] = " or more"; /* of a dimension without a maximum */
    if (input->max[axis] <= INT32_MAX - 1024) {
      (void)snprintf(maximum_text, sizeof(maximum_text), " to %" PRId64, input->max[axis]);
    }
    (void)snprintf(text, sizeof(text),
                   "SizeConditionError: input '%.80s': axis %d%s%.80s has %" PRId64
                   " elements, expected %" PRId64 "%s.",
                   input->name, axis, dim_index < 0 ? "" : ", dimension ", name, extent,
                   input->min[axis], maximum_text);
    TVMAPISetLastError(text);
    return -1;
  }
  if (dim_index < 0) return 0;
  if (sizes[dim_index] >= 0 && sizes[dim_index] != extent) {
    (void)snprintf(text, sizeof(text),
                   "SizeConditionError: input '%.80s': axis %d, dimension %.80s, has %" PRId64
                   " elements; another input has %d of that dimension.",
                   input->name, axis, name, extent, (int)sizes[dim_index]);
    TVMAPISetLastError(text);
    return -1;
  }
  sizes[dim_index] = (int32_t)extent;
  return 0;
}

/* Determine the sizes of all dimensions; `args` are the inputs, as DLTensor. */
static inline int32_t tvmrt_read_dims(const tvmrt_dims* about, const TVMValue* args,
                                      int32_t* sizes) {
  for (int32_t i = 0; i < about->num_dims; ++i) sizes[i] = -1;
  for (int32_t i = 0; i < about->num_inputs; ++i) {
    const DLTensor* tensor = (const DLTensor*)args[i].v_handle;
    const tvmrt_dims_tensor* input = &about->inputs[i];
    if (tensor->ndim != input->rank) {
      char text[TVMRT_DIMS_TEXT_BYTES];
      (void)snprintf(text, sizeof(text),
                     "SizeConditionError: input '%.80s' has %d axes, expected %d.", input->name,
                     (int)tensor->ndim, (int)input->rank);
      TVMAPISetLastError(text);
      return -1;
    }
    for (int axis = 0; axis < tensor->ndim; ++axis) {
      if (tvmrt_read_extent(about, input, axis, tensor->shape[axis], sizes) != 0) return -1;
    }
  }
  return 0;
}

/* Check an extent of an input that is computed from dimensions. */
static inline int32_t tvmrt_check_extent(TVMValue arg, const char* name, int axis, int64_t extent) {
  const DLTensor* tensor = (const DLTensor*)arg.v_handle;
  char text[TVMRT_DIMS_TEXT_BYTES];
  if (tensor->shape[axis] == extent) return 0;
  (void)snprintf(text, sizeof(text),
                 "SizeConditionError: input '%.80s': axis %d has %" PRId64
                 " elements; by the dimensions of the other axes it is %" PRId64 ".",
                 name, axis, tensor->shape[axis], extent);
  TVMAPISetLastError(text);
  return -1;
}

/* Compute the size of a dimension from an axis of extent `step` * size + `first`, whose bounds
 * have been checked. Return -1 if the extent does not fit. */
static inline int32_t tvmrt_check_steps(TVMValue arg, const char* name, int axis, int32_t step,
                                        int32_t first, int32_t* size) {
  const DLTensor* tensor = (const DLTensor*)arg.v_handle;
  char text[TVMRT_DIMS_TEXT_BYTES];
  *size = (int32_t)((tensor->shape[axis] - first) / step);
  if (tensor->shape[axis] == (int64_t)*size * step + first) return 0;
  (void)snprintf(text, sizeof(text),
                 "SizeConditionError: input '%.80s': axis %d has %" PRId64
                 " elements, expected a multiple of %d%s%.0d.",
                 name, axis, tensor->shape[axis], (int)step, first == 0 ? "" : " plus ",
                 (int)first);
  TVMAPISetLastError(text);
  return -1;
}

/* Whether an extent is within the bounds of its dimension. */
static inline bool tvmrt_is_within(int64_t extent, int32_t minimum, int32_t maximum) {
  return extent >= minimum && extent <= maximum;
}

TVMRT_COLD int32_t tvmrt_refuse_extent(const DLTensor* tensor, const char* name, int axis,
                                       int64_t extent) {
  char text[TVMRT_DIMS_TEXT_BYTES];
  (void)snprintf(text, sizeof(text),
                 "ValueError: output '%.80s': axis %d has %" PRId64 " elements, the result %" PRId64
                 "; pass a tensor with room for the largest result.",
                 name, axis, axis < tensor->ndim ? tensor->shape[axis] : (int64_t)0, extent);
  TVMAPISetLastError(text);
  return -1;
}

/* Set an extent of an output for this run; return -1 if its buffer is too small. */
static inline int32_t tvmrt_set_extent(TVMValue arg, const char* name, int axis, int64_t extent) {
  DLTensor* tensor = (DLTensor*)arg.v_handle;
  if (axis >= tensor->ndim || tensor->shape[axis] < extent) {
    return tvmrt_refuse_extent(tensor, name, axis, extent);
  }
  tensor->shape[axis] = extent;
  return 0;
}

#endif /* TVM_RUNTIME_KERNELS_OP_DIMS_H_ */
