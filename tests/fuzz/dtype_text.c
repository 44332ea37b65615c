/* Names of element types: a parsed type is printed as a name that parses to the same type. */
#include "fuzz.h"
#include "tensors/tensor.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  char* text = fuzz_text(data, size);
  DLDataType first;
  if (fuzz_succeeded(tvmrt__dtype_from_text(text, &first))) {
    char written[TVMRT_DTYPE_TEXT_BYTES];
    DLDataType second;
    tvmrt__dtype_to_text(first, written);
    FUZZ_REQUIRE(strlen(written) < sizeof(written) - 1); /* nothing was cut off */
    FUZZ_REQUIRE(tvmrt__dtype_from_text(written, &second) == 0);
    FUZZ_REQUIRE(first.code == second.code);
    if (first.code != kDLOpaqueHandle) { /* which is written without its size */
      FUZZ_REQUIRE(first.bits == second.bits && first.lanes == second.lanes);
    }
  }
  free(text);
  return 0;
}
