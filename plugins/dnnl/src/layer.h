/* A region as one oneDNN primitive: a convolution or matmul and the pointwise nodes after it. */
#ifndef TVMRT_PLUGINS_DNNL_LAYER_H_
#define TVMRT_PLUGINS_DNNL_LAYER_H_

#include <oneapi/dnnl/dnnl.h>
#include <tvm/runtime/device.h>

/* State of the device for the process. */
typedef struct {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  TVMFunctionHandle num_threads; /* of the runtime's thread pool */
} onednn;

typedef struct layer layer;

/* Make the layer for a number of threads and the strides of the current call or, outside of calls,
 * those that the compiler is asked for. NULL with the error text and the failed node set. */
layer* layer_new(tvmrt_region* region, const onednn* lib, int threads);
void layer_free(layer* l);
/* The layer was made for other strides or another number of threads. */
#define LAYER_STALE 1
int layer_run(layer* l, int threads);

#endif
