/* Declarations shared by the fuzz targets. Each defines LLVMFuzzerTestOneInput for one reader of
   bytes. */
#ifndef TVMRT_TESTS_FUZZ_FUZZ_H_
#define TVMRT_TESTS_FUZZ_FUZZ_H_

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

/* Called by libFuzzer with each input; always returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

/* Stop with the current input if a property does not hold. */
#define FUZZ_REQUIRE(condition)                                             \
  do {                                                                      \
    if (!(condition)) {                                                     \
      (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      abort();                                                              \
    }                                                                       \
  } while (0)

/* 0 is returned unchanged; other codes must be -1 with an error text. Returns whether the call
   succeeded. */
static inline int fuzz_succeeded(int rc) {
  if (rc == 0) return 1;
  FUZZ_REQUIRE(rc == -1);
  FUZZ_REQUIRE(TVMGetLastError()[0] != '\0');
  TVMAPISetLastError("");
  return 0;
}

/* A copy of the input that ends in a NUL; the caller frees it. */
static inline char* fuzz_text(const uint8_t* data, size_t size) {
  char* text = malloc(size + 1);
  FUZZ_REQUIRE(text != NULL);
  if (size != 0) memcpy(text, data, size);
  text[size] = '\0';
  return text;
}

#endif
