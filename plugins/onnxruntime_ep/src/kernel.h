/* A compiled part of a graph, as onnxruntime runs it. */
#ifndef TVMRT_ONNXRUNTIME_EP_KERNEL_H_
#define TVMRT_ONNXRUNTIME_EP_KERNEL_H_

#include "job.h"

typedef struct kernel kernel; /* its address is that of an OrtNodeComputeInfo */

/* A kernel from the file of a compiled library, which may be removed later. It has the inputs and
 * outputs of the node `fused`. Any number of threads may run it at once. */
kernel* kernel_load(job* j, const char* path, const ort_node* fused);

/* NULL does nothing. No run may be in progress. */
void kernel_free(kernel* of);

#endif /* TVMRT_ONNXRUNTIME_EP_KERNEL_H_ */
