/* Named tensors: the in-memory struct, and the bytes of params files. */
#ifndef TVMRT_SRC_RUNTIME_TENSORS_PARAMS_H_
#define TVMRT_SRC_RUNTIME_TENSORS_PARAMS_H_

#include "../core/container.h"
#include "tensor.h"

/* Names and tensors of a params file. Zero-initialised is empty. */
typedef struct tvmrt_params {
  char** names;
  tvmrt_tensor** tensors;
  size_t count;
} tvmrt_params;

int tvmrt__params_add(tvmrt_params* params, const char* name, tvmrt_tensor* retained);
/* Add the contents of a map from str to NDArray; `what` names the map for messages. */
TVMRT_SDK int tvmrt__params_add_map(tvmrt_params* params, const tvmrt_map* map, const char* what);
/* The tensor of a name, borrowed; NULL if there is none, or `params` is NULL. */
TVMRT_SDK tvmrt_tensor* tvmrt__params_find(const tvmrt_params* params, const char* name);
/* Return them as a map from str to NDArray. */
TVMRT_SDK int tvmrt__params_return(const tvmrt_params* params, TVMValue* out, int* out_code);
TVMRT_SDK void tvmrt__params_free(tvmrt_params* params);
/* vec<string> names; u64 count; count tensors: the common part of params files and factories.
 * `count_first`: the count precedes the names. */
TVMRT_SDK int tvmrt__params_read(tvmrt_reader* in, bool count_first, tvmrt_params* out);
TVMRT_SDK int tvmrt__params_write(tvmrt_buf* out, bool count_first, const tvmrt_params* params);
/* A whole params blob with its magic number. */
TVMRT_SDK int tvmrt__params_load(const void* data, size_t size, tvmrt_params* out);

#endif
