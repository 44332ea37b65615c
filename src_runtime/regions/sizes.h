/* Sizes that runs choose, on devices that are prepared again for each. */
#ifndef TVMRT_SRC_RUNTIME_REGIONS_SIZES_H_
#define TVMRT_SRC_RUNTIME_REGIONS_SIZES_H_

#include <stdbool.h>

#include "../base/error.h"
#include "region_set.h"

typedef struct tvmrt_sizes {
  int32_t count;         /* 0: the region's shapes are fixed, or its device takes any */
  int64_t* now;          /* those that the region has its shapes for; at first the most */
  const int64_t* bounds; /* least and most of each */
  const char* tensors;   /* their list in the region's text; borrowed */
  size_t tensors_size;
} tvmrt_sizes;

/* What the draft of one region says of sizes; `tensors` is its list in the text. */
int tvmrt__sizes_init(tvmrt_sizes* out, const tvmrt_region_draft* draft, const char* tensors,
                      tvmrt_arena* arena);

/* The sizes in the last argument of a call, which is borrowed; all are within their bounds. */
int tvmrt__sizes_of_call(const tvmrt_sizes* sizes, const char* symbol, const TVMValue* value,
                         int code, const int64_t** out);

/* Give all tensors of the region the shapes that they have at these values. On failure nothing has
 * changed. */
int tvmrt__sizes_apply(const tvmrt_sizes* sizes, const int64_t* values, const tvmrt_region* region);

/* Append the text of a region with the shapes that its tensors have now. */
int tvmrt__write_region(const char* text, size_t text_size, const tvmrt_sizes* sizes,
                        const tvmrt_region* region, tvmrt_buf* out);

#endif
