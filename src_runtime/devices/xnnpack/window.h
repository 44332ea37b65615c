/* Convolutions and pooling, of floats and of 8-bit integers. */
#ifndef TVMRT_DEVICES_XNNPACK_WINDOW_H_
#define TVMRT_DEVICES_XNNPACK_WINDOW_H_

#include "node.h"

int window_conv(graph* g, const tvmrt_region_node* node);
int window_conv_transpose(graph* g, const tvmrt_region_node* node);
int window_max_pool(graph* g, const tvmrt_region_node* node);
int window_avg_pool(graph* g, const tvmrt_region_node* node);

#endif /* TVMRT_DEVICES_XNNPACK_WINDOW_H_ */
