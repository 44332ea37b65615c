/* 8-bit values. Nodes of a region say what their numbers mean, XNNPACK wants it of each tensor. */
#ifndef TVMRT_DEVICES_XNNPACK_QUANTIZED_H_
#define TVMRT_DEVICES_XNNPACK_QUANTIZED_H_

#include "node.h"

/* Find scale and zero point of every 8-bit tensor; fails where two nodes differ about one. A tensor
 * whose scale no node tells has scale 1: what its neighbours multiply by is then all in the weights. */
int quantized_assign(graph* g);

/* Weights and bias of an 8-bit product with so many channels as values; weights are [dims], in `strides`
 * of the region's, and those of a convolution have the results' channels along the first axis. */
int quantized_weights(graph* g, const tvmrt_region_node* node, size_t channels, size_t num_dims,
                      const size_t* dims, const int64_t* strides, uint32_t* out_filter,
                      uint32_t* out_bias);

/* The bounds that a node sets to its 8-bit result, as numbers; infinite for floats. */
void quantized_bounds(const graph* g, const tvmrt_region_node* node, float* low, float* high);

int quantized_add(graph* g, const tvmrt_region_node* node);
int quantized_mul(graph* g, const tvmrt_region_node* node);
int quantized_convert(graph* g, const tvmrt_region_node* node);

#endif /* TVMRT_DEVICES_XNNPACK_QUANTIZED_H_ */
