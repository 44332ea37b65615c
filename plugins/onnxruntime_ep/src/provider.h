/* The execution provider of one session. */
#ifndef TVMRT_ONNXRUNTIME_EP_PROVIDER_H_
#define TVMRT_ONNXRUNTIME_EP_PROVIDER_H_

#include "command.h"
#include "context.h"

typedef struct provider provider; /* its address is that of an OrtEp */

/* `ort` must outlive the provider. */
ort_status* provider_new(const ort_functions* ort, const ort_options* options, provider** out);
void provider_free(provider* of);

#endif /* TVMRT_ONNXRUNTIME_EP_PROVIDER_H_ */
