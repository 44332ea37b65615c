/* Where callers' tensors and XNNPACK's meet.
 *
 * A caller's tensor is given to XNNPACK as it is where its elements lie in XNNPACK's order; else a
 * dense copy is, which the border keeps for the next run. */
#include "border.h"

#include <stdlib.h>

#include "copy.h"

#define PAGE_BYTES 4096u /* no processor has smaller ones */

/* Extents and strides of a call's tensor in XNNPACK's order; how many. Strides count elements, as
 * DLPack has them. */
static size_t read_order(const tvmrt_region_tensor* tensor, const DLTensor* data, size_t* dims,
                         int64_t* strides) {
  int64_t dense[GRAPH_MAX_RANK], step = 1;
  int32_t i;
  for (i = tensor->ndim - 1; i >= 0; --i) {
    dense[i] = data->strides == NULL ? step : data->strides[i];
    step *= tensor->shape[i];
  }
  graph_order(tensor->ndim, dense, strides);
  return graph_dims(tensor, dims);
}

/* XNNPACK reads up to XNN_EXTRA_BYTES behind a tensor: harmless in a page that the tensor is in.
 * Where the end of the tensor is the end of a page, the next one may be nobody's. */
static bool may_be_read_beyond(const void* data, size_t bytes) {
  const uintptr_t end = ((uintptr_t)data + bytes) % PAGE_BYTES;
  return end != 0 && end + XNN_EXTRA_BYTES <= PAGE_BYTES;
}

/* An output's old content is not copied: runs write all of it. b->staged is freed by plan_free().
 * Only the order and what lies behind matter: addresses are taken as they are. */
int border_bind(const tvmrt_region_tensor* tensor, const DLTensor* data, border* b) {
  char* given = (char*)data->data + data->byte_offset;
  size_t dims[GRAPH_MAX_RANK];
  int64_t strides[GRAPH_MAX_RANK];
  const size_t count = read_order(tensor, data, dims, strides);
  if (copy_is_dense(count, dims, strides) && may_be_read_beyond(given, tensor->num_bytes)) {
    b->bound = given;
    return 0;
  }
  if (b->staged == NULL) b->staged = malloc(tensor->num_bytes + XNN_EXTRA_BYTES);
  if (b->staged == NULL) return graph_fail("out of memory");
  if (!b->is_output) copy_to_dense(b->staged, given, tensor->dtype.bits / 8u, count, dims, strides);
  b->bound = b->staged;
  return 0;
}

/* After a run, where the result lies in a copy. */
void border_give(const tvmrt_region_tensor* tensor, const DLTensor* data, const border* b) {
  size_t dims[GRAPH_MAX_RANK], count;
  int64_t strides[GRAPH_MAX_RANK];
  if (b->bound != b->staged) return;
  count = read_order(tensor, data, dims, strides);
  copy_from_dense((char*)data->data + data->byte_offset, b->staged, tensor->dtype.bits / 8u, count,
                  dims, strides);
}
