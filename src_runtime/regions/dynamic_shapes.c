/* Regions with dynamic sizes, on devices that are prepared for each size. The text of a region has
 * "sizes": [[least, most], ...], and its tensors "extents": ["d0 1 + 2 /", "8"], postfix
 * expressions of these sizes, which are evaluated when a run has other sizes.
 *
 * With d0 = 9 the first is (9 + 1) / 2 = 5. Division rounds down; "p" clamps negative values to 0.
 * The text is parsed again at each change of sizes, which are rare, so that expression trees need
 * not be stored. */
#include "dynamic_shapes.h"

#include <stdlib.h>
#include <string.h>

#include "../base/json.h"
#include "../tensors/tensor.h"

/* Compiler expressions are sums of products of sizes, which need few operands. Deeper ones are
 * refused. */
enum { MAX_OPERANDS = 32 };

typedef struct walk {
  tvmrt_parser in; /* first, so that callbacks can convert it to the walk */
  const tvmrt_sizes* sizes;
  const int64_t* values; /* of the sizes */
  const tvmrt_region* region;
  int64_t* shapes; /* TVMRT_MAX_NDIM for each tensor */
  int32_t tensor;
  int32_t axis; /* of the current extent */
  tvmrt_buf text;
} walk;

static walk* walk_of(tvmrt_parser* in) { return (walk*)(void*)in; }

static bool is(const char* key, const char* wanted) { return strcmp(key, wanted) == 0; }

/* As minimum and maximum; the shape was checked. The arrays are the runtime's own memory; they are
 * constant only for devices. */
static void set_shape(const tvmrt_region_tensor* tensor, const int64_t* shape) {
  tvmrt_region_tensor* t = (tvmrt_region_tensor*)(uintptr_t)tensor;
  const size_t bytes = (size_t)t->ndim * sizeof(*shape);
  if (bytes == 0) return;
  memcpy(tvmrt__min_extents(t), shape, bytes);
  memcpy((int64_t*)(uintptr_t)t->shape, shape, bytes);
  (void)tvmrt__shape_bytes(t->shape, t->ndim, t->dtype, &t->num_bytes);
}

/* A region begins with the maximum of each size, for which devices prepare it on loading. */
int tvmrt__sizes_init(tvmrt_sizes* out, const tvmrt_region_draft* draft, const char* tensors,
                      tvmrt_arena* arena) {
  int32_t i;
  memset(out, 0, sizeof(*out));
  out->tensors = tensors;
  out->tensors_size = draft->tensors_size;
  if (draft->num_sizes == 0) return 0;
  out->current = tvmrt__arena_alloc(arena, (size_t)draft->num_sizes, sizeof(*out->current));
  if (out->current == NULL) return -1;
  out->bounds = draft->sizes;
  out->count = draft->num_sizes;
  for (i = 0; i < out->count; ++i) out->current[i] = out->bounds[2 * i + 1];
  return 0;
}

/* The sizes that the generated code has read from the network's inputs; checked, as they determine
 * memory. Borrowed from the call's tensor and copied when they change. */
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
    const int64_t minimum = sizes->bounds[2 * i];
    const int64_t maximum = sizes->bounds[2 * i + 1];
    if ((*out)[i] < minimum || (*out)[i] > maximum) {
      return tvmrt__fail_value("region '%.100s': size %d is %lld, expected %lld to %lld.", symbol,
                               (int)i, (long long)(*out)[i], (long long)minimum,
                               (long long)maximum);
    }
  }
  return 0;
}

/* a op b; false for overflow or an invalid operation. */
static bool apply(char op, int64_t a, int64_t b, int64_t* out) {
  /* Half of the range, so that a sum of two results cannot overflow. */
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
      /* For non-negative numbers C rounds down like the compiler. */
      if (a < 0 || b <= 0) return false;
      *out = a / b;
      return true;
    default:
      return false;
  }
}

/* A number, or a size by its index; false if the token is neither. Numbers are bounded by the
 * maximum extent, so that products are checked in one place. */
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

/* Process one token with the stack of operands; false if the expression is invalid. */
static bool push(const walk* w, const char* token, int64_t* stack, int* depth) {
  /* the positive part, for lengths that would be negative */
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
  if (*depth == MAX_OPERANDS) return false;
  return operand(w, token, &stack[(*depth)++]);
}

/* The text is split in place. It is the parser's copy, so the region's text stays intact for the
 * next sizes. */
static bool evaluate(const walk* w, char* text, int64_t* out) {
  int64_t stack[MAX_OPERANDS] = {0};
  int depth = 0;
  while (*text != '\0') {
    char* end = text + strcspn(text, " ");
    const bool is_last = *end == '\0';
    *end = '\0';
    if (!push(w, text, stack, &depth)) return false;
    text = is_last ? end : end + 1;
  }
  /* One valid extent must be left; 0 is an empty tensor's. */
  if (depth != 1 || stack[0] < 0) return false;
  *out = stack[0];
  return true;
}

/* The buffers of all shapes have the maximum rank, so no axis exceeds its own. */
static int add_extent(tvmrt_parser* in, void* into) {
  walk* w = walk_of(in);
  const tvmrt_region_tensor* t = &w->region->tensors[w->tensor];
  int64_t* shape = &w->shapes[(size_t)w->tensor * TVMRT_MAX_NDIM];
  (void)into;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_string(in, &w->text));
  if (w->axis >= t->ndim || t->is_constant || !evaluate(w, w->text.data, &shape[w->axis])) {
    return tvmrt__parse_fail(in, "extent %d of tensor '%.60s' is invalid", (int)w->axis, t->name);
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

/* Counts tensors without expressions too: tensor numbers are indices of the list. */
static int add_tensor(tvmrt_parser* in, void* into) {
  walk* w = walk_of(in);
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_members(in, read_tensor, into));
  ++w->tensor;
  return 0;
}

/* All or nothing: on failure the region is unchanged. */
static int set_shapes(const walk* w) {
  uint64_t bytes;
  int32_t i;
  for (i = 0; i < w->region->num_tensors; ++i) {
    const tvmrt_region_tensor* t = &w->region->tensors[i];
    const int64_t* shape = &w->shapes[(size_t)i * TVMRT_MAX_NDIM];
    TVMRT_RETURN_IF_ERROR(tvmrt__shape_bytes(shape, t->ndim, t->dtype, &bytes));
  }
  for (i = 0; i < w->region->num_tensors; ++i) {
    set_shape(&w->region->tensors[i], &w->shapes[(size_t)i * TVMRT_MAX_NDIM]);
  }
  return 0;
}

/* The text was checked when the library was loaded, so a failure here is a size with an invalid
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
  /* Tensors without expressions keep their current extents. */
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

/* If memory to evaluate the sizes is exhausted, `release` sees those of the last run. */
void tvmrt__sizes_reset(const tvmrt_sizes* sizes, const tvmrt_region* region) {
  int32_t i;
  for (i = 0; i < sizes->count; ++i) sizes->current[i] = sizes->bounds[2 * i + 1];
  if (sizes->count != 0) (void)tvmrt__sizes_apply(sizes, sizes->current, region);
}

/* Writes the region's text with its current shapes, for a scripted device, which reads shapes and
 * need not support expressions. */
typedef struct writer {
  tvmrt_parser in;
  const tvmrt_region* region;
  const char* done; /* position in the text up to which it is written */
  tvmrt_buf* out;
  int32_t tensor;
} writer;

/* Extents in the format of the region's text. */
static int write_extents(tvmrt_buf* out, const tvmrt_region_tensor* t, const int64_t* extents) {
  int32_t i;
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "["));
  for (i = 0; i < t->ndim; ++i) {
    TVMRT_RETURN_IF_ERROR(
        tvmrt__buf_printf(out, "%s%lld", i == 0 ? "" : ",", (long long)extents[i]));
  }
  return tvmrt__buf_puts(out, "]");
}

/* All members except shape and minimum extents are copied unchanged. */
static int write_member(tvmrt_parser* in, void* into, const char* key) {
  writer* w = into;
  const tvmrt_region_tensor* t = &w->region->tensors[w->tensor];
  const int64_t* extents = is(key, "least") ? tvmrt__min_extents(t) : t->shape;
  if (!is(key, "shape") && !is(key, "least")) return tvmrt__parse_skip(in);
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(w->out, w->done, (size_t)(in->json.at - w->done)));
  TVMRT_RETURN_IF_ERROR(write_extents(w->out, t, extents));
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_skip(in));
  w->done = in->json.at;
  return 0;
}

/* Tensors are counted by their index in the list, as in both readers. */
static int write_tensor(tvmrt_parser* in, void* into) {
  writer* w = into;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_members(in, write_member, into));
  ++w->tensor;
  return 0;
}

/* All text except shapes is copied unchanged, so that unknown members are preserved. */
int tvmrt__write_region(const char* text, size_t text_size, const tvmrt_sizes* sizes,
                        const tvmrt_region* region, tvmrt_buf* out) {
  writer w;
  memset(&w, 0, sizeof(w));
  w.region = region;
  w.done = text;
  w.out = out;
  /* Text before and after the list of tensors is copied unchanged. */
  tvmrt__parse_init(&w.in, "the tensors of a device's region", sizes->tensors, sizes->tensors_size);
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_items(&w.in, write_tensor, &w));
  return tvmrt__buf_append(out, w.done, (size_t)(text + text_size - w.done));
}
