/* A compiled part of a graph, as onnxruntime runs it. */
#ifndef TVMRT_ONNXRUNTIME_EP_KERNEL_H_
#define TVMRT_ONNXRUNTIME_EP_KERNEL_H_

#include "text.h"

typedef struct kernel kernel; /* its address is that of an OrtNodeComputeInfo */

/* A kernel from the file of a compiled library. `num_inputs` and `num_outputs` are those of the
 * node. Any number of threads may run it at once. */
ort_status* kernel_load(const ort_functions* ort, const char* path, size_t num_inputs,
                        size_t num_outputs, kernel** out);

/* A kernel from the content of a compiled library. */
ort_status* kernel_from_bytes(const ort_functions* ort, const void* data, size_t size,
                              size_t num_inputs, size_t num_outputs, kernel** out);

/* NULL does nothing. No run may be in progress. */
void kernel_free(kernel* of);

#endif /* TVMRT_ONNXRUNTIME_EP_KERNEL_H_ */
