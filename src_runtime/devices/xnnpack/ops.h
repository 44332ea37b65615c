/* How the operators of regions are defined in XNNPACK's graph. */
#ifndef TVMRT_DEVICES_XNNPACK_OPS_H_
#define TVMRT_DEVICES_XNNPACK_OPS_H_

#include "node.h"

/* An operator: how many operands a node must have at least, and what defines it in the graph. */
typedef struct {
  const char* op;
  int32_t operands;
  int (*define)(graph* g, const tvmrt_region_node* node);
} ops_operator;

/* NULL if the operator is not known. */
const ops_operator* ops_find(const char* op);

#endif /* TVMRT_DEVICES_XNNPACK_OPS_H_ */
