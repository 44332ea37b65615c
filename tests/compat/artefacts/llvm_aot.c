/* A network compiled ahead of time by the LLVM generator for the C++ runtime: z = (x + w) * 2 with two
 * inputs, or one input with w in the constant pool where POOLS is defined. No header is known; a
 * DLDataType is three bytes and padding. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef union {
  int64_t integer;
  double real;
  void* handle;
} value;

typedef struct {
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} tensor;

typedef struct {
  uint8_t code;
  uint8_t bits;
  uint8_t lanes;
} data_type; /* followed by a byte of padding */

typedef struct {
  const char* name;
  const int64_t* shape;
  int64_t num_shape;
  data_type dtype;
} tensor_info;

typedef struct {
  const char* name_hint;
  int64_t byte_offset;
  int64_t data_len;
  const void* data_bytes;
} constant_info;

typedef struct {
  int64_t version;
  const tensor_info* inputs;
  int64_t num_inputs;
  const tensor_info* outputs;
  int64_t num_outputs;
  const tensor_info* workspace_pools;
  int64_t num_workspace_pools;
  const constant_info* constant_pools;
  int64_t num_constant_pools;
  const char* mod_name;
} metadata;

_Static_assert(sizeof(tensor_info) == 32 && sizeof(constant_info) == 32 && sizeof(metadata) == 80,
               "sizes of a 64-bit target");

#define SLOT __attribute__((weak, visibility("default")))
#define PACKED(name)                                                                              \
  __attribute__((visibility("default"))) int32_t name(value* args, int32_t* codes, int32_t count, \
                                                      value* ret, int32_t* ret_code, void* self); \
  int32_t name(value* args, int32_t* codes, int32_t count, value* ret, int32_t* ret_code,         \
               void* self)

SLOT void* __tvm_module_ctx = NULL;
SLOT void (*__TVMAPISetLastError)(const char*) = NULL;
SLOT void* (*__TVMBackendAllocWorkspace)(int, int, uint64_t, int, int) = NULL;
SLOT int (*__TVMBackendFreeWorkspace)(int, int, void*) = NULL;

#define ASSERT(condition)                               \
  do {                                                  \
    if (!(condition)) {                                 \
      __TVMAPISetLastError("Assert fail: " #condition); \
      return -1;                                        \
    }                                                   \
  } while (0)

#define ALIGN_BYTES (MINOR < 10 ? 128 : 64)

static int32_t check(const value* args, const int32_t* codes, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    const tensor* t = args[i].handle;
    ASSERT(codes[i] == 7 || codes[i] == 13 || codes[i] == 3);
    ASSERT(t->strides == NULL && t->byte_offset == 0 && t->device_type == 1);
    ASSERT(t->data != NULL && (uintptr_t)t->data % ALIGN_BYTES == 0);
  }
  return 0;
}

#define DATA(i) ((float*)((tensor*)args[i].handle)->data)

/* Called directly by main. */
PACKED(tvmgen_default_fused_add) {
  (void)codes, (void)count, (void)ret, (void)ret_code, (void)self;
  for (int i = 0; i < 6; ++i) DATA(2)[i] = DATA(0)[i] + DATA(1)[i];
  return 0;
}

#ifdef POOLS
/* Arguments: x, output, constants, workspace. */
PACKED(tvmgen_default___tvm_main__) {
  value add[3];
  tensor weight = {0}, sum = {0};
  (void)ret, (void)ret_code, (void)self;
  ASSERT(count == 4);
  if (check(args, codes, 4) != 0) return -1;
  ASSERT(((tensor*)args[2].handle)->bits == 8 && ((tensor*)args[3].handle)->shape[0] == 192);
  weight.data = (uint8_t*)((tensor*)args[2].handle)->data + 128;
  sum.data = (uint8_t*)((tensor*)args[3].handle)->data + 64;
  add[0] = args[0];
  add[1].handle = &weight;
  add[2].handle = &sum;
  if (tvmgen_default_fused_add(add, codes, 3, ret, ret_code, NULL) != 0) return -1;
  for (int i = 0; i < 6; ++i) DATA(1)[i] = 2 * ((float*)sum.data)[i];
  return 0;
}
#else
/* Arguments: x, w, output. */
PACKED(tvmgen_default___tvm_main__) {
  value add[3];
  tensor sum = {0};
  (void)self;
  ASSERT(count == 3);
  if (check(args, codes, 3) != 0) return -1;
  sum.data = __TVMBackendAllocWorkspace(1, ((tensor*)args[0].handle)->device_id, 2048, 0, 8);
  if (sum.data == NULL) return -1;
  add[0] = args[0];
  add[1] = args[1];
  add[2].handle = &sum;
  if (tvmgen_default_fused_add(add, codes, 3, ret, ret_code, NULL) != 0) return -1;
  for (int i = 0; i < 6; ++i) DATA(2)[i] = 2 * ((float*)sum.data)[i];
  return __TVMBackendFreeWorkspace(1, 0, sum.data) != 0 ? -1 : 0;
}
#endif

static const int64_t shape[2] = {2, 3};
static const tensor_info outputs[1] = {{"output0", shape, 2, {2, 32, 1}}};
#ifdef POOLS
#include "constant.inc" /* constant_bytes: the serialised w */
static const int64_t pool_shape[1] = {192};
static const tensor_info inputs[1] = {{"x_in", shape, 2, {2, 32, 1}}};
static const tensor_info pools[1] = {{"global_workspace_1_var", pool_shape, 1, {1, 8, 1}}};
static const constant_info constants[1] = {
    {"fused_constant", 128, sizeof(constant_bytes), constant_bytes}};
static const metadata kTvmgenMetadata[1] = {
    {1, inputs, 1, outputs, 1, pools, 1, constants, 1, "tvmgen_default"}};
#else
static const tensor_info inputs[2] = {{"x_in", shape, 2, {2, 32, 1}}, {"w", shape, 2, {2, 32, 1}}};
static const metadata kTvmgenMetadata[1] = {
    {1, inputs, 2, outputs, 1, NULL, 0, NULL, 0, "tvmgen_default"}};
#endif

PACKED(get_c_metadata) {
  (void)args, (void)codes, (void)count, (void)self;
  ret->handle = (void*)(uintptr_t)kTvmgenMetadata;
  *ret_code = 3;
  return 0;
}
