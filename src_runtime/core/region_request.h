/* A scheduler's request to the region that a step calls. The generated function between them passes
 * nothing on: executors store the request in the thread; the first called region takes it. */
#ifndef TVMRT_SRC_RUNTIME_CORE_REGION_REQUEST_H_
#define TVMRT_SRC_RUNTIME_CORE_REGION_REQUEST_H_

#include <stdbool.h>

struct tvmrt_device;
struct tvmrt_region;

typedef struct tvmrt_region_request {
  /* Chooses the device, once the tensors are known; NULL result: the region's own. May be NULL. */
  struct tvmrt_device* (*choose)(void* choice_context, const struct tvmrt_region* region);
  void* choice_context;
  bool is_deferred; /* the caller waits for the end, if the device is asynchronous */
  void* started;    /* out: argument of end(); NULL: the region has ended */
  /* out: returns 0, TVMRT_DEVICE_BUSY (poll_only), or -1; not called again after the end */
  int (*end)(void* started, bool poll_only);
} tvmrt_region_request;

#endif
