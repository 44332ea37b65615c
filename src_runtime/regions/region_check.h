/* Consistency of a region's nodes, inputs and outputs. */
#ifndef TVMRT_SRC_RUNTIME_REGIONS_REGION_CHECK_H_
#define TVMRT_SRC_RUNTIME_REGIONS_REGION_CHECK_H_

#include <tvm/runtime/device.h>

#include "../base/json.h"

/* 0, or -1 with an error text that contains the parser's position. */
int tvmrt__region_check(tvmrt_parser* in, const tvmrt_region* region);

#endif
