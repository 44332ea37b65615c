/* The bytes of params blobs, read where they lie, without memory; the host's too.
 *
 * Numbers are little-endian and lie at any address. Damage is sticky: `at` is then behind what was
 * read last, every number is 0 and every address NULL, so that callers look at `damage` once. */
#ifndef TVMRT_SRC_RUNTIME_FIRMWARE_PARAMS_BYTES_H_
#define TVMRT_SRC_RUNTIME_FIRMWARE_PARAMS_BYTES_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#include "../../src_backend/compiler.h"

/* The first 8 bytes of a blob, and of each tensor in it. */
#define TVMRT_PARAMS_MAGIC UINT64_C(0xF7E58D4F05049CB7)
#define TVMRT_TENSOR_MAGIC UINT64_C(0xDD5E40F096B4A13F)

/* What is wrong with bytes, for those who have sentences. */
enum {
  TVMRT_BYTES_WHOLE,
  TVMRT_BYTES_END_EARLY,
  TVMRT_BYTES_COUNT_TOO_MUCH,
  TVMRT_BYTES_NO_PARAMS,
  TVMRT_BYTES_NO_TENSOR
};

typedef struct tvmrt_bytes {
  const uint8_t* at;
  const uint8_t* end;
  int damage;
} tvmrt_bytes;

/* What stands before a tensor's data. */
typedef struct tvmrt_tensor_head {
  const uint8_t* shape; /* ndim numbers of 8 bytes */
  uint32_t ndim;
  DLDataType dtype;
  size_t data_bytes; /* as stated */
} tvmrt_tensor_head;

/* The next num_bytes; NULL if there are fewer. */
const uint8_t* tvmrt__bytes_take(tvmrt_bytes* in, size_t num_bytes);

/* A count of things that follow, of a byte or more each: never more than there are bytes. */
size_t tvmrt__bytes_count(tvmrt_bytes* in);

/* Step over the beginning of a blob. */
void tvmrt__bytes_params(tvmrt_bytes* in);

/* Step over a list of names. Returns how many there are; each is then a count and its bytes in *names,
 * which surely has them. */
size_t tvmrt__bytes_names(tvmrt_bytes* in, tvmrt_bytes* names);

/* Step over all of a tensor but its data. */
void tvmrt__bytes_tensor(tvmrt_bytes* in, tvmrt_tensor_head* out);

#endif /* TVMRT_SRC_RUNTIME_FIRMWARE_PARAMS_BYTES_H_ */
