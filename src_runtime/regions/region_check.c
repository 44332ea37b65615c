/* Whether a region that was read is a graph: each tensor has one source, and has it before it is read.
 *
 * Each number of a tensor was found to be an index or -1 when it was read; here it is compared with
 * how many there are. */
#include "region_check.h"

#include <stdlib.h>

#include "../base/error.h"

/* Mark that a tensor gets its value here; it must not have one yet. */
static int define(tvmrt_parser* in, const tvmrt_region* region, uint8_t* defined, int32_t tensor) {
  if (tensor < 0 || tensor >= region->num_tensors) {
    return tvmrt__parse_fail(in, "region '%.60s' names tensor %d of %d", region->symbol,
                             (int)tensor, (int)region->num_tensors);
  }
  if (defined[tensor]) {
    return tvmrt__parse_fail(in, "tensor '%.60s' of region '%.60s' is computed twice",
                             region->tensors[tensor].name, region->symbol);
  }
  defined[tensor] = 1;
  return 0;
}

/* Also for -1, which check_nodes() has passed over where it stands for an operand that is left
 * out. */
static int use(tvmrt_parser* in, const tvmrt_region* region, const uint8_t* defined,
               int32_t tensor) {
  if (tensor >= 0 && tensor < region->num_tensors && defined[tensor]) return 0;
  return tvmrt__parse_fail(in, "region '%.60s' reads tensor %d, which has no value there",
                           region->symbol, (int)tensor);
}

/* Nodes stand so that they can run one after the other: what a node reads has its value before it,
 * and no tensor gets a second one. Devices need not sort them, nor look for circles. */
static int check_nodes(tvmrt_parser* in, const tvmrt_region* region, uint8_t* defined) {
  int32_t i;
  int32_t k;
  for (i = 0; i < region->num_nodes; ++i) {
    const tvmrt_region_node* n = &region->nodes[i];
    for (k = 0; k < n->num_inputs; ++k) {
      if (n->inputs[k] != -1) TVMRT_RETURN_IF_ERROR(use(in, region, defined, n->inputs[k]));
    }
    for (k = 0; k < n->num_outputs; ++k) {
      TVMRT_RETURN_IF_ERROR(define(in, region, defined, n->outputs[k]));
    }
  }
  return 0;
}

/* Outputs must be results of nodes, each listed once. An input or a constant that is an output,
 * too, would have two owners: the caller's tensor and another one. */
static int check_outputs(tvmrt_parser* in, const tvmrt_region* region, uint8_t* defined) {
  int32_t i;
  int32_t k;
  for (i = 0; i < region->num_inputs; ++i) defined[region->inputs[i]] = 0;
  for (i = 0; i < region->num_tensors; ++i) defined[i] &= !region->tensors[i].is_constant;
  for (i = 0; i < region->num_outputs; ++i) {
    k = region->outputs[i];
    TVMRT_RETURN_IF_ERROR(use(in, region, defined, k));
    defined[k] = 0;
  }
  return 0;
}

/* The flags are of one walk: constants and inputs have values from the start. */
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
