/* tvm-ffi's type table without libtvm_ffi: predefined types, and types of libraries. */
#include <stdlib.h>
#include <string.h>

#include "sdk/system.h"
#include "stubs.h"

/* libtvm_ffi's layout of a type description; fields and methods are left empty. */
typedef struct TypeInfo {
  FfiTypeInfoHead head;
  const struct TypeInfo* const* ancestors;
  uint64_t key_hash;
  int32_t num_fields, num_methods;
  const void *fields, *methods, *metadata;
} TypeInfo;

#define KEY(text) \
  { (text), sizeof(text) - 1 }
#define VALUE(index, key)           \
  {                                 \
    .head = {(index), 0, KEY(key) } \
  }
#define OBJECT(index, key) \
  { .head = {(index), 1, KEY(key)}, .ancestors = kAncestors }

static const TypeInfo kObject = {.head = {kFfiFirstObject, 0, KEY("ffi.Object")}};
static const TypeInfo* const kAncestors[] = {&kObject};
static const TypeInfo kTypes[] = {
    VALUE(kFfiNone, "None"),
    VALUE(kFfiInt, "int"),
    VALUE(kFfiBool, "bool"),
    VALUE(kFfiFloat, "float"),
    VALUE(kFfiOpaquePtr, "void*"),
    VALUE(kFfiDataType, "DataType"),
    VALUE(kFfiDevice, "Device"),
    VALUE(kFfiDLTensorPtr, "DLTensor*"),
    VALUE(kFfiRawStr, "const char*"),
    VALUE(kFfiByteArrayPtr, "TVMFFIByteArray*"),
    VALUE(kFfiObjectRValueRef, "ObjectRValueRef"),
    VALUE(kFfiSmallStr, "ffi.SmallStr"),
    VALUE(kFfiSmallBytes, "ffi.SmallBytes"),
    OBJECT(kFfiStr, "ffi.String"),
    OBJECT(kFfiBytes, "ffi.Bytes"),
    OBJECT(kFfiError, "ffi.Error"),
    OBJECT(kFfiFunction, "ffi.Function"),
    OBJECT(kFfiShape, "ffi.Shape"),
    OBJECT(kFfiTensor, "ffi.Tensor"),
    OBJECT(kFfiArray, "ffi.Array"),
    OBJECT(kFfiMap, "ffi.Map"),
    OBJECT(kFfiModule, "ffi.Module"),
    OBJECT(kFfiList, "ffi.List"),
    OBJECT(kFfiDict, "ffi.Dict"),
};

/* ---- types of libraries ---- */

/* More than libraries need; further types get the index of the base Object. */
enum { FIRST_OWN = 128, MAX_OWN = 1024 };

/* Written under the lock and never changed; read without it. */
static const TypeInfo* _Atomic own[MAX_OWN];
static tvmrt_mutex lock = TVMRT_MUTEX_INIT;

/* Predefined types are searched linearly: there are two dozen, and look-ups follow an error. */
static const TypeInfo* find_type(int32_t type_index) {
  if (type_index == kFfiFirstObject) return &kObject;
  if (type_index >= FIRST_OWN && type_index < FIRST_OWN + MAX_OWN) {
    return atomic_load(&own[type_index - FIRST_OWN]);
  }
  for (size_t i = 0; i < sizeof(kTypes) / sizeof(kTypes[0]); i++) {
    if (kTypes[i].head.type_index == type_index) return &kTypes[i];
  }
  return NULL;
}

/* The result is never freed: callers keep it. */
const FfiTypeInfoHead* stub_type_info(int32_t type_index) {
  const TypeInfo* type = find_type(type_index);
  return type == NULL ? NULL : &type->head;
}

/* A description with its ancestors and a copy of the key in one block. Never freed. */
static const TypeInfo* new_type(const TVMByteArray* key, int32_t index, const TypeInfo* parent) {
  const size_t depth = parent == NULL ? 0 : (size_t)parent->head.type_depth + 1;
  TypeInfo* type = calloc(1, sizeof(*type) + depth * sizeof(type) + key->size + 1);
  const TypeInfo** ancestors;
  char* name;
  if (type == NULL) return NULL;
  ancestors = (const TypeInfo**)(void*)(type + 1);
  name = (char*)(ancestors + depth);
  memcpy(name, key->data, key->size);
  /* lint: a type of depth 1 or more has ancestors */
  for (size_t i = 0; i + 1 < depth; i++) ancestors[i] = parent->ancestors[i];
  if (depth != 0) ancestors[depth - 1] = parent;
  type->head = (FfiTypeInfoHead){index, (int32_t)depth, {name, key->size}};
  type->ancestors = ancestors;
  return type;
}

/* Called under the lock. A known key keeps its index, so libraries with copies of a class agree.
 * Without memory or a free slot the result is the index of the base Object. */
static int32_t enter_type(const TVMByteArray* key, int32_t parent) {
  int32_t i = 0;
  for (; i < MAX_OWN; i++) {
    const TypeInfo* type = atomic_load(&own[i]);
    if (type == NULL) break;
    if (type->head.type_key.size == key->size &&
        memcmp(type->head.type_key.data, key->data, key->size) == 0) {
      return FIRST_OWN + i;
    }
  }
  if (i == MAX_OWN) return kFfiFirstObject; /* more classes than any library has */
  atomic_store(&own[i], new_type(key, FIRST_OWN + i, find_type(parent)));
  return atomic_load(&own[i]) == NULL ? kFfiFirstObject : FIRST_OWN + i;
}

/* A predefined index is the caller's and needs no entry. */
int32_t stub_type_index(const TVMByteArray* key, int32_t fixed, int32_t parent) {
  int32_t index;
  if (fixed >= 0) return fixed;
  tvmrt__lock(&lock);
  index = enter_type(key, parent);
  tvmrt__unlock(&lock);
  return index;
}
