/* The attribute "view" of graph nodes: accepted views are entirely within their storage. */
#include "executors/graph_view.h"

#include "fuzz.h"
#include "tensors/tensor.h"

enum { MAX_ELEMENTS = 4096 };

/* Elements of a tensor, MAX_ELEMENTS + 1 if there are more. */
static int64_t count_elements(const DLTensor* t) {
  int64_t count = 1;
  int d;
  for (d = 0; d < t->ndim; ++d) {
    if (t->shape[d] == 0) return 0;
  }
  for (d = 0; d < t->ndim && count <= MAX_ELEMENTS; ++d) {
    count = t->shape[d] > MAX_ELEMENTS ? MAX_ELEMENTS + 1 : count * t->shape[d];
  }
  return count <= MAX_ELEMENTS ? count : MAX_ELEMENTS + 1;
}

/* Write every element at its index; the sanitizer knows where the storage ends. */
static void touch_all(const DLTensor* t) {
  int64_t count = count_elements(t);
  int64_t i;
  if (count > MAX_ELEMENTS) return;
  for (i = 0; i < count; ++i) {
    int64_t rest = i;
    int64_t at = 0;
    int d;
    for (d = t->ndim - 1; d >= 0; --d) {
      at += rest % t->shape[d] * t->strides[d];
      rest /= t->shape[d];
    }
    memset(tvmrt__tensor_data(t) + at * ((t->dtype.bits + 7) / 8), 1, (t->dtype.bits + 7) / 8);
  }
}

static void check_view(const DLTensor* storage, const tvmrt_graph_view* view) {
  uint64_t bytes;
  int d;
  for (d = 0; d < view->tensor.ndim; ++d) FUZZ_REQUIRE(view->tensor.shape[d] >= 0);
  FUZZ_REQUIRE(view->tensor.byte_offset <= (uint64_t)storage->shape[0]);
  (void)fuzz_succeeded(tvmrt__tensor_bytes(&view->tensor, &bytes));
  touch_all(&view->tensor);
}

/* The first two bytes give the size of the storage, the rest is the text. */
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  int64_t extent;
  char* storage;
  tvmrt_graph_node node = {0};
  tvmrt_graph_view view;
  DLTensor output = {0};
  if (size < 2) return 0;
  extent = data[0] + 256 * (data[1] % 16);
  storage = malloc(extent == 0 ? 1 : (size_t)extent);
  FUZZ_REQUIRE(storage != NULL);
  node.view = fuzz_text(data + 2, size - 2);
  node.name = node.view;
  output.data = storage;
  output.device.device_type = kDLCPU;
  output.ndim = 1;
  output.dtype = (DLDataType){kDLUInt, 8, 1};
  output.shape = &extent;
  if (fuzz_succeeded(tvmrt__graph_view(&node, &output, &view))) check_view(&output, &view);
  free(node.view);
  free(storage);
  return 0;
}
