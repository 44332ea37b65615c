/* Names of a firmware image's functions, in both encodings of the count, compared with a linear
   search. */
#include <tvm/runtime/crt/module.h>

#include "fuzz.h"

enum { MAX_NAME_BYTES = 512, MAX_NAMES = 1024 };

static int nothing(TVMValue* args, int* type_codes, int num_args, TVMValue* out, int* out_code,
                   void* resource_handle) {
  (void)args;
  (void)type_codes;
  (void)num_args;
  (void)out;
  (void)resource_handle;
  *out_code = kTVMNullptr;
  return 0;
}

/* The first index of `name`, count if there is none. */
static unsigned search(const char* names, unsigned count, const char* name) {
  unsigned i;
  for (i = 0; i < count && strcmp(names, name) != 0; ++i) names += strlen(names) + 1;
  return i;
}

static void check_name(const TVMFuncRegistry* table, TVMModuleHandle mod, const char* name) {
  unsigned count = TVMFuncRegistry_GetNumFuncs(table);
  unsigned expected =
      count == 0 ? 0 : search(TVMFuncRegistry_Get0thFunctionName(table), count, name);
  tvm_function_index_t index = 0;
  TVMFunctionHandle function = NULL;
  if (TVMFuncRegistry_Lookup(table, name, &index) == kTvmErrorNoError) {
    FUZZ_REQUIRE(index == expected && expected < count);
  } else {
    FUZZ_REQUIRE(expected == count);
  }
  FUZZ_REQUIRE(TVMModGetFunction(mod, name, 0, &function) == 0);
  FUZZ_REQUIRE((function != NULL) == (expected < count));
  FUZZ_REQUIRE(TVMFuncFree(function) == 0);
}

/* Tables are compiled in, so that a well-formed one ends in as many NULs as its count requires. */
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static TVMCPackedFunc functions[MAX_NAMES];
  static char names[MAX_NAME_BYTES + MAX_NAMES];
  TVMFuncRegistry table = {names, functions};
  TVMModule image = {&table};
  TVMModuleHandle mod = NULL;
  size_t i;
  if (size > MAX_NAME_BYTES) return 0;
  for (i = 0; i < MAX_NAMES; ++i) functions[i] = nothing;
  memset(names, 0, sizeof(names));
  if (size != 0) memcpy(names, data, size);
  if (TVMFuncRegistry_GetNumFuncs(&table) > MAX_NAMES) return 0;
  FUZZ_REQUIRE(TVMModCreateFromCModule(&image, &mod) == 0);
  check_name(&table, mod, "");
  check_name(&table, mod, "run");
  for (i = 0; i < size; ++i) {
    if (i == 0 || names[i - 1] == '\0') check_name(&table, mod, names + i);
  }
  FUZZ_REQUIRE(TVMModFree(mod) == 0);
  return 0;
}
