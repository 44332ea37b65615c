/* An object of the LLVM generator for static linking: a constructor registers every function and the
 * context under their names, with the prefix that releases since 0.13 put in front. */
#include <stdint.h>

typedef union {
  int64_t integer;
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

extern int TVMBackendRegisterSystemLibSymbol(const char* name, void* address);
extern int TVMBackendGetFuncFromEnv(void* module, const char* name, void** out);
extern void* TVMBackendAllocWorkspace(int type, int id, uint64_t bytes, int code, int bits);
extern int TVMBackendFreeWorkspace(int type, int id, void* block);
extern int TVMFuncCall(void* f, value* args, int* codes, int count, value* ret, int* ret_code);
extern void TVMAPISetLastError(const char* text);

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define TEXT_(name) #name
#define TEXT(name) TEXT_(name)
#define SYMBOL(name) JOIN(PREFIX, name)
#define PACKED(name)                                                                      \
  int32_t name(value* args, int32_t* codes, int32_t count, value* ret, int32_t* ret_code, \
               void* self)
#define DATA(i) ((float*)((tensor*)args[i].handle)->data)

void* SYMBOL(__tvm_module_ctx) = 0;

static PACKED(SYMBOL(tvmgen_default_fused_add)) {
  (void)codes, (void)ret, (void)ret_code, (void)self;
  if (count != 3) {
    TVMAPISetLastError("Assert fail: num_args == 3");
    return -1;
  }
  for (int i = 0; i < 6; ++i) DATA(2)[i] = DATA(0)[i] + DATA(1)[i];
  return 0;
}

static PACKED(SYMBOL(tvmgen_default_fused_multiply)) {
  float* copy = TVMBackendAllocWorkspace(1, 0, 2048, 2, 32);
  (void)codes, (void)count, (void)ret, (void)ret_code, (void)self;
  if (copy == 0) return -1;
  for (int i = 0; i < 6; ++i) copy[i] = DATA(0)[i] * FACTOR;
  for (int i = 0; i < 6; ++i) DATA(1)[i] = copy[i];
  return TVMBackendFreeWorkspace(1, 0, copy) != 0 ? -1 : 0;
}

/* How many threads the runtime uses, asked by name. */
static PACKED(SYMBOL(num_threads)) {
  static void* cached = 0;
  (void)count, (void)self;
  if (cached == 0 &&
      TVMBackendGetFuncFromEnv(SYMBOL(__tvm_module_ctx), "runtime.NumThreads", &cached) != 0) {
    return -1;
  }
  return TVMFuncCall(cached, args, codes, 0, ret, ret_code) != 0 ? -1 : 0;
}

static void add(const char* name,
                int32_t (*f)(value*, int32_t*, int32_t, value*, int32_t*, void*)) {
  union {
    int32_t (*f)(value*, int32_t*, int32_t, value*, int32_t*, void*);
    void* address;
  } u;
  u.f = f;
  TVMBackendRegisterSystemLibSymbol(name, u.address);
}

__attribute__((constructor)) static void __tvm_module_startup(void) {
  add(TEXT(SYMBOL(tvmgen_default_fused_add)), SYMBOL(tvmgen_default_fused_add));
  add(TEXT(SYMBOL(tvmgen_default_fused_multiply)), SYMBOL(tvmgen_default_fused_multiply));
  add(TEXT(SYMBOL(num_threads)), SYMBOL(num_threads));
  TVMBackendRegisterSystemLibSymbol(TEXT(SYMBOL(__tvm_module_ctx)), &SYMBOL(__tvm_module_ctx));
}
