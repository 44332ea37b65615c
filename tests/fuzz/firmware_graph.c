/* Graph JSON and params as the firmware library reads them, in memory of any size: accepted
   graphs run, and their operators stay within their tensors. */
#include <tvm/runtime/crt/graph_arena.h>

#include "fuzz.h"

enum { MAX_ARENA_BYTES = 1 << 16, MAX_INPUTS = 8 };

static size_t bytes_of(const DLTensor* t) {
  size_t bytes = ((size_t)t->dtype.bits * t->dtype.lanes + 7) / 8;
  int32_t i;
  for (i = 0; i < t->ndim; ++i) bytes *= (size_t)t->shape[i];
  return bytes;
}

/* Reads every byte of its tensors and writes the last one; the sanitizer knows where they end. */
static int touch_all(TVMValue* args, int* type_codes, int num_args, TVMValue* out, int* out_code,
                     void* resource_handle) {
  unsigned sum = 0;
  int i;
  (void)out, (void)resource_handle;
  for (i = 0; i < num_args; ++i) {
    const DLTensor* t = args[i].v_handle;
    const unsigned char* data = t->data;
    size_t bytes = bytes_of(t);
    FUZZ_REQUIRE(type_codes[i] == kTVMDLTensorHandle && data != NULL && t->strides == NULL);
    for (size_t k = 0; k < bytes; ++k) sum += data[k];
    if (i == num_args - 1) memset(t->data, (int)sum, bytes);
  }
  *out_code = kTVMNullptr;
  return 0;
}

static const TVMCPackedFunc functions[] = {touch_all, touch_all, touch_all};
static const TVMFuncRegistry registry = {"\003f\0fixture_add\0fixture_double", functions};
static const TVMModule module = {&registry};

/* Memory for every input that the params have not set. Returns the number of blocks to free. */
static int set_inputs(TVMGraphExecutor* ex, void** blocks) {
  int count = 0;
  int i;
  for (i = 0; i < TVMGraphExecutor_GetNumInputs(ex) && count < MAX_INPUTS; ++i) {
    DLTensor t = *tvmrt_graph_input(ex, i);
    char name[8];
    FUZZ_REQUIRE(t.data == NULL || bytes_of(&t) <= MAX_ARENA_BYTES);
    if (t.data != NULL || bytes_of(&t) > MAX_ARENA_BYTES) continue;
    t.data = calloc(1, bytes_of(&t) + 1);
    FUZZ_REQUIRE(t.data != NULL);
    blocks[count++] = t.data;
    for (name[0] = 'a', name[1] = '\0'; name[0] <= 'z'; ++name[0]) {
      if (TVMGraphExecutor_GetInputIndex(ex, name) == i) {
        FUZZ_REQUIRE(TVMGraphExecutor_SetInput(ex, name, &t) == 0);
      }
    }
  }
  return count;
}

static void use(TVMGraphExecutor* ex, const char* params, size_t size) {
  void* blocks[MAX_INPUTS];
  int count;
  int i;
  (void)TVMGraphExecutor_LoadParams(ex, params, (uint32_t)size);
  count = set_inputs(ex, blocks);
  (void)TVMGraphExecutor_Run(ex);
  for (i = 0; i < TVMGraphExecutor_GetNumOutputs(ex); ++i) {
    FUZZ_REQUIRE(tvmrt_graph_output(ex, i) != NULL);
  }
  FUZZ_REQUIRE(TVMGraphExecutor_Release(&ex) == 0);
  while (count > 0) free(blocks[--count]);
}

/* Input: size of the memory, size of the JSON (2 bytes each, little-endian), JSON, params. */
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  TVMGraphExecutor* ex = NULL;
  size_t arena_bytes;
  size_t json_bytes;
  size_t used = 0;
  char* json;
  char* params;
  void* arena;
  if (size < 4) return 0;
  arena_bytes = (size_t)data[0] | (size_t)data[1] << 8;
  json_bytes = (size_t)data[2] | (size_t)data[3] << 8;
  data += 4, size -= 4;
  if (json_bytes > size) json_bytes = size;
  /* separate blocks, so that reads past their ends are found */
  json = malloc(json_bytes + (json_bytes == 0));
  params = malloc(size - json_bytes + 1);
  arena = malloc(arena_bytes + (arena_bytes == 0));
  FUZZ_REQUIRE(json != NULL && params != NULL && arena != NULL);
  memcpy(json, data, json_bytes);
  memcpy(params, data + json_bytes, size - json_bytes);
  int rc = tvmrt_graph_create(json, json_bytes, &module, arena, arena_bytes, &ex, &used);
  FUZZ_REQUIRE((rc == 0) == (ex != NULL));
  FUZZ_REQUIRE(rc != 0 || used <= arena_bytes);
  FUZZ_REQUIRE(rc != kTvmErrorPlatformNoMemory || used > arena_bytes);
  if (ex != NULL) use(ex, params, size - json_bytes);
  free(arena);
  free(params);
  free(json);
  return 0;
}
