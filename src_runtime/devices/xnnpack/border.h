/* Where callers' tensors and XNNPACK's meet: which may be used in place, and copies of the others. */
#ifndef TVMRT_DEVICES_XNNPACK_BORDER_H_
#define TVMRT_DEVICES_XNNPACK_BORDER_H_

#include "graph.h"

/* An input or output of the region: the memory that XNNPACK knows for it. */
typedef struct {
  int32_t tensor;
  bool is_output;
  void* bound;  /* of the caller, or `staged` */
  void* staged; /* the graph's own, made when a caller's tensor cannot be used in place */
} border;

/* Choose b->bound for a call; copies an input that cannot be used in place. */
int border_bind(const tvmrt_region_tensor* tensor, const DLTensor* data, border* b);

/* Copy a result that was not computed in place. */
void border_give(const tvmrt_region_tensor* tensor, const DLTensor* data, const border* b);

#endif /* TVMRT_DEVICES_XNNPACK_BORDER_H_ */
