/* What hosts do for packets: memory that grows, errors with texts, tensors of the runtime. */
#include "wire.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/tensors.h"
#include "sdk/values.h"

int tvmrt__remote_grow(remote_writer* out, size_t bytes) {
  tvmrt_buf buf = {(char*)out->data, out->size, out->capacity};
  if (tvmrt__buf_reserve(&buf, bytes) != 0) return 0;
  out->data = (uint8_t*)buf.data;
  out->capacity = buf.capacity;
  return 1;
}

/* Empty afterwards. */
void tvmrt__rpc_writer_free(remote_writer* out) {
  free(out->data);
  memset(out, 0, sizeof(*out));
}

/* Texts are short; a longer one is cut. */
void tvmrt__remote_set_error(const char* fmt, ...) {
  char text[256];
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(text, sizeof(text), fmt, args);
  va_end(args);
  tvmrt__set_value_error("%s", text);
}

/* The peer takes the elements as contiguous. */
int tvmrt__rpc_check_tensor(const DLTensor* t) {
  if (!tvmrt__has_shape(t)) {
    return tvmrt__fail_value("a tensor whose shape is NULL cannot be passed to a remote function.");
  }
  if (!tvmrt__is_compact(t)) {
    return tvmrt__fail_value("a tensor with strides cannot be passed to a remote function.");
  }
  return 0;
}

/* A size that overflows exceeds all memory. */
size_t tvmrt__remote_tensor_bytes(const DLTensor* t) {
  uint64_t bytes;
  return tvmrt__tensor_bytes(t, &bytes) == 0 && bytes <= SIZE_MAX ? (size_t)bytes : SIZE_MAX;
}
