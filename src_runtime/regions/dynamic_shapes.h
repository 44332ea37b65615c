/* Dynamic sizes, on devices that are prepared for each size. */
#ifndef TVMRT_SRC_RUNTIME_REGIONS_DYNAMIC_SHAPES_H_
#define TVMRT_SRC_RUNTIME_REGIONS_DYNAMIC_SHAPES_H_

#include <stdbool.h>

#include "../base/error.h"
#include "region_set.h"

typedef struct tvmrt_sizes {
  int32_t count;         /* 0: the region's shapes are fixed, or its device accepts any */
  int64_t* current;      /* sizes of the region's current shapes; at first the maximum */
  const int64_t* bounds; /* minimum and maximum of each */
  const char* tensors;   /* their list in the region's text; borrowed */
  size_t tensors_size;
} tvmrt_sizes;

/* Read the sizes of a region's draft; `tensors` is its list in the text. */
int tvmrt__sizes_init(tvmrt_sizes* out, const tvmrt_region_draft* draft, const char* tensors,
                      tvmrt_arena* arena);

/* The sizes in the last argument of a call, borrowed; all are checked against their bounds. */
int tvmrt__sizes_of_call(const tvmrt_sizes* sizes, const char* symbol, const TVMValue* value,
                         int code, const int64_t** out);

/* Set the shapes of all tensors for these values. On failure nothing has changed. */
int tvmrt__sizes_apply(const tvmrt_sizes* sizes, const int64_t* values, const tvmrt_region* region);
/* Set the shapes for the maximum of each size, which `allocate` had, for `release`. */
void tvmrt__sizes_reset(const tvmrt_sizes* sizes, const tvmrt_region* region);

/* Append the text of a region with the current shapes of its tensors. */
int tvmrt__write_region(const char* text, size_t text_size, const tvmrt_sizes* sizes,
                        const tvmrt_region* region, tvmrt_buf* out);

#endif
