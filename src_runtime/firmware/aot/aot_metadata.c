/* Ahead-of-time executors: functions that need only the network's metadata.
 *
 * Linked by both runtimes. The host's executor has the metadata in the same struct as the
 * firmware's. */
#include "aot_metadata.h"

#include <tvm/runtime/crt/aot_executor.h>

#include "../../../src_backend/compiler.h"

/* Weights do not count: they are constants of the code. */
int TVMAotExecutor_GetNumInputs(TVMAotExecutor* executor) {
  return (int)executor->metadata->num_inputs;
}

int TVMAotExecutor_GetNumOutputs(TVMAotExecutor* executor) {
  return (int)executor->metadata->num_outputs;
}

/* Compared by character, so that a name which is not spelled in C also matches itself. `| 32` turns
 * letters to lower case, and turns no other character into a letter. */
int tvmrt__aot_c_names_match(const char* c_name, const char* name) {
  for (; *name != '\0'; ++name, ++c_name) {
    char c = *name;
    int plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
    if (*c_name != c && (plain || *c_name != '_')) return 0;
  }
  return *c_name == '\0';
}
