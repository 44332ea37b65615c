/* Sorting functions that compiled networks call by name: detection networks, top-k, argsort.
 *
 * A tensor is split into slices along the axis. Each slice is copied, sorted by key with its
 * indices, and written out. Keys are doubles or int64, which represent every sortable type exactly.
 * Sorting is stable, as in TVM. Everything is checked before the first write.
 *
 * Example: a tensor [2, 5, 3] sorted along axis 1 has 6 slices of 5 elements: `outer` is 2, `inner`
 * 3, and the elements of a slice are 3 apart. Input and output may be one tensor, since a slice is
 * read completely before it is written. */
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/kernels/scalar/half.h>

#include "functions.h"
#include "sdk/tensors.h"
#include "sdk/values.h"

/* One element of a slice: its sort key and its original index. */
typedef struct {
  union {
    double real;
    int64_t whole;
  } key;
  int64_t index;
} item;

/* The slices of a tensor along one axis, and scratch memory for one slice. */
typedef struct {
  const DLTensor* in;
  const char* callee;
  int axis;
  int64_t count; /* extent of the axis */
  int64_t outer, inner;
  bool reals, ascends;
  item *items, *other;
  char* raw; /* the unconverted elements */
} slices;

static size_t size_of(DLDataType type) { return type.bits / 8u; }

/* check_type() allows no other types. */
static void read_key(const char* from, DLDataType type, item* out) {
  union {
    float f32;
    double f64;
    uint16_t f16;
    int8_t i8;
    uint8_t u8;
    int32_t i32;
    int64_t i64;
  } v;
  memcpy(&v, from, size_of(type));
  if (type.code == kDLFloat) {
    out->key.real = type.bits == 64 ? v.f64 : type.bits == 32 ? v.f32 : tvmrt_float16_to_f32(v.f16);
  } else if (type.code == kDLUInt) {
    out->key.whole = v.u8;
  } else {
    out->key.whole = type.bits == 64 ? v.i64 : type.bits == 32 ? v.i32 : v.i8;
  }
}

/* Indices may have any wide type, since TVM's networks also use float indices. */
static void write_index(char* to, DLDataType type, int64_t value) {
  union {
    float f32;
    double f64;
    int8_t i8;
    int32_t i32;
    int64_t i64;
  } v;
  if (type.code == kDLFloat && type.bits == 32)
    v.f32 = (float)value;
  else if (type.code == kDLFloat)
    v.f64 = (double)value;
  else if (type.bits == 64)
    v.i64 = value;
  else if (type.bits == 32)
    v.i32 = (int32_t)value;
  else
    v.i8 = (int8_t)value;
  memcpy(to, &v, size_of(type));
}

/* Strict comparison, so that equal elements keep their order in both directions. */
static bool precedes(const slices* s, const item* a, const item* b) {
  const item* low = s->ascends ? a : b;
  const item* high = s->ascends ? b : a;
  return s->reals ? low->key.real < high->key.real : low->key.whole < high->key.whole;
}

/* Stable in both directions. NaN precedes nothing, so it keeps its position. */
static void merge_sort(const slices* s, item* items, item* other, int64_t count) {
  int64_t left = (count + 1) / 2, i = 0, j = left, at = 0;
  if (count < 2) return;
  merge_sort(s, items, other, left);
  merge_sort(s, items + left, other, count - left);
  memcpy(other, items, (size_t)left * sizeof(*items)); /* at never passes j */
  while (i < left && j < count) {
    items[at++] = precedes(s, &items[j], &other[i]) ? items[j++] : other[i++];
  }
  memcpy(items + at, other + i, (size_t)(left - i) * sizeof(*items));
}

/* Element `index` of slice (o, i) of a tensor with equal slices. */
static char* element(const slices* s, const DLTensor* t, int64_t o, int64_t i, int64_t index) {
  int64_t at = (o * t->shape[s->axis] + index) * s->inner + i;
  return tvmrt__tensor_data(t) + (size_t)at * size_of(t->dtype);
}

/* Read slice (o, i) and sort its first `count` elements. */
static void sort_slice(const slices* s, int64_t o, int64_t i, int64_t count) {
  size_t size = size_of(s->in->dtype);
  for (int64_t k = 0; k < s->count; ++k) {
    const char* from = element(s, s->in, o, i, k);
    read_key(from, s->in->dtype, &s->items[k]);
    s->items[k].index = k;
    memcpy(s->raw + (size_t)k * size, from, size);
  }
  merge_sort(s, s->items, s->other, count);
}

/* Write the indices of the first `count` elements of a sorted slice. */
static void write_indices(const slices* s, const DLTensor* out, int64_t o, int64_t i,
                          int64_t count) {
  for (int64_t k = 0; k < count; ++k) {
    write_index(element(s, out, o, i, k), out->dtype, s->items[k].index);
  }
}

/* Writes the original elements, since converting a key back could round it. */
static void write_values(const slices* s, const DLTensor* out, int64_t o, int64_t i,
                         int64_t count) {
  size_t size = size_of(out->dtype);
  for (int64_t k = 0; k < count; ++k) {
    memcpy(element(s, out, o, i, k), s->raw + (size_t)s->items[k].index * size, size);
  }
}

/* ---- supported types ---- */

/* TVM's supported types; other types are rejected with TVM's error text. */
#define WIDE_TYPES "float32 float64 int32 int64"

/* Check that the name of a type is a word of a list. */
static int check_type(const char* callee, const char* what, DLDataType type, const char* known) {
  char name[TVMRT_DTYPE_TEXT_BYTES];
  size_t length;
  tvmrt__dtype_to_text(type, name);
  length = strlen(name);
  for (const char* at = known; (at = strstr(at, name)) != NULL; at += length) {
    bool starts = at == known || at[-1] == ' ';
    if (starts && (at[length] == ' ' || at[length] == '\0')) return 0;
  }
  return tvmrt__fail("%s: Unsupported %s dtype: %s; give one of %s.", callee, what, name, known);
}

/* Also ensures that products of extents do not overflow. */
static int check_tensor(const char* callee, const DLTensor* t) {
  uint64_t bytes;
  TVMRT_RETURN_IF_ERROR(tvmrt__tensor_bytes(t, &bytes));
  if (t->device.device_type != kDLCPU || !tvmrt__is_compact(t)) {
    return tvmrt__fail_value("%s works on compact CPU tensors only.", callee);
  }
  return 0;
}

/* An output has the input's shape, except for an extent of at least `minimum` along the axis. */
static int check_output(const slices* s, const DLTensor* out, int64_t minimum) {
  bool fits;
  TVMRT_RETURN_IF_ERROR(check_tensor(s->callee, out));
  fits = out->ndim == s->in->ndim && out->shape[s->axis] >= minimum;
  for (int d = 0; fits && d < out->ndim; ++d) {
    fits = d == s->axis || out->shape[d] == s->in->shape[d];
  }
  if (!fits) {
    char a[TVMRT_TENSOR_TEXT_BYTES], b[TVMRT_TENSOR_TEXT_BYTES];
    return tvmrt__fail_value("%s: the result %s does not match the input %s along axis %d.",
                             s->callee, tvmrt__tensor_text(out, a), tvmrt__tensor_text(s->in, b),
                             s->axis);
  }
  return 0;
}

/* Product of extents [first, end); may overflow if another extent is 0, when it is not used. */
static int64_t product(const DLTensor* t, int first, int end) {
  uint64_t all = 1;
  for (int d = first; d < end; ++d) all *= (uint64_t)t->shape[d];
  return (int64_t)all;
}

/* Fails before memory is allocated. */
static int make_slices(slices* s, const tvmrt_args* in, int64_t axis, const char* types) {
  const DLTensor* t = s->in;
  s->callee = in->callee;
  TVMRT_RETURN_IF_ERROR(check_tensor(in->callee, t));
  TVMRT_RETURN_IF_ERROR(check_type(in->callee, "input", t->dtype, types));
  if (axis < -t->ndim || axis >= t->ndim) {
    return tvmrt__fail_value("%s: Axis out of boundary for input ndim %d: %lld.", in->callee,
                             t->ndim, (long long)axis);
  }
  s->axis = (int)(axis < 0 ? axis + t->ndim : axis);
  s->count = t->shape[s->axis];
  s->reals = t->dtype.code == kDLFloat;
  s->outer = product(t, 0, s->axis);
  s->inner = product(t, s->axis + 1, t->ndim);
  return 0;
}

/* Allocate for one slice, the merge buffer, and the elements; freed through s->items. */
static int take_scratch(slices* s) {
  size_t each = 2 * sizeof(item) + size_of(s->in->dtype), count = (size_t)s->count;
  s->items = NULL;
  if (count <= (SIZE_MAX - 1) / each)
    s->items = tvmrt__alloc(count * each + 1);
  else
    (void)tvmrt__fail_memory(SIZE_MAX);
  if (s->items == NULL) return -1;
  /* consecutive in one block; elements last, since they need no alignment */
  s->other = s->items + count;
  s->raw = (char*)(s->other + count);
  return 0;
}

/* Whether the tensor is empty, when the products of extents may be meaningless. Checked before
 * memory is allocated. */
static bool is_empty(const slices* s) { return s->count == 0 || s->outer == 0 || s->inner == 0; }

/* ---- the functions ---- */

/* Sort all slices; write the first `slots` values and indices to the given outputs. */
static int run_all(slices* s, const DLTensor* values, const DLTensor* indices, int64_t slots) {
  if (is_empty(s)) return 0;
  TVMRT_RETURN_IF_ERROR(take_scratch(s));
  for (int64_t o = 0; o < s->outer; ++o) {
    for (int64_t i = 0; i < s->inner; ++i) {
      sort_slice(s, o, i, s->count);
      if (values != NULL) write_values(s, values, o, i, slots);
      if (indices != NULL) write_indices(s, indices, o, i, slots);
    }
  }
  free(s->items);
  return 0;
}

/* Read axis and is_ascend, from argument `first` on. */
static int read_axis_and_order(const tvmrt_args* in, int first, slices* s, int64_t* axis) {
  int64_t ascends;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, first, axis));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, in->count - 1, &ascends));
  s->ascends = ascends != 0;
  return 0;
}

/* Values are written unconverted. */
static int same_type(const slices* s, const DLTensor* out) {
  char a[TVMRT_DTYPE_TEXT_BYTES], b[TVMRT_DTYPE_TEXT_BYTES];
  if (tvmrt__same_dtype(s->in->dtype, out->dtype)) return 0;
  tvmrt__dtype_to_text(s->in->dtype, a);
  tvmrt__dtype_to_text(out->dtype, b);
  return tvmrt__fail_type("%s: values of %s cannot be stored in a tensor of %s.", s->callee, a, b);
}

/* (input, output, axis, is_ascend) */
static int sort_to(const tvmrt_args* in, bool to_indices) {
  slices s = {0};
  DLTensor *from, *out;
  int64_t axis;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 4, 4));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_tensor(in, 0, &from));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_tensor(in, 1, &out));
  TVMRT_RETURN_IF_ERROR(read_axis_and_order(in, 2, &s, &axis));
  s.in = from;
  TVMRT_RETURN_IF_ERROR(make_slices(&s, in, axis, WIDE_TYPES " float16"));
  TVMRT_RETURN_IF_ERROR(to_indices ? check_type(in->callee, "output", out->dtype, WIDE_TYPES)
                                   : same_type(&s, out));
  TVMRT_RETURN_IF_ERROR(check_output(&s, out, s.count));
  return run_all(&s, to_indices ? NULL : out, to_indices ? out : NULL, s.count);
}

/* (input, output, axis, is_ascend): write the sorted elements. */
TVMRT_PLUGIN_NATIVE(names_sort) {
  TVMRT_GLOBAL_ARGS;
  return sort_to(&in, false);
}

/* (input, output, axis, is_ascend): write the original indices. */
TVMRT_PLUGIN_NATIVE(names_argsort) {
  TVMRT_GLOBAL_ARGS;
  return sort_to(&in, true);
}

/* (scores, number of valid scores per slice, output, axis, is_ascend): argsort of the valid scores;
 * the others keep their position. */
TVMRT_PLUGIN_NATIVE(names_argsort_nms) {
  slices s = {0};
  DLTensor *scores, *valid, *to;
  int64_t axis, number;
  TVMRT_COUNTED_ARGS(5, 5);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_tensor(&in, 0, &scores));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_tensor(&in, 1, &valid));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_tensor(&in, 2, &to));
  TVMRT_RETURN_IF_ERROR(read_axis_and_order(&in, 3, &s, &axis));
  s.in = scores;
  TVMRT_RETURN_IF_ERROR(make_slices(&s, &in, axis, "float32"));
  TVMRT_RETURN_IF_ERROR(check_tensor(in.callee, valid));
  TVMRT_RETURN_IF_ERROR(check_type(in.callee, "valid_count", valid->dtype, "int32"));
  TVMRT_RETURN_IF_ERROR(check_type(in.callee, "output", to->dtype, "int32"));
  TVMRT_RETURN_IF_ERROR(check_output(&s, to, s.count));
  if (is_empty(&s)) return 0;
  number = product(valid, 0, valid->ndim);
  if (number < s.outer * s.inner) {
    return tvmrt__fail_value("%s: valid_count has %lld elements and the input %lld slices.",
                             in.callee, (long long)number, (long long)(s.outer * s.inner));
  }
  TVMRT_RETURN_IF_ERROR(take_scratch(&s));
  for (int64_t o = 0; o < s.outer; ++o) {
    for (int64_t i = 0; i < s.inner; ++i) {
      int32_t count;
      memcpy(&count, tvmrt__tensor_data(valid) + (size_t)(o * s.inner + i) * 4, sizeof(count));
      sort_slice(&s, o, i, count < 0 ? 0 : count < s.count ? count : s.count);
      write_indices(&s, to, o, i, s.count);
    }
  }
  free(s.items);
  return 0;
}

/* (input, values and indices or one of them, k, axis, "both"|"values"|"indices", is_ascend) */
TVMRT_PLUGIN_NATIVE(names_topk) {
  static const char* const kinds[] = {"both", "values", "indices"};
  slices s = {0};
  DLTensor *from, *results[2] = {NULL, NULL};
  const char* kind;
  int64_t k, axis;
  int which = 0, at = 1;
  TVMRT_COUNTED_ARGS(6, 7);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_tensor(&in, 0, &from));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, in.count - 4, &k));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, in.count - 2, &kind));
  TVMRT_RETURN_IF_ERROR(read_axis_and_order(&in, in.count - 3, &s, &axis));
  while (which < 3 && strcmp(kind, kinds[which]) != 0) ++which;
  if (which == 3 || in.count != (which == 0 ? 7 : 6)) {
    return tvmrt__fail_value(
        "%s: Unsupported ret type: %s with %d arguments; give \"both\" with 7,"
        " \"values\" or \"indices\" with 6.",
        in.callee, kind, in.count);
  }
  s.in = from;
  TVMRT_RETURN_IF_ERROR(make_slices(&s, &in, axis, WIDE_TYPES " float16 uint8 int8"));
  /* all elements, as in TVM */
  if (k < 1 || k > s.count) k = s.count;
  if (which != 2) {
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_tensor(&in, at++, &results[0]));
    TVMRT_RETURN_IF_ERROR(same_type(&s, results[0]));
    TVMRT_RETURN_IF_ERROR(check_output(&s, results[0], k));
  }
  if (which != 1) {
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_tensor(&in, at, &results[1]));
    TVMRT_RETURN_IF_ERROR(
        check_type(in.callee, "output", results[1]->dtype, WIDE_TYPES " uint8 int8"));
    TVMRT_RETURN_IF_ERROR(check_output(&s, results[1], k));
  }
  return run_all(&s, results[0], results[1], k);
}
