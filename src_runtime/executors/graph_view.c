/* A node's output as a tensor. Graph entries of tvmrt's compiler are bytes, since tensors of
 * several types share storage; a node's attribute "view" gives offset, type, bits, extents and
 * strides. It comes from a file: a view that exceeds its entry is refused. */
#include "graph_view.h"

#include <stdbool.h>
#include <string.h>

#include "../base/error.h"
#include "../base/json.h"

enum { HEAD_NUMBERS = 3, MAX_NUMBERS = HEAD_NUMBERS + 2 * TVMRT_VIEW_MAX_NDIM };

typedef struct view_numbers {
  int64_t items[MAX_NUMBERS];
  int count;
} view_numbers;

/* Into a fixed array: excess numbers are refused before they are written, since the attribute comes
 * from a file. */
static int read_number(tvmrt_parser* in, void* into) {
  view_numbers* n = into;
  if (n->count == MAX_NUMBERS) return tvmrt__parse_fail(in, "it has too many numbers");
  return tvmrt__parse_int(in, &n->items[n->count++]);
}

/* Any count up to the maximum of a view. */
static int read_numbers(const tvmrt_graph_node* node, view_numbers* out) {
  tvmrt_parser in;
  out->count = 0;
  tvmrt__parse_init(&in, "the attribute 'view' of a node", node->view, strlen(node->view));
  return tvmrt__parse_items(&in, read_number, out);
}

/* Whether bytes from first to last element lie within `size` bytes; checked without overflow. */
static bool fits(const tvmrt_graph_view* view, int64_t offset, int64_t item, int64_t size) {
  int64_t low = offset;
  int64_t high = offset;
  int d;
  bool empty = false;
  if (offset < 0 || offset > size) return false;
  for (d = 0; d < view->tensor.ndim; ++d) {
    if (view->shape[d] < 0) return false;
    if (view->shape[d] == 0) empty = true;
  }
  if (empty) return true; /* without elements, none is outside */
  for (d = 0; d < view->tensor.ndim; ++d) {
    int64_t stride = view->strides[d];
    int64_t steps = view->shape[d] - 1;
    /* a single element, or broadcast: the offset does not change */
    if (steps == 0 || stride == 0) continue;
    /* in this order: the products below stay under size, and -stride does not overflow */
    if (stride > size || stride < -size || steps > size / item) return false;
    /* lint: a stride of 0 was passed over */
    if (steps > size / item / (stride < 0 ? -stride : stride)) return false;
    if (stride < 0) {
      low += steps * stride * item;
    } else {
      high += steps * stride * item;
    }
    if (low < 0 || high > size) return false;
  }
  return high + item <= size;
}

/* `out` is filled on success: without the attribute it is the entry unchanged. The entry owns the
 * memory. */
int tvmrt__graph_view(const tvmrt_graph_node* node, const DLTensor* output, tvmrt_graph_view* out) {
  view_numbers read;
  const int64_t* numbers = read.items;
  int64_t item;
  int ndim;
  out->tensor = *output;
  if (node->view == NULL) return 0;
  TVMRT_RETURN_IF_ERROR(read_numbers(node, &read));
  ndim = (read.count - HEAD_NUMBERS) / 2;
  if (read.count < HEAD_NUMBERS || read.count != HEAD_NUMBERS + 2 * ndim || numbers[1] < 0 ||
      numbers[1] > UINT8_MAX || numbers[2] < 1 || numbers[2] > 64) {
    return tvmrt__fail_value(
        "the view of node '%.60s' is not offset, type, bits, extents and "
        "strides.",
        node->name);
  }
  /* A type of fewer than 8 bits takes one byte per element. */
  item = (numbers[2] + 7) / 8;
  memcpy(out->shape, numbers + HEAD_NUMBERS, (size_t)ndim * sizeof(int64_t));
  memcpy(out->strides, numbers + HEAD_NUMBERS + ndim, (size_t)ndim * sizeof(int64_t));
  out->tensor.dtype = (DLDataType){(uint8_t)numbers[1], (uint8_t)numbers[2], 1};
  out->tensor.ndim = ndim;
  out->tensor.shape = out->shape;
  out->tensor.strides = out->strides;
  /* Graphs of other compilers have typed entries, which cannot have a view. */
  if (output->ndim != 1 || output->dtype.bits != 8 ||
      !fits(out, numbers[0], item, output->shape[0])) {
    return tvmrt__fail_value("the view of node '%.60s' exceeds its storage.", node->name);
  }
  out->tensor.byte_offset += (uint64_t)numbers[0];
  return 0;
}
