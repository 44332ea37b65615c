/* Checks that a parsed region is a valid graph: each tensor has one source, which precedes its
 * uses.
 *
 * The parser has checked that each tensor number is -1 or an index; here it is compared with the
 * number of tensors. */
#include "region_check.h"

#include <stdlib.h>

#include "../base/error.h"

/* Mark that a tensor gets its value here; it must not have one yet. */
static int define(tvmrt_parser* in, const tvmrt_region* region, uint8_t* defined, int32_t tensor) {
  if (tensor < 0 || tensor >= region->num_tensors) {
    return tvmrt__parse_fail(in, "region '%.60s' refers to tensor %d, but has %d tensors",
                             region->symbol, (int)tensor, (int)region->num_tensors);
  }
  if (defined[tensor]) {
    return tvmrt__parse_fail(in, "tensor '%.60s' of region '%.60s' is computed twice",
                             region->tensors[tensor].name, region->symbol);
  }
  defined[tensor] = 1;
  return 0;
}

/* Also for -1, which check_nodes() has skipped if it stands for an omitted operand. */
static int check_use(tvmrt_parser* in, const tvmrt_region* region, const uint8_t* defined,
                     int32_t tensor) {
  if (tensor >= 0 && tensor < region->num_tensors && defined[tensor]) return 0;
  return tvmrt__parse_fail(in, "region '%.60s' reads tensor %d, which has no value there",
                           region->symbol, (int)tensor);
}

/* Nodes are in topological order: inputs of a node have their values before, and no tensor gets a
 * second one. Devices need not sort them, nor check for cycles. */
static int check_nodes(tvmrt_parser* in, const tvmrt_region* region, uint8_t* defined) {
  int32_t i;
  int32_t k;
  for (i = 0; i < region->num_nodes; ++i) {
    const tvmrt_region_node* n = &region->nodes[i];
    for (k = 0; k < n->num_inputs; ++k) {
      if (n->inputs[k] != -1) TVMRT_RETURN_IF_ERROR(check_use(in, region, defined, n->inputs[k]));
    }
    for (k = 0; k < n->num_outputs; ++k) {
      TVMRT_RETURN_IF_ERROR(define(in, region, defined, n->outputs[k]));
    }
  }
  return 0;
}

/* Outputs must be results of nodes, each listed once. An input or a constant that is also an output
 * would have two owners. */
static int check_outputs(tvmrt_parser* in, const tvmrt_region* region, uint8_t* defined) {
  int32_t i;
  int32_t k;
  for (i = 0; i < region->num_inputs; ++i) defined[region->inputs[i]] = 0;
  for (i = 0; i < region->num_tensors; ++i) defined[i] &= !region->tensors[i].is_constant;
  for (i = 0; i < region->num_outputs; ++i) {
    k = region->outputs[i];
    TVMRT_RETURN_IF_ERROR(check_use(in, region, defined, k));
    defined[k] = 0;
  }
  return 0;
}

/* Flags of one pass: constants and inputs have values from the start. */
int tvmrt__region_check(tvmrt_parser* in, const tvmrt_region* region) {
  uint8_t* defined = tvmrt__calloc((size_t)region->num_tensors, 1);
  int32_t i;
  int rc = defined == NULL ? -1 : 0;
  for (i = 0; rc == 0 && i < region->num_tensors; ++i) {
    defined[i] = region->tensors[i].is_constant != 0;
  }
  for (i = 0; rc == 0 && i < region->num_inputs; ++i) {
    rc = define(in, region, defined, region->inputs[i]);
  }
  if (rc == 0) rc = check_nodes(in, region, defined);
  if (rc == 0) rc = check_outputs(in, region, defined);
  free(defined);
  return rc;
}
