/* Executors of networks compiled ahead of time: what needs no more than the network's metadata.
 *
 * Linked by both runtimes. The host's executor shows the metadata in the same struct that
 * firmware's has. */
#include "aot_metadata.h"

#include <tvm/runtime/crt/aot_executor.h>

#include "../../src_backend/compiler.h"

/* Without the weights, which are constants of the code here. */
int TVMAotExecutor_GetNumInputs(TVMAotExecutor* executor) {
  return (int)executor->metadata->num_inputs;
}

int TVMAotExecutor_GetNumOutputs(TVMAotExecutor* executor) {
  return (int)executor->metadata->num_outputs;
}

/* Character by character, so that a name which is not spelled in C stands for itself, too. `| 32`
 * makes letters small, and no other character becomes a letter by it. */
int tvmrt__aot_is_spelled(const char* spelled, const char* name) {
  for (; *name != '\0'; ++name, ++spelled) {
    char c = *name;
    int plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
    if (*spelled != c && (plain || *spelled != '_')) return 0;
  }
  return *spelled == '\0';
}
