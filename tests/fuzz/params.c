/* Params files: what is read is written as bytes that read the same again. */
#include "tensors/params.h"

#include "base/stream.h"
#include "fuzz.h"

static int writable(const tvmrt_params* params) {
  size_t i;
  for (i = 0; i < params->count; ++i) {
    if (params->tensors[i]->dl.dtype.lanes != 1) return 0;
  }
  return 1;
}

static void save(tvmrt_buf* out, const tvmrt_params* params) {
  FUZZ_REQUIRE(tvmrt__write_uint(out, 8, TVMRT_PARAMS_MAGIC) == 0);
  FUZZ_REQUIRE(tvmrt__write_uint(out, 8, 0) == 0);
  FUZZ_REQUIRE(tvmrt__params_write(out, false, params) == 0);
}

static void check_round_trip(const tvmrt_params* params) {
  tvmrt_buf first = {NULL, 0, 0};
  tvmrt_buf second = {NULL, 0, 0};
  tvmrt_params again;
  save(&first, params);
  FUZZ_REQUIRE(tvmrt__params_load(first.data, first.size, &again) == 0);
  save(&second, &again);
  FUZZ_REQUIRE(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
  tvmrt__params_free(&again);
  tvmrt__buf_free(&first);
  tvmrt__buf_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tvmrt_params params;
  if (!fuzz_succeeded(tvmrt__params_load(data, size, &params))) return 0;
  if (writable(&params)) check_round_trip(&params);
  tvmrt__params_free(&params);
  return 0;
}
