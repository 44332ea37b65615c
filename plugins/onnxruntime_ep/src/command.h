/* Run the compiler of tvmrt, a command, on a model. */
#ifndef TVMRT_ONNXRUNTIME_EP_COMMAND_H_
#define TVMRT_ONNXRUNTIME_EP_COMMAND_H_

#include "text.h"

/* The provider options that the compiler needs; texts are owned. */
typedef struct compiler {
  char* command;   /* words separated by spaces, or by line breaks if one of them has a space */
  char* dims;      /* bounds of dynamic dimensions, separated by commas, or NULL */
  char* min_nodes; /* a part of a graph has this many nodes or more, or NULL */
  char* target;    /* processor to compile for, or NULL for this machine */
} compiler;

/* Write the model to a temporary folder, run the command there, and read its result: a library, or
 * for `parts` a text with a line of node indices per part of the graph. */
ort_status* run_compiler(const ort_functions* ort, const compiler* with, const bytes* model,
                         bool parts, bytes* result);

/* Set the default command; for a host that knows it, such as Python. NULL resets it to "tvmrt".
 * Returns -1 for a command of 4,096 bytes or more. Exported. */
int tvmrt_onnxruntime_ep_set_command(const char* command);
/* A copy of the default command, owned by the caller; NULL without memory. */
char* new_default_command(void);

#endif /* TVMRT_ONNXRUNTIME_EP_COMMAND_H_ */
