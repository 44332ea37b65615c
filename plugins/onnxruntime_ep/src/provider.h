/* The execution provider of one session, and its parts. */
#ifndef TVMRT_ONNXRUNTIME_EP_PROVIDER_H_
#define TVMRT_ONNXRUNTIME_EP_PROVIDER_H_

#include "job.h"

#define EP_NAME "tvmrt"

enum { VERSION_BYTES = sizeof(TVMRT_SDK_VERSION) };
typedef struct factory {
  ort_own table; /* first: its address is that of an OrtEpFactory */
  ort_functions ort;
  char version[VERSION_BYTES]; /* onnxruntime accepts numbers and "." */
} factory;

/* Options of a provider and of the session; NULL where none is given. */
typedef enum option {
  OPTION_COMMAND, /* words as in a shell */
  OPTION_DIMS,
  OPTION_MIN_NODES,
  OPTION_TARGET,
  OPTION_CONTEXT_IS_WRITTEN,
  NUM_OPTIONS
} option;

typedef struct provider {
  ort_own table; /* first: its address is that of an OrtEp */
  const ort_functions* ort;
  char* options[NUM_OPTIONS]; /* owned */
  char* wrong_option;         /* error of an option that the compiler found, or NULL; owned */
} provider;

/* CreateEp and ReleaseEp of the factory. */
ort_status* provider_create(void* self, const ort_hardware* const* hardware,
                            const void* const* metadata, size_t count, const ort_options* options,
                            const void* logger, provider** out);
void provider_release(void* self, provider* of);
/* The name of the provider, of its factory and of its vendor, whose tables call it. */
const char* provider_name(const void* self);

/* ---- the nodes that onnxruntime gives the plug-in, as an ONNX model ---- */

/* Append a serialized ModelProto of the graph to `to`. Its inputs and outputs are those of
 * `boundary`, in that order, without constants; without `boundary`, those of the graph. */
void write_model(job* j, const ort_graph* graph, const ort_node* boundary, tvmrt_buf* to);

/* ---- the compiler, a command ---- */

/* Run the command on a model; the path of its result, a file of the job: a library, or for `parts` a
 * text with a line of node indices per part of the graph. An error with the code
 * ORT_INVALID_ARGUMENT is one of an option; p->wrong_option has its text then. */
char* run_compiler(job* j, provider* p, const tvmrt_buf* model, bool parts);

/* Set the default command, "tvmrt" at first; for a host that knows it, such as Python. Returns -1 for
 * a command of 4,096 bytes or more. Not while another thread uses the library. Exported. */
TVM_DLL int tvmrt_onnxruntime_ep_set_command(const char* command);

/* ---- a compiled part of a graph, as onnxruntime runs it ---- */

typedef struct kernel kernel; /* its address is that of an OrtNodeComputeInfo */

/* A kernel from the file of a compiled library, which may be removed later. It has the inputs and
 * outputs of the node `fused`. Any number of threads may run it at once. */
kernel* kernel_load(job* j, const char* path, const ort_node* fused);
/* NULL does nothing. No run may be in progress. */
void kernel_free(kernel* of);

/* ---- EPContext nodes: compiled parts inside an ONNX model ---- */

/* Whether the node is an EPContext node of this plug-in. */
bool context_is_ours(job* j, const ort_node* node);
/* The kernel of an EPContext node, which runs in the place of `fused`. */
kernel* context_load(job* j, const ort_node* node, const ort_node* fused);
/* An EPContext node in the place of `fused`, with a library. onnxruntime takes ownership. */
ort_node* context_node(job* j, const ort_node* fused, const char* path);

#endif /* TVMRT_ONNXRUNTIME_EP_PROVIDER_H_ */
