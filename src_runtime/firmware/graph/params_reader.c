/* The bytes of params blobs.
 *
 * Little-endian, as TVM writes them: magic, reserved, names, tensors. Each step reads bytes up to
 * an end and stores a number on damage; after that nothing is read and counts are 0, so that loops
 * need no test of their own. Nothing is copied or aligned: callers do that. */
#include "params_reader.h"

/* The first damage is kept: nothing after it is read. */
const uint8_t* tvmrt__take_bytes(tvmrt_byte_reader* in, size_t num_bytes) {
  const uint8_t* at = in->at;
  if (in->damage != TVMRT_READ_OK) return NULL;
  if ((size_t)(in->end - at) < num_bytes) {
    in->damage = TVMRT_READ_TRUNCATED;
    return NULL;
  }
  in->at = at + num_bytes;
  return at;
}

/* Byte by byte, as the numbers may be unaligned. */
static uint32_t u32_at(const uint8_t* p) {
  return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t read_u64(tvmrt_byte_reader* in) {
  const uint8_t* p = tvmrt__take_bytes(in, 8);
  return p == NULL ? 0 : u32_at(p) | (uint64_t)u32_at(p + 4) << 32;
}

/* A size beyond the address space becomes the maximum, which is never available. */
static size_t read_size(tvmrt_byte_reader* in) {
  const uint64_t size = read_u64(in);
  return size > SIZE_MAX ? SIZE_MAX : (size_t)size;
}

/* A count of bytes or of items that take at least one: loops by it end within the blob. */
size_t tvmrt__take_count(tvmrt_byte_reader* in) {
  const size_t count = read_size(in);
  if (count <= (size_t)(in->end - in->at)) return count;
  in->damage = TVMRT_READ_COUNT_TOO_LARGE;
  return 0;
}

/* The first damage is kept: if the bytes end too early, the magic is not blamed. */
static void expect(tvmrt_byte_reader* in, uint64_t magic, int damage) {
  if (read_u64(in) != magic && in->damage == TVMRT_READ_OK) in->damage = damage;
  (void)tvmrt__take_bytes(in, 8); /* reserved */
}

void tvmrt__skip_params_header(tvmrt_byte_reader* in) {
  expect(in, TVMRT_PARAMS_MAGIC, TVMRT_READ_NOT_PARAMS);
}

/* Skipped here and read later together with the tensors; each tensor has one name. */
size_t tvmrt__skip_names(tvmrt_byte_reader* in, tvmrt_byte_reader* names) {
  size_t count = tvmrt__take_count(in);
  size_t i;
  *names = *in;
  for (i = 0; i < count && in->damage == TVMRT_READ_OK; ++i) {
    (void)tvmrt__take_bytes(in, tvmrt__take_count(in));
  }
  return count;
}

/* More than 65535 dimensions are rejected: the size is never available, and the product does not
 * overflow. */
void tvmrt__take_tensor_header(tvmrt_byte_reader* in, tvmrt_tensor_header* out) {
  uint64_t rank_and_type;
  expect(in, TVMRT_TENSOR_MAGIC, TVMRT_READ_NOT_TENSOR);
  (void)tvmrt__take_bytes(in, 8); /* device: ignored */
  rank_and_type = read_u64(in);
  out->ndim = (uint32_t)rank_and_type;
  out->dtype.code = (uint8_t)(rank_and_type >> 32);
  out->dtype.bits = (uint8_t)(rank_and_type >> 40);
  out->dtype.lanes = (uint16_t)(rank_and_type >> 48);
  out->shape = tvmrt__take_bytes(in, out->ndim > 0xffff ? SIZE_MAX : (size_t)out->ndim * 8);
  out->data_bytes = read_size(in);
}
