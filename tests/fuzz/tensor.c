/* One serialised tensor: it is written as the very bytes that were read. */
#include "tensors/tensor.h"

#include "fuzz.h"

/* Bytes that are read but not kept: reserved, and the device, which is the CPU afterwards. */
enum { RESERVED_AT = 8, AFTER_RESERVED_AT = 24 };

static void check_bytes(const tvmrt_tensor* t, const uint8_t* data, size_t read) {
  tvmrt_buf written = {NULL, 0, 0};
  FUZZ_REQUIRE(tvmrt__tensor_write(&written, &t->dl) == 0);
  FUZZ_REQUIRE(written.size == read);
  FUZZ_REQUIRE(memcmp(written.data, data, RESERVED_AT) == 0);
  FUZZ_REQUIRE(memcmp(written.data + AFTER_RESERVED_AT, data + AFTER_RESERVED_AT,
                      read - AFTER_RESERVED_AT) == 0);
  tvmrt__buf_free(&written);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tvmrt_reader in;
  tvmrt_tensor* t;
  tvmrt__reader_init(&in, "the tensor", data, size);
  t = tvmrt__tensor_read(&in);
  if (!fuzz_succeeded(t == NULL ? -1 : 0)) return 0;
  FUZZ_REQUIRE(t->dl.device.device_type == kDLCPU);
  if (t->dl.dtype.lanes == 1) check_bytes(t, data, (size_t)(in.bytes.at - in.begin));
  tvmrt__tensor_release(t);
  return 0;
}
