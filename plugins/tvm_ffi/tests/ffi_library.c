/* Functions of tvm-ffi, written only against its ABI. RAISE selects how the raising function is
   found: 1 weak, 2 strong, 3 through a variable. */
#include <stddef.h>
#include <stdint.h>

typedef struct {
  int32_t type_index;
  uint32_t small_size;
  union {
    int64_t v_int64;
    double v_float64;
    void* v_ptr;
    const char* v_str;
  };
} Any;

typedef struct {
  void* data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} Tensor;

#define EXPORT(name) int __tvm_ffi_##name(void* self, const Any* args, int32_t n, Any* result)

#if RAISE == 1
void TVMFFIErrorSetRaisedFromCStr(const char*, const char*) __attribute__((weak));
static void raise(const char* kind, const char* text) {
  if (TVMFFIErrorSetRaisedFromCStr != NULL) TVMFFIErrorSetRaisedFromCStr(kind, text);
}
#elif RAISE == 2
void TVMFFIErrorSetRaisedFromCStr(const char*, const char*);
#define raise TVMFFIErrorSetRaisedFromCStr
#else
void (*__TVMFFIErrorSetRaisedFromCStr)(const char*, const char*);
#define raise __TVMFFIErrorSetRaisedFromCStr
#endif

EXPORT(raises) {
  raise("IndexError", n == 1 && args[0].type_index == 8 ? args[0].v_str : "no text");
  return -1;
}

/* Returns the type index of the argument. */
EXPORT(index_of) {
  *result = (Any){1, 0, {n == 1 ? args[0].type_index : -n}};
  return 0;
}

/* The result has its own reference, counted in an object's first word. */
EXPORT(same) {
  *result = args[0];
  if (args[0].type_index >= 64) ++*(int64_t*)args[0].v_ptr;
  return 0;
}

/* out = a + b, of float32. */
EXPORT(add) {
  Tensor* t[3];
  int64_t count = 1;
  if (n != 3) return raise("TypeError", "add takes three tensors"), -1;
  for (int i = 0; i < 3; i++) {
    if (args[i].type_index != 7 && args[i].type_index != 70) {
      return raise("TypeError", "add takes three tensors"), -1;
    }
    t[i] = (Tensor*)((char*)args[i].v_ptr + (args[i].type_index == 70 ? 24 : 0));
    if (t[i]->strides == NULL) return raise("ValueError", "no strides"), -1;
  }
  for (int d = 0; d < t[0]->ndim; d++) count *= t[0]->shape[d];
  for (int64_t i = 0; i < count; i++) {
    ((float*)((char*)t[2]->data + t[2]->byte_offset))[i] =
        ((float*)((char*)t[0]->data + t[0]->byte_offset))[i] +
        ((float*)((char*)t[1]->data + t[1]->byte_offset))[i];
  }
  return 0;
}

EXPORT(main) {
  *result = (Any){1, 0, {1234}};
  return 0;
}

/* A C function with the name of an exported one. */
int same(int a) { return a; }
