/* Regions as a compiler wrote them: JSON text, and bytes of constants.
 *
 *   {"format": "tvmrt-regions", "version": 1, "device": "npu", "device_version": 1,
 *    "options": {...}, "fallback": 1,                                             (both optional)
 *    "regions": [{"symbol": "tvmgen_default_npu_main_0", "name": "conv1..relu1",
 *      "tensors": [{"name": "x", "dtype": "float32", "shape": [1, 3]},
 *                  {"name": "w", "dtype": "float32", "shape": [3, 8], "offset": 0, "bytes": 96},
 *      ...], "nodes": [{"op": "matmul", "name": "fc1", "inputs": [0, 1, -1], "outputs": [2],
 *                 "attrs": {"strides": [1, 1], "alpha": 0.1, "mode": "linear"}}],
 *      "inputs": [0], "outputs": [2]}]}
 *
 * A tensor with dynamic dimensions has its maximum extents as its shape, and "least": [1, 1]; on a
 * device that is prepared for each size it also has "extents": see dynamic_shapes.c. A tensor with
 * an offset is a constant; offsets count from the start of the constants and are multiples of 64.
 * Unknown keys are skipped. Nodes are in topological order. */
#ifndef TVMRT_SRC_RUNTIME_REGIONS_REGION_SET_H_
#define TVMRT_SRC_RUNTIME_REGIONS_REGION_SET_H_

#include <stdbool.h>
#include <tvm/runtime/device.h>

#include "arena.h"

#define TVMRT_CONSTANT_ALIGN_BYTES 64

/* One region with its position in the text. */
typedef struct tvmrt_region_draft {
  tvmrt_region region; /* data is NULL */
  size_t text_begin;
  size_t text_size;
  size_t tensors_begin; /* the list of tensors */
  size_t tensors_size;
  const int64_t* sizes; /* minimum and maximum of each dynamic size */
  int32_t num_sizes;
} tvmrt_region_draft;

typedef struct tvmrt_region_set {
  tvmrt_arena arena; /* memory of all following fields */
  const char* device;
  int64_t device_version;
  const char* options; /* a JSON object; NULL if there are none */
  bool fallback;
  tvmrt_region_draft* regions;
  size_t num_regions;
} tvmrt_region_set;

/* The minimum extents of a parsed tensor; equal to its shape if it has no dynamic dimensions. */
static inline int64_t* tvmrt__min_extents(const tvmrt_region_tensor* t) {
  return (int64_t*)(uintptr_t)t->shape + t->ndim;
}
bool tvmrt__region_is_dynamic(const tvmrt_region* region);

/* Read and check. The constants are borrowed as long as `out` lives, and aligned; NULL leaves them
 * without data. On failure *out is empty. */
int tvmrt__region_set_read(const char* json, size_t json_size, const void* constants,
                           size_t constants_size, tvmrt_region_set* out);
void tvmrt__region_set_free(tvmrt_region_set* set);

#endif
