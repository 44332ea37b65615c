/* A scheduler's request to the region that a step calls, see regions/region_calls.c. Executors store it
 * in the thread during the step; the first called region takes it. */
#ifndef TVMRT_SRC_RUNTIME_CORE_REGION_REQUEST_H_
#define TVMRT_SRC_RUNTIME_CORE_REGION_REQUEST_H_

#include "../base/error.h"

struct tvmrt_device;
struct tvmrt_region;

typedef struct tvmrt_region_request {
  /* Chooses the device, once the tensors are known; NULL result: the region's own. */
  struct tvmrt_device* (*choose)(void* context, const struct tvmrt_region* region);
  void* context;
} tvmrt_region_request;

/* Events that devices report in a profiled run: objects in JSON, and the start of the run. Executors
 * store it in the thread during the run. */
typedef struct tvmrt_run_events {
  tvmrt_buf rows;
  double start;
} tvmrt_run_events;

#endif
