/* Containers: the global functions for front ends.
 *
 * Front ends have no structs of containers: they create them, and get their size and items, by
 * these functions, which have TVM's names. Results are new references. Functions that only read are
 * short (see tvmrt__is_short()): front ends call them without allowing other threads to run. */
#include <inttypes.h>

#include "../core/container.h"
#include "../core/function.h"

/* An owned box; NULL with the error text set. Bools have a separate type of box, so that they are
 * not returned as ints. */
static tvmrt_object* box_value(const TVMValue* value, int code) {
  tvmrt_box* box = tvmrt__box_new(code == kTVMArgFloat  ? TVMRT_TYPE_BOX_FLOAT
                                  : code == kTVMArgBool ? TVMRT_TYPE_BOX_BOOL
                                                        : TVMRT_TYPE_BOX_INT);
  if (box == NULL) return NULL;
  if (code == kTVMArgFloat) {
    box->as.real = value->v_float64;
  } else {
    box->as.integer = value->v_int64;
  }
  return &box->base;
}

/* An argument as an object: text, numbers and NDArrays are wrapped, None gives NULL. *out is
 * owned. */
static int arg_to_object(const tvmrt_args* in, int i, tvmrt_object** out) {
  int code = in->codes[i];
  TVMByteArray text;
  *out = NULL;
  if (code == kTVMNullptr) return 0;
  if (code == kTVMArgInt || code == kTVMArgFloat || code == kTVMArgBool) {
    *out = box_value(&in->values[i], code);
    return *out == NULL ? -1 : 0;
  }
  if (code == kTVMObjectRValueRefArg) { /* moved: the caller's reference is taken */
    TVMRT_RETURN_IF_ERROR(TVMCbArgToReturn(&in->values[i], &in->codes[i]));
    *out = tvmrt__value_object(&in->values[i], in->codes[i]);
    return 0;
  }
  *out = tvmrt__value_object(&in->values[i], code);
  if (*out != NULL) {
    tvmrt__retain(*out);
    return 0;
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_bytes(in, i, &text));
  *out = (tvmrt_object*)tvmrt__string_new(text.data, text.size);
  return *out == NULL ? -1 : 0;
}

/* NULL is None: the result stays as cleared by TVMFuncCall(). */
static int return_item(TVMValue* out, int* out_code, tvmrt_object* item) {
  if (item == NULL) return 0;
  tvmrt__retain(item);
  return tvmrt__ret_object(out, out_code, item);
}

/* Items that were not reached are NULL, so that a partial array is released like any other. */
static tvmrt_array* array_of_args(const tvmrt_args* in, int first) {
  tvmrt_array* array = tvmrt__array_new((size_t)(in->count - first));
  int i;
  for (i = first; array != NULL && i < in->count; ++i) {
    if (arg_to_object(in, i, &array->items[i - first]) != 0) {
      tvmrt__release(&array->base);
      return NULL;
    }
  }
  return array;
}

/* (items ...) -> Array. */
TVMRT_NATIVE(make_array) {
  TVMRT_GLOBAL_ARGS;
  return tvmrt__ret_object(out, out_code, (tvmrt_object*)array_of_args(&in, 0));
}

/* An index below size; negative ones are handled by front ends. */
static int read_index(const tvmrt_args* in, int i, size_t size, size_t* out) {
  int64_t index;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, i, &index));
  if (index < 0 || (uint64_t)index >= size) {
    return tvmrt__fail("IndexError: %s: index %" PRId64 " is out of range, the size is %zu.",
                       in->callee, index, size);
  }
  *out = (size_t)index;
  return 0;
}

/* Of an array or an ADT, which have the same struct. */
static int get_item(const tvmrt_args* in, tvmrt_type type, TVMValue* out, int* out_code) {
  tvmrt_array* array;
  size_t index;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 2, 2));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(in, 0, type, &array));
  TVMRT_RETURN_IF_ERROR(read_index(in, 1, array->size, &index));
  return return_item(out, out_code, array->items[index]);
}

/* Arrays and ADTs have the same count. */
static int get_size(const tvmrt_args* in, tvmrt_type type, TVMValue* out, int* out_code) {
  tvmrt_array* array;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 1, 1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(in, 0, type, &array));
  return tvmrt__ret_int(out, out_code, (int64_t)array->size);
}

/* (Array, index) -> item. */
TVMRT_NATIVE(array_get_item) {
  TVMRT_GLOBAL_ARGS;
  return get_item(&in, TVMRT_TYPE_ARRAY, out, out_code);
}

/* (Array) -> number of items. */
TVMRT_NATIVE(array_size) {
  TVMRT_GLOBAL_ARGS;
  return get_size(&in, TVMRT_TYPE_ARRAY, out, out_code);
}

/* (tag, fields ...) -> ADT. The array is not shared yet, so that changing its type index makes it an
 * ADT. */
TVMRT_NATIVE(make_adt) {
  int64_t tag;
  tvmrt_array* adt;
  TVMRT_COUNTED_ARGS(1, -1);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 0, &tag));
  adt = array_of_args(&in, 1);
  if (adt == NULL) return -1;
  adt->base.type_index = TVMRT_TYPE_ADT;
  adt->tag = tag;
  return tvmrt__ret_object(out, out_code, &adt->base);
}

/* (ADT) -> number of fields. */
TVMRT_NATIVE(adt_size) {
  TVMRT_GLOBAL_ARGS;
  return get_size(&in, TVMRT_TYPE_ADT, out, out_code);
}

/* (ADT, index) -> field. */
TVMRT_NATIVE(adt_field) {
  TVMRT_GLOBAL_ARGS;
  return get_item(&in, TVMRT_TYPE_ADT, out, out_code);
}

/* (ADT) -> tag: the constructor's number, chosen by its creator. */
TVMRT_NATIVE(adt_tag) {
  tvmrt_array* adt;
  TVMRT_COUNTED_ARGS(1, 1);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(&in, 0, TVMRT_TYPE_ADT, &adt));
  return tvmrt__ret_int(out, out_code, adt->tag);
}

/* On failure, entries that were already added are released with the map, by the caller. */
static int fill_map(tvmrt_map* map, const tvmrt_args* in) {
  int i;
  for (i = 0; i + 1 < in->count; i += 2) {
    tvmrt_object* key;
    tvmrt_object* value;
    TVMRT_RETURN_IF_ERROR(arg_to_object(in, i, &key));
    if (arg_to_object(in, i + 1, &value) != 0) {
      tvmrt__release(key);
      return -1;
    }
    if (key == NULL || value == NULL) { /* tvmrt__map_set() fails without a text */
      (void)tvmrt__fail_type("%s: argument %d is None.", in->callee, key == NULL ? i : i + 1);
    }
    TVMRT_RETURN_IF_ERROR(tvmrt__map_set(map, key, value));
  }
  return 0;
}

/* (key, value, key, value ...) -> Map. A repeated key has its last value. */
TVMRT_NATIVE(make_map) {
  tvmrt_map* map;
  TVMRT_GLOBAL_ARGS;
  if (num_args % 2 != 0) {
    return tvmrt__fail_type("runtime.Map expects alternating keys and values, got %d arguments.",
                            num_args);
  }
  map = tvmrt__map_new();
  if (map != NULL && fill_map(map, &in) != 0) {
    tvmrt__release(&map->base);
    map = NULL;
  }
  return tvmrt__ret_object(out, out_code, (tvmrt_object*)map);
}

/* Reads (map, key); *value is NULL if the key is absent. */
static int look_up(const tvmrt_args* in, tvmrt_object** value) {
  tvmrt_map* map;
  tvmrt_object* key;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 2, 2));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(in, 0, TVMRT_TYPE_MAP, &map));
  TVMRT_RETURN_IF_ERROR(arg_to_object(in, 1, &key));
  *value = key == NULL ? NULL : tvmrt__map_get(map, key); /* borrowed from the map */
  tvmrt__release(key);
  return 0;
}

/* (Map, key) -> value. */
TVMRT_NATIVE(map_get_item) {
  tvmrt_object* value;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(look_up(&in, &value));
  if (value == NULL) return tvmrt__fail("KeyError: the map has no such key.");
  return return_item(out, out_code, value);
}

/* 0 or 1, like TVM's count. */
TVMRT_NATIVE(map_count) {
  tvmrt_object* value;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(look_up(&in, &value));
  return tvmrt__ret_int(out, out_code, value != NULL);
}

/* (Map) -> number of entries. */
TVMRT_NATIVE(map_size) {
  tvmrt_map* map;
  TVMRT_COUNTED_ARGS(1, 1);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(&in, 0, TVMRT_TYPE_MAP, &map));
  return tvmrt__ret_int(out, out_code, (int64_t)map->size);
}

/* Key, value, key, value ... in the order of insertion, in an array that the caller owns. */
TVMRT_NATIVE(map_items) {
  tvmrt_map* map;
  tvmrt_array* array;
  size_t i;
  TVMRT_COUNTED_ARGS(1, 1);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(&in, 0, TVMRT_TYPE_MAP, &map));
  array = tvmrt__array_new(map->size * 2);
  if (array == NULL) return -1;
  for (i = 0; i < map->size; ++i) {
    array->items[2 * i] = map->entries[i].key;
    array->items[2 * i + 1] = map->entries[i].value;
  }
  for (i = 0; i < array->size; ++i) tvmrt__retain(array->items[i]);
  return tvmrt__ret_object(out, out_code, &array->base);
}

/* Also for bytes, since a String may contain any; get_ffi_string returns the text before its first
 * NUL. */
TVMRT_NATIVE(make_string) {
  TVMByteArray text;
  TVMRT_COUNTED_ARGS(1, 1);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_bytes(&in, 0, &text));
  return tvmrt__ret_object(out, out_code, (tvmrt_object*)tvmrt__string_new(text.data, text.size));
}

/* Uses the thread's return slot: the text outlives the object, until the thread's next call. */
TVMRT_NATIVE(get_ffi_string) {
  tvmrt_string* s;
  TVMRT_COUNTED_ARGS(1, 1);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(&in, 0, TVMRT_TYPE_STRING, &s));
  return tvmrt__ret_str(out, out_code, s->data);
}

/* The extents are uninitialised until they are read, but the shape is not shared before. */
TVMRT_NATIVE(make_shape) {
  tvmrt_shape* shape;
  int i;
  TVMRT_GLOBAL_ARGS;
  shape = tvmrt__shape_new(NULL, (size_t)num_args);
  if (shape == NULL) return -1;
  for (i = 0; i < num_args; ++i) {
    if (tvmrt__arg_int(&in, i, &shape->data[i]) != 0) {
      tvmrt__release(&shape->base);
      return -1;
    }
  }
  return tvmrt__ret_object(out, out_code, &shape->base);
}

/* (ShapeTuple) -> number of extents. */
TVMRT_NATIVE(shape_size) {
  tvmrt_shape* shape;
  TVMRT_COUNTED_ARGS(1, 1);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(&in, 0, TVMRT_TYPE_SHAPE_TUPLE, &shape));
  return tvmrt__ret_int(out, out_code, (int64_t)shape->size);
}

/* (ShapeTuple, index) -> extent. */
TVMRT_NATIVE(shape_elem) {
  tvmrt_shape* shape;
  size_t index;
  TVMRT_COUNTED_ARGS(2, 2);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(&in, 0, TVMRT_TYPE_SHAPE_TUPLE, &shape));
  TVMRT_RETURN_IF_ERROR(read_index(&in, 1, shape->size, &index));
  return tvmrt__ret_int(out, out_code, shape->data[index]);
}

/* The type of the number selects the box: one function serves three of TVM's names. */
TVMRT_NATIVE(make_box) {
  TVMRT_COUNTED_ARGS(1, 1);
  if (type_codes[0] != kTVMArgInt && type_codes[0] != kTVMArgFloat &&
      type_codes[0] != kTVMArgBool) {
    return tvmrt__fail_type("runtime.Box: argument 0 must be a number, got %s.",
                            tvmrt__code_name(type_codes[0]));
  }
  return tvmrt__ret_object(out, out_code, box_value(&args[0], type_codes[0]));
}

/* (number) -> boxed bool: whether the number is not 0. */
TVMRT_NATIVE(make_box_bool) {
  int64_t value;
  TVMValue flag;
  TVMRT_COUNTED_ARGS(1, 1);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 0, &value));
  flag.v_int64 = value != 0;
  return tvmrt__ret_object(out, out_code, box_value(&flag, kTVMArgBool));
}

/* The three boxes have adjacent type indices, so that one range test suffices. */
TVMRT_NATIVE(unbox) {
  const tvmrt_box* box;
  TVMRT_COUNTED_ARGS(1, 1);
  box = args[0].v_handle;
  if (type_codes[0] != kTVMObjectHandle || box == NULL ||
      box->base.type_index < TVMRT_TYPE_BOX_INT || box->base.type_index > TVMRT_TYPE_BOX_BOOL) {
    return tvmrt__fail_type("runtime.Unbox: argument 0 must be a boxed number, got %s.",
                            tvmrt__code_name(type_codes[0]));
  }
  if (box->base.type_index == TVMRT_TYPE_BOX_FLOAT) {
    out->v_float64 = box->as.real;
    *out_code = kTVMArgFloat;
    return 0;
  }
  out->v_int64 = box->as.integer;
  *out_code = box->base.type_index == TVMRT_TYPE_BOX_BOOL ? kTVMArgBool : kTVMArgInt;
  return 0;
}

#define FUNCTIONS(X)                         \
  X("runtime.Array", make_array)             \
  X("runtime.ArrayGetItem", array_get_item)  \
  X("runtime.ArraySize", array_size)         \
  X("runtime.ADT", make_adt)                 \
  X("runtime.GetADTSize", adt_size)          \
  X("runtime.GetADTFields", adt_field)       \
  X("runtime.GetADTTag", adt_tag)            \
  X("runtime.Map", make_map)                 \
  X("runtime.MapGetItem", map_get_item)      \
  X("runtime.MapCount", map_count)           \
  X("runtime.MapSize", map_size)             \
  X("runtime.MapItems", map_items)           \
  X("runtime.String", make_string)           \
  X("runtime.GetFFIString", get_ffi_string)  \
  X("runtime.ShapeTuple", make_shape)        \
  X("runtime.GetShapeTupleSize", shape_size) \
  X("runtime.GetShapeTupleElem", shape_elem) \
  X("runtime.Box", make_box)                 \
  X("runtime.BoxInt", make_box)              \
  X("runtime.BoxFloat", make_box)            \
  X("runtime.BoxBool", make_box_bool)        \
  X("runtime.Unbox", unbox)                  \
  X("runtime.UnBoxBool", unbox)
const tvmrt_builtins tvmrt__container_builtins = TVMRT_BUILTINS(FUNCTIONS);
