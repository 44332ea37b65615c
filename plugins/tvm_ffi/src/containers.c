/* Conversion of containers. tvm-ffi containers are read directly, classic ones through global
 * functions.
 *
 * Elements are converted one by one; the result is independent of the source. Depth is counted per
 * thread over both directions, since a container that contains itself would recurse endlessly. */

#include <stdlib.h>
#include <string.h>

#include "convert.h"
#include "error.h"
#include "objects.h"

enum {
  MAX_DEPTH = 200, /* of nested containers, since each uses stack */
  BLOCK_ITEMS = 16,
};

/* ---- tvm-ffi layouts ---- */

/* Array and List. */
typedef struct {
  FfiAny* data;
  int64_t size;
  int64_t capacity; /* of arrays that grow; arrays made here are full */
  void (*data_deleter)(void*);
} FfiSeq;

/* Map and Dict. Small maps, with the highest bit of `slots` set: an array of keys and values. Large
 * maps: blocks of 16 bytes and 16 items, linked in insertion order. */
typedef struct {
  void* data;
  uint64_t size;
  uint64_t slots;
  void (*data_deleter)(void*);
  uint32_t fib_shift;
  uint64_t head;
  uint64_t tail;
} FfiMap;

/* An item of a small map, and the start of an item of a large map. */
typedef struct {
  FfiAny key;
  FfiAny value;
} FfiPair;

/* Indices of the neighbours in insertion order: block * 16 + item. */
typedef struct {
  FfiPair pair;
  uint64_t previous;
  uint64_t next;
} FfiLinkedPair;

/* The marks are for hash look-ups; iteration does not need them. */
typedef struct {
  uint8_t marks[BLOCK_ITEMS];
  FfiLinkedPair items[BLOCK_ITEMS];
} FfiBlock;

typedef struct {
  const int64_t* data;
  size_t size;
} FfiShape;

static const uint64_t kSmallMap = UINT64_C(1) << 63;

static _Thread_local int depth;

/* The caller decrements `depth`, only after a result of 0. */
static int enter(void) {
  if (depth < MAX_DEPTH) {
    depth++;
    return 0;
  }
  return bridge_fail("ValueError: containers are nested more than %d deep", MAX_DEPTH);
}

/* ---- tvm-ffi to classic ---- */

/* Arguments of a constructor function, with their owned resources. */
typedef struct {
  TVMValue* values;
  int* codes;
  Owned* owned;
  size_t count;
} List;

/* Allocate one block for the three arrays, never empty. list_free() also accepts a failed list. */
static int list_new(List* list, size_t count) {
  const size_t bytes = sizeof(TVMValue) + sizeof(Owned) + sizeof(int);
  *list = (List){NULL, NULL, NULL, 0};
  /* packed functions have an int argument count */
  if (count > INT32_MAX) return bridge_fail("ValueError: a container has more than 2^31 values");
  list->values = calloc(count + 1, bytes);
  if (list->values == NULL) return bridge_fail_memory(count * bytes);
  list->owned = (Owned*)(void*)(list->values + count);
  list->codes = (int*)(void*)(list->owned + count);
  return 0;
}

/* Releases in reverse order. Accepts an empty list after a failed list_new(). */
static void list_free(List* list) {
  while (list->count > 0) owned_release(&list->owned[--list->count]);
  free(list->values);
}

/* Counted before the conversion, which leaves nothing to release on failure. */
static int list_add(List* list, const FfiAny* any) {
  const size_t i = list->count++;
  return bridge_owned_to_classic(any, &list->values[i], &list->codes[i], &list->owned[i]);
}

/* The constructor copies or retains its arguments, so the list is freed afterwards in any case. */
static int make_classic(const char* maker, const List* list, TVMObjectHandle* out) {
  TVMValue value = {.v_handle = NULL};
  int code = kTVMNullptr;
  if (bridge_call_global(maker, list->values, list->codes, list->count, &value, &code) != 0)
    return -1;
  *out = value.v_handle;
  return 0;
}

/* Convert an Array or a List. The elements are converted and owned by the new Array. */
static int sequence_to_classic(const FfiSeq* from, TVMObjectHandle* out) {
  List list;
  int rc = list_new(&list, from->size > 0 ? (size_t)from->size : 0);
  for (int64_t i = 0; rc == 0 && i < from->size; i++) rc = list_add(&list, &from->data[i]);
  if (rc == 0) rc = make_classic("runtime.Array", &list, out);
  list_free(&list);
  return rc;
}

/* In insertion order, for both map layouts. */
static int map_to_classic(const FfiMap* from, TVMObjectHandle* out) {
  const int small = (from->slots & kSmallMap) != 0;
  uint64_t at = small ? 0 : from->head;
  List list;
  int rc = list_new(&list, 2 * (size_t)from->size);
  for (uint64_t i = 0; rc == 0 && i < from->size; i++) {
    const FfiPair* pair = (const FfiPair*)from->data + i;
    if (!small) {
      const FfiLinkedPair* item =
          &((const FfiBlock*)from->data)[at / BLOCK_ITEMS].items[at % BLOCK_ITEMS];
      pair = &item->pair;
      at = item->next;
    }
    rc = list_add(&list, &pair->key);
    if (rc == 0) rc = list_add(&list, &pair->value);
  }
  if (rc == 0) rc = make_classic("runtime.Map", &list, out);
  list_free(&list);
  return rc;
}

/* Extents are passed as ints, as the classic constructor expects. */
static int shape_to_classic(const FfiShape* from, TVMObjectHandle* out) {
  List list;
  int rc = list_new(&list, from->size);
  for (size_t i = 0; rc == 0 && i < from->size; i++) {
    const FfiAny extent = {.type_index = kFfiInt, .u.v_int64 = from->data[i]};
    rc = list_add(&list, &extent);
  }
  if (rc == 0) rc = make_classic("runtime.ShapeTuple", &list, out);
  list_free(&list);
  return rc;
}

/* Whether an object holds values; texts and tensors are not containers here. */
int bridge_is_container(const FfiObject* object) {
  switch (object->type_index) {
    case kFfiShape:
    case kFfiArray:
    case kFfiList:
    case kFfiMap:
    case kFfiDict:
      return 1;
    default:
      return 0;
  }
}

/* *out is owned; NULL on failure. Depth is restored on every return. */
int bridge_container_to_classic(const FfiObject* object, TVMObjectHandle* out) {
  const void* body = ffi_body(object);
  int rc;
  *out = NULL;
  if (enter() != 0) return -1;
  if (object->type_index == kFfiShape) {
    rc = shape_to_classic(body, out);
  } else if (object->type_index == kFfiMap || object->type_index == kFfiDict) {
    rc = map_to_classic(body, out);
  } else {
    rc = sequence_to_classic(body, out);
  }
  depth--;
  return rc;
}

/* ---- classic to tvm-ffi ---- */

/* Values that own nothing are ignored. */
static void release_row(FfiAny* row, size_t count) {
  while (count > 0) bridge_release_any(&row[--count]);
}

/* Arrays and small maps begin with the same two members and hold arrays of values. */
static void delete_array(void* object, int flags) {
  const FfiSeq* body = ffi_body(object);
  if ((flags & END_CONTENT) != 0) release_row(body->data, (size_t)body->size);
  ffi_free_object(object, flags);
}

/* Deleter of maps made here; other maps have their own deleters. */
static void delete_map(void* object, int flags) {
  const FfiMap* body = ffi_body(object);
  if ((flags & END_CONTENT) != 0) release_row(body->data, 2 * (size_t)body->size);
  ffi_free_object(object, flags);
}

/* Number of values of a classic container. */
static int count_of(const char* counter, TVMObjectHandle object, size_t* out) {
  TVMValue arg = {.v_handle = object}, value = {.v_int64 = 0};
  int arg_code = kTVMObjectHandle, code = kTVMNullptr;
  if (bridge_call_global(counter, &arg, &arg_code, 1, &value, &code) != 0) return -1;
  *out = (size_t)value.v_int64;
  return 0;
}

/* The caller owns the value: classic getters return new references. */
static int value_at(const char* getter, TVMObjectHandle object, size_t index, TVMValue* value,
                    int* code) {
  TVMValue args[2] = {{.v_handle = object}, {.v_int64 = (int64_t)index}};
  int codes[2] = {kTVMObjectHandle, kTVMArgInt};
  return bridge_call_global(getter, args, codes, 2, value, code);
}

/* Fill an array with owned values; on failure it owns none. */
static int fill_row(const char* getter, TVMObjectHandle object, size_t count, FfiAny* row) {
  for (size_t i = 0; i < count; i++) {
    TVMValue value = {.v_int64 = 0};
    int code = kTVMNullptr;
    if (value_at(getter, object, i, &value, &code) != 0 ||
        bridge_return_to_ffi(value, code, &row[i]) != 0) {
      release_row(row, i);
      return -1;
    }
  }
  return 0;
}

/* `size` is set last, so that the deleter has no elements to release before. */
static int sequence_to_ffi(const char* counter, const char* getter, TVMObjectHandle object,
                           FfiObject** out) {
  FfiObject* made;
  FfiSeq* body;
  size_t count;
  if (count_of(counter, object, &count) != 0) return -1;
  made = ffi_new_object(kFfiArray, sizeof(*body) + count * sizeof(FfiAny), delete_array);
  if (made == NULL) return -1;
  body = ffi_body(made);
  *body = (FfiSeq){(FfiAny*)(void*)(body + 1), 0, (int64_t)count, NULL};
  if (fill_row(getter, object, count, body->data) != 0) {
    ffi_release(made);
    return -1;
  }
  body->size = (int64_t)count;
  *out = made;
  return 0;
}

/* The items of a map are an array of alternating keys and values. */
static int map_to_ffi(TVMObjectHandle object, FfiObject** out) {
  TVMValue arg = {.v_handle = object}, items = {.v_handle = NULL};
  int arg_code = kTVMObjectHandle, code = kTVMNullptr;
  FfiObject* made = NULL;
  size_t count;
  int rc;
  if (bridge_call_global("runtime.MapItems", &arg, &arg_code, 1, &items, &code) != 0) return -1;
  rc = count_of("runtime.ArraySize", items.v_handle, &count);
  if (rc == 0) {
    made = ffi_new_object(kFfiMap, sizeof(FfiMap) + count * sizeof(FfiAny), delete_map);
    rc = made == NULL ? -1 : 0;
  }
  if (rc == 0) {
    FfiMap* body = ffi_body(made);
    body->data = body + 1;
    body->slots = kSmallMap | count / 2;
    rc = fill_row("runtime.ArrayGetItem", items.v_handle, count, body->data);
    if (rc == 0) body->size = count / 2;
    if (rc != 0) ffi_release(made);
  }
  bridge_release_value(items, code);
  if (rc == 0) *out = made;
  return rc;
}

/* The extents follow the header in the object's own block. */
static int shape_to_ffi(TVMObjectHandle object, FfiObject** out) {
  FfiObject* made;
  FfiShape* body;
  int64_t* extents;
  size_t count;
  if (count_of("runtime.GetShapeTupleSize", object, &count) != 0) return -1;
  made = ffi_new_object(kFfiShape, sizeof(*body) + count * sizeof(int64_t), ffi_free_object);
  if (made == NULL) return -1;
  body = ffi_body(made);
  extents = (int64_t*)(void*)(body + 1);
  *body = (FfiShape){extents, count};
  for (size_t i = 0; i < count; i++) {
    TVMValue value = {.v_int64 = 0};
    int code = kTVMNullptr;
    if (value_at("runtime.GetShapeTupleElem", object, i, &value, &code) != 0) {
      ffi_release(made);
      return -1;
    }
    extents[i] = value.v_int64;
  }
  *out = made;
  return 0;
}

/* For other type keys *out is NULL, which the caller reports. */
int bridge_container_to_ffi(TVMObjectHandle object, const char* type_key, FfiObject** out) {
  int rc = 0;
  *out = NULL;
  if (enter() != 0) return -1;
  if (strcmp(type_key, "Array") == 0) {
    rc = sequence_to_ffi("runtime.ArraySize", "runtime.ArrayGetItem", object, out);
  } else if (strcmp(type_key, "runtime.ADT") == 0) {
    rc = sequence_to_ffi("runtime.GetADTSize", "runtime.GetADTFields", object, out);
  } else if (strcmp(type_key, "Map") == 0) {
    rc = map_to_ffi(object, out);
  } else if (strcmp(type_key, "runtime.ShapeTuple") == 0) {
    rc = shape_to_ffi(object, out);
  }
  depth--;
  return rc;
}
