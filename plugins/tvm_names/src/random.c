/* Fill tensors with random numbers, by the names that operators and tools use.
 *
 * For measurements: the numbers are not zeros, since zeros and denormals may take different times.
 * Each thread has its own sequence, which is equal in each process. */
#include "random.h"

#include <stdlib.h>
#include <string.h>

#include "functions.h"
#include "sdk/tensors.h"
#include "sdk/values.h"

/* Floats from 0 to 10, since callers may divide by them; other types get small random numbers. */
static void fill(const DLTensor* t, uint64_t bytes) {
  /* no lock, and each process starts with the same numbers */
  static _Thread_local uint64_t state = 1;
  char* data = tvmrt__tensor_data(t);
  uint64_t i;
  if (t->dtype.code == kDLFloat && t->dtype.bits == 32) {
    for (i = 0; i + 4 <= bytes; i += 4) {
      float value = (float)(names_next_random(&state) >> 40) * (10.0f / 16777216.0f);
      memcpy(data + i, &value, sizeof(value));
    }
  } else if (t->dtype.code == kDLFloat && t->dtype.bits == 64) {
    for (i = 0; i + 8 <= bytes; i += 8) {
      double value = (double)(names_next_random(&state) >> 11) * (10.0 / 9007199254740992.0);
      memcpy(data + i, &value, sizeof(value));
    }
  } else {
    memset(data, 0, (size_t)bytes);
    for (i = 0; i < bytes; i += (t->dtype.bits + 7u) / 8u)
      data[i] = (char)(names_next_random(&state) & 1);
  }
}

/* (tensor): overwrite its content. */
TVMRT_PLUGIN_NATIVE(names_random_fill) {
  DLTensor* t;
  uint64_t bytes;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_tensor(&in, 0, &t));
  TVMRT_RETURN_IF_ERROR(tvmrt__tensor_bytes(t, &bytes));
  if (t->device.device_type != kDLCPU || !tvmrt__is_compact(t)) {
    return tvmrt__fail_value("%s fills compact CPU tensors only.", in.callee);
  }
  fill(t, bytes);
  return 0;
}
