/* Reference-counted objects: the common head of modules, functions, tensors and containers. */
#ifndef TVMRT_SRC_RUNTIME_CORE_OBJECT_H_
#define TVMRT_SRC_RUNTIME_CORE_OBJECT_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>

#include "../base/error.h"

/* Type indices below TVMRT_TYPE_FIRST_OWN are those of TVM 0.9 to 0.18. */
typedef enum {
  TVMRT_TYPE_OBJECT = 0,
  TVMRT_TYPE_MODULE = 1,
  TVMRT_TYPE_NDARRAY = 2,
  TVMRT_TYPE_STRING = 3,
  TVMRT_TYPE_ARRAY = 4,
  TVMRT_TYPE_MAP = 5,
  TVMRT_TYPE_SHAPE_TUPLE = 6,
  TVMRT_TYPE_FUNCTION = 7,
  TVMRT_TYPE_FIRST_OWN = 32,
  TVMRT_TYPE_ADT = 32,
  TVMRT_TYPE_BOX_INT = 33,
  TVMRT_TYPE_BOX_FLOAT = 34,
  TVMRT_TYPE_BOX_BOOL = 35,
  TVMRT_TYPE_REPORT = 36, /* of profiling */
  TVMRT_TYPE_END = 37
} tvmrt_type;

typedef struct tvmrt_object {
  uint32_t type_index;
  _Atomic int32_t refs;
  void (*destroy)(struct tvmrt_object* self); /* called when the last reference is released */
} tvmrt_object;

static inline void tvmrt__object_init(tvmrt_object* obj, tvmrt_type type,
                                      void (*destroy)(tvmrt_object*)) {
  obj->type_index = (uint32_t)type;
  atomic_init(&obj->refs, 1);
  obj->destroy = destroy;
}

static inline void tvmrt__retain(tvmrt_object* obj) {
  (void)atomic_fetch_add_explicit(&obj->refs, 1, memory_order_relaxed);
}

/* For objects found in a table without a reference: false if the last reference is gone. */
static inline bool tvmrt__try_retain(tvmrt_object* obj) {
  int32_t refs = atomic_load_explicit(&obj->refs, memory_order_relaxed);
  while (refs > 0) {
    if (atomic_compare_exchange_weak_explicit(&obj->refs, &refs, refs + 1, memory_order_relaxed,
                                              memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

/* Drop a reference; true if it was the last: the caller then destroys the object. The load makes
 * the writes of other threads before their release visible. A fence would do the same, but the
 * thread sanitizer does not follow fences. */
static inline bool tvmrt__drop(tvmrt_object* obj) {
  if (atomic_fetch_sub_explicit(&obj->refs, 1, memory_order_release) != 1) return false;
  (void)atomic_load_explicit(&obj->refs, memory_order_acquire);
  return true;
}

/* NULL does nothing. */
static inline void tvmrt__release(tvmrt_object* obj) {
  if (obj != NULL && tvmrt__drop(obj)) obj->destroy(obj);
}

/* Head of a tensor. The ABI's handle of an NDArray points to `dl`, others to their head. */
typedef struct tvmrt_ndarray {
  tvmrt_object base;
  DLTensor dl;
} tvmrt_ndarray;

/* The object of an NDArray's handle, which must not be NULL. */
static inline tvmrt_object* tvmrt__object_of_ndarray(void* array_handle) {
  return (tvmrt_object*)(void*)((char*)array_handle - offsetof(tvmrt_ndarray, dl));
}

/* Name of a type index, NULL if it is unknown. */
TVMRT_SDK const char* tvmrt__type_key(uint32_t type_index);

/* 0, or -1 if the handle is NULL or of another type; `callee` names the called function. */
TVMRT_SDK int tvmrt__check_type(const void* handle, tvmrt_type type, const char* callee);

#endif
