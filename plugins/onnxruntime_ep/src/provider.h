/* The execution provider of one session. */
#ifndef TVMRT_ONNXRUNTIME_EP_PROVIDER_H_
#define TVMRT_ONNXRUNTIME_EP_PROVIDER_H_

#include "job.h"
#include "kernel.h"

#define EP_NAME "tvmrt"

/* Options of a provider and of the session; NULL where none is given. */
typedef enum option {
  OPTION_COMMAND, /* words separated by spaces, or by line breaks if one of them has a space */
  OPTION_DIMS,
  OPTION_MIN_NODES,
  OPTION_TARGET,
  OPTION_CONTEXT_PATH, /* of the model that onnxruntime writes */
  OPTION_CONTEXT_IS_WRITTEN,
  OPTION_CONTEXT_IS_EMBEDDED,
  NUM_OPTIONS
} option;

typedef struct provider {
  ort_own table; /* first: its address is that of an OrtEp */
  const ort_functions* ort;
  char* options[NUM_OPTIONS]; /* owned */
} provider;

/* `ort` must outlive the provider. */
ort_status* provider_new(const ort_functions* ort, const ort_options* options, provider** out);
void provider_free(provider* of);

/* ---- the compiler, a command ---- */

/* Run the command on a model; the path of its result, a file of the job: a library, or for `parts` a
 * text with a line of node indices per part of the graph. */
char* run_compiler(job* j, const provider* p, const tvmrt_buf* model, bool parts);

/* Set the default command; for a host that knows it, such as Python. NULL resets it to "tvmrt".
 * Returns -1 for a command of 4,096 bytes or more. Exported. */
TVM_DLL int tvmrt_onnxruntime_ep_set_command(const char* command);

/* ---- EPContext nodes: compiled parts inside an ONNX model ---- */

/* Whether the node is an EPContext node of this plug-in. */
bool context_is_ours(job* j, const ort_node* node);
/* The kernel of an EPContext node, which runs in the place of `fused`. */
kernel* context_load(job* j, const provider* p, const ort_graph* graph, const ort_node* node,
                     const ort_node* fused);
/* An EPContext node in the place of `fused`, with a library. onnxruntime takes ownership. */
ort_node* context_node(job* j, const provider* p, const ort_graph* graph, const ort_node* fused,
                       const char* library);

#endif /* TVMRT_ONNXRUNTIME_EP_PROVIDER_H_ */
