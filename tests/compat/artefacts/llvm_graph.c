/* Operators as the LLVM generator lowers them: the runtime is reached through exported variables
 * that the loader fills, arguments are checked in the order of the releases, loops run in parallel.
 */
#include <stddef.h>
#include <stdint.h>

typedef union {
  int64_t integer;
  double real;
  void* handle;
  const char* text;
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
  void* sync;
  int32_t num_task;
} group;

#define SLOT __attribute__((weak, visibility("default")))
#define EXPORTED __attribute__((visibility("default")))

SLOT void* __tvm_module_ctx = NULL;
SLOT void (*__TVMAPISetLastError)(const char*) = NULL;
#ifndef FEW_SLOTS
SLOT int (*__TVMFuncCall)(void*, value*, int*, int, value*, int*) = NULL;
SLOT int (*__TVMBackendGetFuncFromEnv)(void*, const char*, void**) = NULL;
SLOT void* (*__TVMBackendAllocWorkspace)(int, int, uint64_t, int, int) = NULL;
SLOT int (*__TVMBackendFreeWorkspace)(int, int, void*) = NULL;
SLOT int (*__TVMBackendParallelLaunch)(int (*)(int, group*, void*), void*, int) = NULL;
SLOT int (*__TVMBackendParallelBarrier)(int, group*) = NULL;
#endif

#define ASSERT(condition, message)                                   \
  do {                                                               \
    if (!(condition)) {                                              \
      __TVMAPISetLastError("Assert fail: " #condition ", " message); \
      return -1;                                                     \
    }                                                                \
  } while (0)

#define PACKED(name)                                                                              \
  EXPORTED int32_t name(void* args, int32_t* arg_type_ids, int32_t num_args, void* out_ret_value, \
                        int32_t* out_ret_tcode, void* resource_handle);                           \
  EXPORTED int32_t name(void* args, int32_t* arg_type_ids, int32_t num_args, void* out_ret_value, \
                        int32_t* out_ret_tcode, void* resource_handle)

/* Releases before 0.10 assume 128 bytes, later ones 64; vector loads fault where that is wrong. */
#define ALIGN_BYTES (MINOR < 10 ? 128 : 64)

/* The checks of one float32 buffer of shape (2, 3). */
static int32_t check_buffer(const tensor* t) {
  ASSERT(t != NULL, "expects a buffer, got a NULL handle");
  ASSERT(t->ndim == 2, "ndim is expected to equal 2");
  ASSERT(t->code == 2 && t->bits == 32 && t->lanes == 1, "dtype is expected to be float32");
  ASSERT((int32_t)t->shape[0] == 2, "shape[0] has an unsatisfied constraint");
  ASSERT((int32_t)t->shape[1] == 3, "shape[1] has an unsatisfied constraint");
  if (t->strides != NULL) {
    ASSERT((int32_t)t->strides[1] == 1 && (int32_t)t->strides[0] == 3,
           "strides: expected to be compact array");
  }
  ASSERT(t->byte_offset == 0, "byte_offset has an unsatisfied constraint");
  ASSERT(t->device_type == 1, "device_type has an unsatisfied constraint");
#if MINOR >= 16
  ASSERT(t->data != NULL, "expects a non-NULL data pointer");
#endif
  ASSERT((uintptr_t)t->data % ALIGN_BYTES == 0, "an aligned load would fault");
  return 0;
}

static int32_t check_args(const value* args, const int32_t* codes, int32_t count) {
  int32_t i;
#if MINOR >= 16
  ASSERT(args != NULL, "the arguments are NULL");
  ASSERT(codes != NULL, "the type codes are NULL");
#endif
  for (i = 0; i < count; ++i) {
    int32_t code = codes[i];
    ASSERT(code == 3 || code == 13 || code == 7 || code == 4, "expects a pointer");
    if (check_buffer(args[i].handle) != 0) return -1;
  }
  return 0;
}

#define DATA(i) ((float*)((tensor*)((value*)args)[i].handle)->data)

#ifndef FEW_SLOTS
typedef struct {
  const float* a;
  const float* b;
  float* out;
} add_closure;

static int __tvm_parallel_lambda(int task_id, group* env, void* cdata) {
  const add_closure* c = cdata;
  int32_t chunk = (6 + env->num_task - 1) / env->num_task;
  int32_t i;
  for (i = task_id * chunk; i < (task_id + 1) * chunk && i < 6; ++i) c->out[i] = c->a[i] + c->b[i];
  return __TVMBackendParallelBarrier(task_id, env);
}

PACKED(tvmgen_default_fused_add) {
  add_closure closure;
  (void)out_ret_value, (void)out_ret_tcode, (void)resource_handle;
  ASSERT(num_args == 3, "tvmgen_default_fused_add: num_args should be 3");
  if (check_args(args, arg_type_ids, 3) != 0) return -1;
  ASSERT(resource_handle == NULL, "a library's function has no resource");
  closure.a = DATA(0);
  closure.b = DATA(1);
  closure.out = DATA(2);
  return __TVMBackendParallelLaunch(__tvm_parallel_lambda, &closure, 0);
}

PACKED(tvmgen_default_fused_multiply) {
  float* copy;
  int32_t i;
  (void)out_ret_value, (void)out_ret_tcode, (void)resource_handle;
  ASSERT(num_args == 2, "tvmgen_default_fused_multiply: num_args should be 2");
  if (check_args(args, arg_type_ids, 2) != 0) return -1;
  copy = __TVMBackendAllocWorkspace(1, 0, 2400, 2, 32);
  if (copy == NULL) return -1;
  ASSERT((uintptr_t)copy % ALIGN_BYTES == 0, "an aligned load of a workspace would fault");
  for (i = 0; i < 6; ++i) copy[i] = DATA(0)[i] + DATA(0)[i];
  for (i = 0; i < 6; ++i) DATA(1)[i] = copy[i];
  return __TVMBackendFreeWorkspace(1, 0, copy) != 0 ? -1 : 0;
}

/* Calls the global function "compat.callee" with one argument of every code that lowering writes,
 * and passes an int that it returns on. */
PACKED(call_packed) {
  static void* cached = NULL; /* .tvm_func.compat.callee */
  int64_t shape[1] = {3};
  float data[3] = {1, 2, 3};
  tensor stack_tensor = {data, 1, 0, 1, 2, 32, 1, shape, NULL, 0};
  value stack[6];
  int codes[6] = {7, 11, 0, 2, MINOR >= 16 ? 4 : 3, MINOR >= 18 ? 15 : 0};
  value ret; /* not initialised, as in generated code */
  int ret_code;
  (void)args, (void)arg_type_ids, (void)resource_handle;
  ASSERT(num_args == 0, "call_packed: num_args should be 0");
  if (cached == NULL && __TVMBackendGetFuncFromEnv(__tvm_module_ctx, "compat.callee", &cached) != 0)
    return -1;
  stack[0].handle = &stack_tensor;
  stack[1].text = "a text";
  stack[2].integer = -5;
  stack[3].real = 0.5;
  stack[4].handle = NULL;
  stack[5].integer = 1;
  if (__TVMFuncCall(cached, stack, codes, 6, &ret, &ret_code) != 0) return -1;
  if (ret_code == 4) return 0;
  ((value*)out_ret_value)->integer = ret.integer;
  *out_ret_tcode = ret_code;
  return 0;
}

/* How many of the pointers are still empty. */
PACKED(unfilled_slots) {
  (void)args, (void)arg_type_ids, (void)num_args, (void)resource_handle;
  ((value*)out_ret_value)->integer =
      (__tvm_module_ctx == NULL) + (__TVMAPISetLastError == NULL) + (__TVMFuncCall == NULL) +
      (__TVMBackendGetFuncFromEnv == NULL) + (__TVMBackendAllocWorkspace == NULL) +
      (__TVMBackendFreeWorkspace == NULL) + (__TVMBackendParallelLaunch == NULL) +
      (__TVMBackendParallelBarrier == NULL);
  *out_ret_tcode = 0;
  return 0;
}
#else
/* A library whose generator dropped the pointers that it does not use. */
PACKED(tvmgen_default_fused_add) {
  int32_t i;
  (void)out_ret_value, (void)out_ret_tcode, (void)resource_handle;
  ASSERT(num_args == 3, "tvmgen_default_fused_add: num_args should be 3");
  if (check_args(args, arg_type_ids, 3) != 0) return -1;
  for (i = 0; i < 6; ++i) DATA(2)[i] = DATA(0)[i] + DATA(1)[i];
  return 0;
}
#endif

/* Scalars: an int, a float that must not be an int, a bool. */
PACKED(scalars) {
  const value* v = args;
  (void)resource_handle;
  ASSERT(num_args == 3, "scalars: num_args should be 3");
#if MINOR >= 18
  ASSERT(arg_type_ids[0] == 0 || arg_type_ids[0] == 15, "arg 0 expects an int");
  ASSERT(arg_type_ids[2] == 15 || arg_type_ids[2] == 0, "arg 2 expects a bool");
#else
  ASSERT(arg_type_ids[0] == 0, "arg 0 expects an int");
  ASSERT(arg_type_ids[2] == 0, "arg 2 expects an int");
#endif
  ASSERT(arg_type_ids[1] == 2, "arg 1 expects a float");
  ((value*)out_ret_value)->real = (double)v[0].integer + v[1].real + (v[2].integer != 0 ? 1000 : 0);
  *out_ret_tcode = 2;
  return 0;
}

/* Returns a bool as this release does. */
PACKED(is_positive) {
  (void)num_args, (void)arg_type_ids, (void)resource_handle;
  ((value*)out_ret_value)->integer = ((value*)args)[0].integer > 0;
  *out_ret_tcode = MINOR >= 18 ? 15 : 0;
  return 0;
}

/* A null handle as a result. */
PACKED(return_null) {
  (void)args, (void)arg_type_ids, (void)num_args, (void)resource_handle;
  ((value*)out_ret_value)->handle = NULL;
  *out_ret_tcode = 4;
  return 0;
}

/* The entry is data here: the name of a function. */
SLOT extern const char __tvm_main__[];
SLOT const char __tvm_main__[] = "tvmgen_default_fused_add";

#ifdef LINKED_PARAMS
/* Parameters in the code: storage 1 is w, everything else is not here. */
static const float __tvm_param__w[6] __attribute__((aligned(128))) = {10, 20, 30, 40, 50, 60};

PACKED(_lookup_linked_param) {
  (void)num_args, (void)resource_handle;
  if (arg_type_ids[0] == 0 && ((value*)args)[0].integer == 1) {
    ((value*)out_ret_value)->handle = (void*)(uintptr_t)__tvm_param__w;
    *out_ret_tcode = 3;
  } else {
    ((value*)out_ret_value)->handle = NULL;
    *out_ret_tcode = 4;
  }
  return 0;
}
#endif
