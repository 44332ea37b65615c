/* The bytes of params blobs.
 *
 * Little-endian, as TVM writes them: magic, reserved, names, tensors. Each step takes bytes in
 * front of an end and notes what is wrong as a number; after that nothing is read any more and
 * counts are 0, so that loops need no test of their own. Nothing is copied or aligned: callers do
 * that. */
#include "params_bytes.h"

/* What is wrong first is told: what follows it is not looked at. */
const uint8_t* tvmrt__bytes_take(tvmrt_bytes* in, size_t num_bytes) {
  const uint8_t* at = in->at;
  if (in->damage != TVMRT_BYTES_WHOLE) return NULL;
  if ((size_t)(in->end - at) < num_bytes) {
    in->damage = TVMRT_BYTES_END_EARLY;
    return NULL;
  }
  in->at = at + num_bytes;
  return at;
}

/* Byte by byte: the numbers lie at any address. */
static uint32_t u32_at(const uint8_t* p) {
  return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t read_u64(tvmrt_bytes* in) {
  const uint8_t* p = tvmrt__bytes_take(in, 8);
  return p == NULL ? 0 : u32_at(p) | (uint64_t)u32_at(p + 4) << 32;
}

/* What is more than any memory reads as all of it, so that so much is never left. */
static size_t read_size(tvmrt_bytes* in) {
  const uint64_t size = read_u64(in);
  return size > SIZE_MAX ? SIZE_MAX : (size_t)size;
}

/* A count of bytes or of things that take one at least: loops by it end within the blob. */
size_t tvmrt__bytes_count(tvmrt_bytes* in) {
  const size_t count = read_size(in);
  if (count <= (size_t)(in->end - in->at)) return count;
  in->damage = TVMRT_BYTES_COUNT_TOO_MUCH;
  return 0;
}

/* What was wrong first stays: bytes that end too early are no wrong magic. */
static void expect(tvmrt_bytes* in, uint64_t magic, int damage) {
  if (read_u64(in) != magic && in->damage == TVMRT_BYTES_WHOLE) in->damage = damage;
  (void)tvmrt__bytes_take(in, 8); /* reserved */
}

void tvmrt__bytes_params(tvmrt_bytes* in) { expect(in, TVMRT_PARAMS_MAGIC, TVMRT_BYTES_NO_PARAMS); }

/* Stepped over here and read later beside the tensors, of which each name is one's. */
size_t tvmrt__bytes_names(tvmrt_bytes* in, tvmrt_bytes* names) {
  size_t count = tvmrt__bytes_count(in);
  size_t i;
  *names = *in;
  for (i = 0; i < count && in->damage == TVMRT_BYTES_WHOLE; ++i) {
    (void)tvmrt__bytes_take(in, tvmrt__bytes_count(in));
  }
  return count;
}

/* More than 65535 dimensions cannot be: so much is never left, and the product does not wrap. */
void tvmrt__bytes_tensor(tvmrt_bytes* in, tvmrt_tensor_head* out) {
  uint64_t rank_and_type;
  expect(in, TVMRT_TENSOR_MAGIC, TVMRT_BYTES_NO_TENSOR);
  (void)tvmrt__bytes_take(in, 8); /* device: the data are here anyway */
  rank_and_type = read_u64(in);
  out->ndim = (uint32_t)rank_and_type;
  out->dtype.code = (uint8_t)(rank_and_type >> 32);
  out->dtype.bits = (uint8_t)(rank_and_type >> 40);
  out->dtype.lanes = (uint16_t)(rank_and_type >> 48);
  out->shape = tvmrt__bytes_take(in, out->ndim > 0xffff ? SIZE_MAX : (size_t)out->ndim * 8);
  out->data_bytes = read_size(in);
}
