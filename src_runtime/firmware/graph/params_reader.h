/* The bytes of params blobs, read in place, without memory; also used by the host.
 *
 * Numbers are little-endian and may be unaligned. Damage is sticky: `at` then stays after the last
 * bytes that were read, every number is 0 and every address NULL, so callers check `damage`
 * once. */
#ifndef TVMRT_SRC_RUNTIME_FIRMWARE_PARAMS_READER_H_
#define TVMRT_SRC_RUNTIME_FIRMWARE_PARAMS_READER_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#include "../../../src_backend/compiler.h"

/* The first 8 bytes of a blob, and of each tensor in it. */
#define TVMRT_PARAMS_MAGIC UINT64_C(0xF7E58D4F05049CB7)
#define TVMRT_TENSOR_MAGIC UINT64_C(0xDD5E40F096B4A13F)

/* Types of damage, for callers that report errors as text. */
enum {
  TVMRT_READ_OK,
  TVMRT_READ_TRUNCATED,
  TVMRT_READ_COUNT_TOO_LARGE,
  TVMRT_READ_NOT_PARAMS,
  TVMRT_READ_NOT_TENSOR
};

typedef struct tvmrt_byte_reader {
  const uint8_t* at;
  const uint8_t* end;
  int damage;
} tvmrt_byte_reader;

/* The header of a tensor's data. */
typedef struct tvmrt_tensor_header {
  const uint8_t* shape; /* ndim numbers of 8 bytes */
  uint32_t ndim;
  DLDataType dtype;
  size_t data_bytes; /* as stated */
} tvmrt_tensor_header;

/* The next num_bytes; NULL if there are fewer. */
const uint8_t* tvmrt__take_bytes(tvmrt_byte_reader* in, size_t num_bytes);

/* A count of items that follow, of at least one byte each: never more than the remaining bytes. */
size_t tvmrt__take_count(tvmrt_byte_reader* in);

/* Skip the header of a blob. */
void tvmrt__skip_params_header(tvmrt_byte_reader* in);

/* Skip a list of names. Returns their number; each is a count and its bytes in *names, complete. */
size_t tvmrt__skip_names(tvmrt_byte_reader* in, tvmrt_byte_reader* names);

/* Skip all of a tensor except its data. */
void tvmrt__take_tensor_header(tvmrt_byte_reader* in, tvmrt_tensor_header* out);

#endif /* TVMRT_SRC_RUNTIME_FIRMWARE_PARAMS_READER_H_ */
