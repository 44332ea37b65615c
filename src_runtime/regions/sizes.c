/* Regions whose extents a run chooses, on devices that are prepared for them: the text of a region has
 * "sizes": [[least, most], ...], and its tensors "extents": ["d0 1 + 2 /", "8"], expressions in
 * postfix notation over them, which are evaluated when a run brings other ones.
 *
 * With d0 = 9 the first is (9 + 1) / 2 = 5. Division rounds down; "p" takes 0 in place of what is
 * negative. The text is read again at each change of sizes, which are rare, so that no tree of the
 * expressions has to be kept for each tensor. */
#include "sizes.h"

#include <stdlib.h>
#include <string.h>

#include "../base/json.h"
#include "../tensors/tensor.h"

/* An expression of a compiler is a sum of products of sizes: it needs a few. What is deeper was
 * written by no compiler, and is refused. */
enum { MOST_OPERANDS = 32 };

typedef struct walk {
  tvmrt_parser in; /* first, so that who is given it has the walk */
  const tvmrt_sizes* sizes;
  const int64_t* values; /* of the sizes */
  const tvmrt_region* region;
  int64_t* shapes; /* TVMRT_MAX_NDIM of each tensor */
  int32_t tensor;
  int32_t axis; /* of which the extents are read */
  tvmrt_buf text;
} walk;

static walk* walk_of(tvmrt_parser* in) { return (walk*)(void*)in; }

static bool is(const char* key, const char* wanted) { return strcmp(key, wanted) == 0; }

/* A region begins with the most of each size: devices are prepared for that when it is loaded. */
int tvmrt__sizes_init(tvmrt_sizes* out, const tvmrt_region_draft* draft, const char* tensors,
                      tvmrt_arena* arena) {
  int32_t i;
  memset(out, 0, sizeof(*out));
  out->tensors = tensors;
  out->tensors_size = draft->tensors_size;
  if (draft->num_sizes == 0) return 0;
  out->now = tvmrt__arena_alloc(arena, (size_t)draft->num_sizes, sizeof(*out->now));
  if (out->now == NULL) return -1;
  out->bounds = draft->sizes;
  out->count = draft->num_sizes;
  for (i = 0; i < out->count; ++i) out->now[i] = out->bounds[2 * i + 1];
  return 0;
}

/* The sizes that the generated code has read from the network's inputs; checked, as they choose
 * memory. They are borrowed from the call's tensor and copied where they change something. */
int tvmrt__sizes_of_call(const tvmrt_sizes* sizes, const char* symbol, const TVMValue* value,
                         int code, const int64_t** out) {
  const DLTensor* t = value->v_handle;
  int32_t i;
  *out = NULL;
  if ((code != kTVMDLTensorHandle && code != kTVMNDArrayHandle) || t == NULL || t->ndim != 1 ||
      t->shape[0] != sizes->count || t->dtype.code != kDLInt || t->dtype.bits != 64 ||
      t->data == NULL || !tvmrt__is_compact(t)) {
    return tvmrt__fail_value("region '%.100s' takes %d sizes as its last argument.", symbol,
                             (int)sizes->count);
  }
  *out = (const int64_t*)(const void*)((const char*)t->data + t->byte_offset);
  for (i = 0; i < sizes->count; ++i) {
    const int64_t least = sizes->bounds[2 * i];
    const int64_t most = sizes->bounds[2 * i + 1];
    if ((*out)[i] < least || (*out)[i] > most) {
      return tvmrt__fail_value("region '%.100s': size %d is %lld, expected %lld to %lld.", symbol,
                               (int)i, (long long)(*out)[i], (long long)least, (long long)most);
    }
  }
  return 0;
}

/* a op b; false where that is no extent or does not fit. */
static bool apply(char op, int64_t a, int64_t b, int64_t* out) {
  /* Half of what fits, so that a sum of two results needs no check before it is made. */
  const int64_t limit = (int64_t)1 << 62;
  switch (op) {
    case '+':
      *out = a + b;
      return llabs(*out) < limit;
    case '*':
      if (a != 0 && (b > limit / llabs(a) || b < -(limit / llabs(a)))) return false;
      *out = a * b;
      return llabs(*out) < limit;
    case '/':
      /* Of what is not negative: there C rounds as the compiler does, down. */
      if (a < 0 || b <= 0) return false;
      *out = a / b;
      return true;
    default:
      return false;
  }
}

/* A number, or a size by its place; false if the token is neither. No number is above what an
 * extent may be, so that products are checked in one place. */
static bool operand(const walk* w, const char* token, int64_t* out) {
  const bool is_size = token[0] == 'd';
  char* end;
  const long long value = strtoll(token + (is_size ? 1 : 0), &end, 10);
  if (end == token + (is_size ? 1 : 0) || *end != '\0') return false;
  if (value > INT32_MAX || value < -INT32_MAX) return false;
  if (is_size && (value < 0 || value >= w->sizes->count)) return false;
  *out = is_size ? w->values[value] : (int64_t)value;
  return true;
}

/* One token on the stack of operands; false if the expression is wrong. */
static bool push(const walk* w, const char* token, int64_t* stack, int* depth) {
  /* the positive part: a length that would be negative is none */
  if (is(token, "p")) {
    if (*depth < 1) return false;
    if (stack[*depth - 1] < 0) stack[*depth - 1] = 0;
    return true;
  }
  if (token[1] == '\0' && strchr("+*/", token[0]) != NULL) {
    if (*depth < 2) return false;
    --*depth;
    return apply(token[0], stack[*depth - 1], stack[*depth], &stack[*depth - 1]);
  }
  if (*depth == MOST_OPERANDS) return false;
  return operand(w, token, &stack[(*depth)++]);
}

/* The text is taken apart in place. It is the parser's copy of the string, so the region's text
 * stays whole for the next sizes. */
static bool evaluate(const walk* w, char* text, int64_t* out) {
  int64_t stack[MOST_OPERANDS] = {0};
  int depth = 0;
  while (*text != '\0') {
    char* end = text + strcspn(text, " ");
    const bool is_last = *end == '\0';
    *end = '\0';
    if (!push(w, text, stack, &depth)) return false;
    text = is_last ? end : end + 1;
  }
  /* One value is left, and it is an extent; 0 is an empty tensor's. */
  if (depth != 1 || stack[0] < 0) return false;
  *out = stack[0];
  return true;
}

/* Shapes of all tensors have room for the most dimensions: no axis leaves its own. */
static int add_extent(tvmrt_parser* in, void* into) {
  walk* w = walk_of(in);
  const tvmrt_region_tensor* t = &w->region->tensors[w->tensor];
  int64_t* shape = &w->shapes[(size_t)w->tensor * TVMRT_MAX_NDIM];
  (void)into;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_string(in, &w->text));
  if (w->axis >= t->ndim || t->is_constant || !evaluate(w, w->text.data, &shape[w->axis])) {
    return tvmrt__parse_fail(in, "extent %d of tensor '%.60s' is none", (int)w->axis, t->name);
  }
  ++w->axis;
  return 0;
}

/* Tensors without "extents" keep their shapes. */
static int read_tensor(tvmrt_parser* in, void* into, const char* key) {
  walk* w = walk_of(in);
  const tvmrt_region_tensor* t = &w->region->tensors[w->tensor];
  if (!is(key, "extents")) return tvmrt__parse_skip(in);
  w->axis = 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_items(in, add_extent, into));
  return w->axis == t->ndim ? 0 : tvmrt__parse_fail(in, "tensor '%.60s' lacks extents", t->name);
}

/* Counted also where it has no expressions: numbers of tensors are places in the list. */
static int add_tensor(tvmrt_parser* in, void* into) {
  walk* w = walk_of(in);
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_members(in, read_tensor, into));
  ++w->tensor;
  return 0;
}

/* All shapes, or none: where one is wrong the region stays as it was. */
static int set_shapes(const walk* w) {
  uint64_t bytes;
  int32_t i;
  for (i = 0; i < w->region->num_tensors; ++i) {
    const tvmrt_region_tensor* t = &w->region->tensors[i];
    const int64_t* shape = &w->shapes[(size_t)i * TVMRT_MAX_NDIM];
    TVMRT_RETURN_IF_ERROR(tvmrt__shape_bytes(shape, t->ndim, t->dtype, &bytes));
  }
  for (i = 0; i < w->region->num_tensors; ++i) {
    tvmrt__set_shape(&w->region->tensors[i], &w->shapes[(size_t)i * TVMRT_MAX_NDIM]);
  }
  return 0;
}

/* The text was read once when the library was loaded, so what fails here is a size that makes no
 * shape. */
int tvmrt__sizes_apply(const tvmrt_sizes* sizes, const int64_t* values,
                       const tvmrt_region* region) {
  walk w;
  int32_t i;
  int rc;
  memset(&w, 0, sizeof(w));
  w.sizes = sizes;
  w.values = values;
  w.region = region;
  w.shapes = tvmrt__calloc((size_t)region->num_tensors, TVMRT_MAX_NDIM * sizeof(*w.shapes));
  if (w.shapes == NULL) return -1;
  /* What has no expression keeps the extents of now. */
  for (i = 0; i < region->num_tensors; ++i) {
    const tvmrt_region_tensor* t = &region->tensors[i];
    if (t->ndim != 0) {
      memcpy(&w.shapes[(size_t)i * TVMRT_MAX_NDIM], t->shape, (size_t)t->ndim * sizeof(*t->shape));
    }
  }
  tvmrt__parse_init(&w.in, "the tensors of a device's region", sizes->tensors, sizes->tensors_size);
  rc = tvmrt__parse_items(&w.in, add_tensor, &w);
  if (rc == 0) rc = set_shapes(&w);
  tvmrt__buf_free(&w.text);
  free(w.shapes);
  return rc;
}

/* The region's text with its shapes of now. A scripted device gets it: it reads shapes where any
 * region has them, and need not know expressions. */
typedef struct writer {
  tvmrt_parser in;
  const tvmrt_region* region;
  const char* done; /* of the text, what is written */
  tvmrt_buf* out;
  int32_t tensor;
} writer;

/* Extents as the region's text has them. */
static int write_extents(tvmrt_buf* out, const tvmrt_region_tensor* t, const int64_t* extents) {
  int32_t i;
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "["));
  for (i = 0; i < t->ndim; ++i) {
    TVMRT_RETURN_IF_ERROR(
        tvmrt__buf_printf(out, "%s%lld", i == 0 ? "" : ",", (long long)extents[i]));
  }
  return tvmrt__buf_puts(out, "]");
}

/* What is neither shape nor least extents is copied as it stands, with what lies before it. */
static int write_member(tvmrt_parser* in, void* into, const char* key) {
  writer* w = into;
  const tvmrt_region_tensor* t = &w->region->tensors[w->tensor];
  const int64_t* extents = is(key, "least") ? tvmrt__least_extents(t) : t->shape;
  if (!is(key, "shape") && !is(key, "least")) return tvmrt__parse_skip(in);
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(w->out, w->done, (size_t)(in->json.at - w->done)));
  TVMRT_RETURN_IF_ERROR(write_extents(w->out, t, extents));
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_skip(in));
  w->done = in->json.at;
  return 0;
}

/* Tensors are counted by their place in the list, as both readers do. */
static int write_tensor(tvmrt_parser* in, void* into) {
  writer* w = into;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_members(in, write_member, into));
  ++w->tensor;
  return 0;
}

/* All text but shapes goes out as it came, so that what this runtime does not know is not lost. */
int tvmrt__write_region(const char* text, size_t text_size, const tvmrt_sizes* sizes,
                        const tvmrt_region* region, tvmrt_buf* out) {
  writer w;
  memset(&w, 0, sizeof(w));
  w.region = region;
  w.done = text;
  w.out = out;
  /* What stands before the list of tensors, and behind it, is copied as it is. */
  tvmrt__parse_init(&w.in, "the tensors of a device's region", sizes->tensors, sizes->tensors_size);
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_items(&w.in, write_tensor, &w));
  return tvmrt__buf_append(out, w.done, (size_t)(text + text_size - w.done));
}
