/* Firmware runtime: parameters from a params blob: used where they lie, or copied if their address
 * does not suit them. */

#include "../../src_backend/bytes.h"
#include "dtype.h"
#include "graph.h"

enum { LEAST_ALIGN_BYTES = 4 };

typedef struct bytes {
  const uint8_t* at;
  const uint8_t* end;
  int damaged;
} bytes;

/* The next num_bytes; something readable of that length even where there are none left. */
static const uint8_t* take(bytes* in, uint32_t num_bytes) {
  const uint8_t* at = in->at;
  if ((size_t)(in->end - at) < num_bytes) in->damaged = 1;
  if (in->damaged) return NULL;
  in->at = at + num_bytes;
  return at;
}

static uint32_t read_u32(bytes* in) {
  const uint8_t* p = take(in, 4);
  if (p == NULL) return 0;
  return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* A 64-bit number that is a size, so it must be below 2^31. */
static uint32_t read_size(bytes* in) {
  uint32_t low = read_u32(in);
  if (read_u32(in) != 0 || low > INT32_MAX) in->damaged = 1;
  return in->damaged ? 0 : low;
}

static void expect_u64(bytes* in, uint32_t low, uint32_t high) {
  if (read_u32(in) != low) in->damaged = 1;
  if (read_u32(in) != high) in->damaged = 1;
}

/* An array's type, size and data. */
static const uint8_t* read_array(bytes* in, DLDataType* dtype, uint32_t* num_bytes) {
  const uint8_t* p;
  uint32_t ndim;
  expect_u64(in, 0x96b4a13f, 0xdd5e40f0);
  (void)take(in, 8 + 8); /* reserved, device */
  ndim = read_u32(in);
  p = take(in, 4);
  if (p != NULL) memcpy(dtype, p, 4);
  if (ndim > 0xffff) in->damaged = 1;
  (void)take(in, ndim * 8);
  *num_bytes = read_size(in);
  return take(in, *num_bytes);
}

static int is_aligned(const uint8_t* data, DLDataType dtype) {
  uintptr_t align = dtype.bits / 8u;
  if (align < LEAST_ALIGN_BYTES) align = LEAST_ALIGN_BYTES;
  return ((uintptr_t)data & (align - 1)) == 0;
}

/* An array for an input: bind it, or count in *copy_bytes what a copy takes. */
static tvm_crt_error_t visit(TVMGraphExecutor* g, uint32_t input, const uint8_t* data,
                             DLDataType dtype, uint32_t num_bytes, size_t* copy_bytes) {
  const DLTensor* own = tvmrt_graph_input(g, (int32_t)input);
  int ok;
  if (own == NULL) return kTvmErrorNoError; /* a name that is no input's is passed over */
  if (!tvmrt__same_type(own->dtype, dtype) || tvmrt__graph_bytes(own, &ok) != num_bytes) {
    return kTvmErrorGraphTensorMismatch;
  }
  if (is_aligned(data, dtype)) {
    if (copy_bytes == NULL) tvmrt__graph_bind(g, input, (void*)(uintptr_t)data);
  } else if (copy_bytes != NULL) {
    *copy_bytes += TVMRT_GRAPH_ROUND_UP(num_bytes);
  } else {
    memcpy(g->at, data, num_bytes);
    tvmrt__graph_bind(g, input, g->at);
    g->at += TVMRT_GRAPH_ROUND_UP(num_bytes);
  }
  return kTvmErrorNoError;
}

/* Go through a blob once: counting what must be copied, or, without `copy_bytes`, binding. */
static tvm_crt_error_t walk(TVMGraphExecutor* g, bytes in, size_t* copy_bytes) {
  tvm_crt_error_t rc = kTvmErrorNoError;
  bytes names;
  uint32_t count;
  uint32_t i;
  expect_u64(&in, 0x05049cb7, 0xf7e58d4f);
  (void)take(&in, 8); /* reserved */
  count = read_size(&in);
  names = in;
  for (i = 0; i < count && !in.damaged; ++i) (void)take(&in, read_size(&in));
  if (read_size(&in) != count) in.damaged = 1;
  for (i = 0; i < count && !in.damaged && rc == kTvmErrorNoError; ++i) {
    DLDataType dtype = {0, 0, 0};
    uint32_t num_bytes;
    uint32_t name_bytes = read_size(&names);
    const char* name = (const char*)take(&names, name_bytes);
    const uint8_t* data = read_array(&in, &dtype, &num_bytes);
    if (in.damaged) break;
    rc = visit(g, tvmrt__graph_find_input(g, name, name_bytes), data, dtype, num_bytes, copy_bytes);
  }
  return in.damaged ? kTvmErrorGraphParamsDamaged : rc;
}

int TVMGraphExecutor_LoadParams(TVMGraphExecutor* executor, const char* param_blob,
                                uint32_t param_size) {
  bytes in;
  size_t copy_bytes = 0;
  tvm_crt_error_t rc;
  if (param_blob == NULL) return kTvmErrorGraphParamsDamaged;
  in.at = (const uint8_t*)param_blob;
  in.end = in.at + param_size;
  in.damaged = 0;
  rc = walk(executor, in, &copy_bytes);
  if (rc == kTvmErrorNoError) rc = tvmrt__graph_reserve(executor, copy_bytes);
  return rc == kTvmErrorNoError ? walk(executor, in, NULL) : rc;
}
