/* What a scheduler wants of the region that a step calls. Between the two lies a generated function,
 * which passes nothing on: executors leave the request with the thread, and the first region that is
 * called takes it from there. */
#ifndef TVMRT_SRC_RUNTIME_CORE_REGION_REQUEST_H_
#define TVMRT_SRC_RUNTIME_CORE_REGION_REQUEST_H_

#include <stdbool.h>

struct tvmrt_device;
struct tvmrt_region;

typedef struct tvmrt_region_request {
  /* The device that computes it, once its tensors are there; NULL: its own. A NULL slot does not ask. */
  struct tvmrt_device* (*choose)(void* asker, const struct tvmrt_region* region);
  void* asker;
  bool is_deferred; /* the caller waits for its end, where its device can start it */
  void* started;    /* out: what end() takes; NULL: the region has ended */
  /* out: 0, TVMRT_DEVICE_BUSY if it only looks, or -1; what has ended is not asked again */
  int (*end)(void* started, bool only_look);
} tvmrt_region_request;

#endif
