/* The execution provider of one session, and its parts. */
#ifndef TVMRT_ONNXRUNTIME_EP_PROVIDER_H_
#define TVMRT_ONNXRUNTIME_EP_PROVIDER_H_

#include <tvm/runtime/dims.h>

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
  OPTION_ALLOW_COMPILED, /* "0", "1" or digests; see trust_check_library() */
  OPTION_COMMAND,        /* words as in a shell */
  OPTION_DIMS,
  OPTION_IDLE_EXECUTORS,
  OPTION_MIN_NODES,
  OPTION_TARGET,
  OPTION_CONTEXT_IS_WRITTEN,
  NUM_OPTIONS
} option;

/* A part of the graph whose library get_capability() compiled. */
typedef struct part {
  const char *output, *library; /* the name of a value that a node of the part computes; a path */
} part;

typedef struct provider {
  ort_own table; /* first: its address is that of an OrtEp */
  const ort_functions* ort;
  char* options[NUM_OPTIONS]; /* owned */
  size_t max_idle;            /* executors of each kernel that wait for a run */
  char* wrong_option;         /* error of an option that the compiler found, or NULL; owned */
  job claimed;                /* owns the parts and their files until they are loaded */
  part* parts;
  size_t num_parts;
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

/* ---- the compiler, a function of the host or a command ---- */

/* Compile a model; the path of the result, a file of the job: a library, or for `parts` a text with a
 * line of node indices per part of the graph, whose library is the file INDEX.so next to it, with the
 * first of these indices. An error with the code ORT_INVALID_ARGUMENT is one of an option;
 * p->wrong_option has its text then. */
char* run_compiler(job* j, provider* p, const tvmrt_buf* model, bool parts);

/* A compiler in the host's process. Reads the file `model` and writes `result`, as run_compiler()
 * describes it; options that were not set are NULL. Returns 0, or another number after it wrote its
 * error to the file `output`. */
typedef int (*tvmrt_onnxruntime_ep_compiler)(const char* model, const char* result,
                                             const char* output, int parts, const char* dims,
                                             const char* min_nodes, const char* target);
/* Set the compiler of sessions without the option `command`, for a host that has one, such as Python;
 * NULL: the command "tvmrt". Not while another thread uses the library. Exported. */
TVM_DLL void tvmrt_onnxruntime_ep_set_compiler(tvmrt_onnxruntime_ep_compiler compiler);

/* ---- a compiled part of a graph, as onnxruntime runs it ---- */

typedef struct kernel kernel; /* its address is that of an OrtNodeComputeInfo */

/* A kernel from the file of a compiled library, which may be removed later. An error unless its
 * inputs and outputs are those of the node `fused`. Any number of threads may run it at once; the
 * buffers of at most `max_idle` runs are kept for later ones. */
kernel* kernel_load(job* j, const char* path, const ort_node* fused, size_t max_idle);
/* NULL does nothing. No run may be in progress. */
void kernel_free(kernel* of);

/* An input or output of a compiled library. */
typedef struct library_port {
  bool is_input;
  size_t index;
  const char* name;
  const DLTensor* tensor;        /* with the largest extents */
  const tvmrt_dims_tensor* dims; /* bounds of the extents; NULL: all are fixed */
} library_port;
/* Fail unless name, element type and shape are those of a value of the model. */
void boundary_check(job* j, const ort_value_info* info, const library_port* port);

/* ---- EPContext nodes: compiled parts inside an ONNX model ---- */

/* Whether the node is an EPContext node of this plug-in. */
bool context_is_ours(job* j, const ort_node* node);
/* The kernel of an EPContext node, which runs in the place of `fused`. The only function that loads
 * code of a model. */
kernel* context_load(job* j, const provider* p, const ort_node* node, const ort_node* fused);
/* An EPContext node in the place of `fused`, with a library. onnxruntime takes ownership. */
ort_node* context_node(job* j, const ort_node* fused, const char* path);

/* Fail unless a text is a value of the option allow_compiled. */
void trust_check_option(job* j, const char* value);
/* Fail unless the option allows a library: "1" does if its digest is `stored`, the one in its node,
 * which finds damage; a list of digests if it contains that of the library. NULL is "0". */
bool trust_check_library(job* j, const char* allowed, const char* stored, const char* library,
                         size_t size);

#endif /* TVMRT_ONNXRUNTIME_EP_PROVIDER_H_ */
