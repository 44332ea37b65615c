/* Parsing of regions: every index in the result is in range, every tensor has one source.
 *
 * The text comes from an untrusted file. Devices use the result without further checks, so all
 * indices are checked here, and on failure everything is freed.
 *
 * Members of an object may have any order, so each object is parsed into a draft, and relations
 * between its members are checked at its end. Unknown members are skipped: newer compilers may add
 * members that older runtimes can ignore. All results lie in the set's arena; lists grow on the
 * heap until their length is known. */
#include "region_set.h"

#include "../base/json.h"
#include "../tensors/tensor.h"
#include "region_check.h"

typedef struct reader {
  tvmrt_parser in; /* first, so that callbacks can convert it to the reader */
  tvmrt_buf text;  /* the last string; overwritten by the next one */
  tvmrt_region_set* set;
  const uint8_t* constants; /* NULL: not given, and constants have no data */
  size_t constants_size;
} reader;

#define FAIL(r, ...) tvmrt__parse_fail(&(r)->in, __VA_ARGS__)

/* Callbacks for items and members receive only the parser, which is the reader's first member. */
static reader* reader_of(tvmrt_parser* in) { return (reader*)(void*)in; }

static bool is(const char* key, const char* wanted) { return strcmp(key, wanted) == 0; }

/* A string that lives as long as the set. */
static int read_text(reader* r, const char** out) {
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_string(&r->in, &r->text));
  *out = tvmrt__arena_text(&r->set->arena, r->text.data, r->text.size);
  return *out == NULL ? -1 : 0;
}

/* The source text of an object. Devices parse their options themselves. */
static int read_object_text(reader* r, const char** out) {
  const char* begin;
  if (tvmrt__parse_peek(&r->in) != '{') return FAIL(r, "the options are not a JSON object");
  begin = r->in.json.at;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_skip(&r->in));
  *out = tvmrt__arena_text(&r->set->arena, begin, (size_t)(r->in.json.at - begin));
  return *out == NULL ? -1 : 0;
}

/* Move a buffer's contents to the arena. Lists grow on the heap, as their lengths are unknown, and
 * end in the arena, which is freed as a whole. */
static int store_items(reader* r, tvmrt_buf* items, size_t item_bytes, void* out_items,
                       int32_t* out_count) {
  void* stored;
  if (items->size / item_bytes > INT32_MAX) return FAIL(r, "a list is too long");
  stored = tvmrt__arena_copy(&r->set->arena, items->data, items->size);
  if (stored == NULL) return -1;
  /* by bytes, since the caller's pointer is not a void* */
  memcpy(out_items, &stored, sizeof(stored));
  *out_count = (int32_t)(items->size / item_bytes);
  return 0;
}

/* Read a list; `add` appends each element to a buffer. */
static int read_list(reader* r, int (*add)(tvmrt_parser* in, void* items), size_t item_bytes,
                     void* out_items, int32_t* out_count) {
  tvmrt_buf items = {NULL, 0, 0};
  int rc = tvmrt__parse_items(&r->in, add, &items);
  if (rc == 0) rc = store_items(r, &items, item_bytes, out_items, out_count);
  tvmrt__buf_free(&items);
  return rc;
}

/* The product of the extents is checked when the shape is complete. */
static int add_extent(tvmrt_parser* in, void* items) {
  reader* r = reader_of(in);
  int64_t value;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_int(&r->in, &value));
  if (value < 0) return FAIL(r, "an extent is negative");
  return tvmrt__buf_append(items, &value, sizeof(value));
}

/* The number of a tensor; -1 stands for an omitted operand. Whether it exists is checked when all
 * have been read. */
static int add_index(tvmrt_parser* in, void* items) {
  reader* r = reader_of(in);
  int64_t value;
  int32_t index;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_int(&r->in, &value));
  if (value < -1 || value > INT32_MAX) return FAIL(r, "a tensor's number is out of range");
  index = (int32_t)value;
  return tvmrt__buf_append(items, &index, sizeof(index));
}

/* A JSON number, or Python's additions to JSON: Infinity, NaN. */
typedef struct number {
  bool is_int;
  int64_t i;
  double f;
} number;

/* A number with a point, an exponent or letters is not an integer. */
static int read_number(reader* r, number* out) {
  const char* c;
  (void)tvmrt__parse_peek(&r->in); /* skip leading spaces */
  c = r->in.json.at;
  while (c < r->in.json.end && ((*c >= '0' && *c <= '9') || *c == '-')) ++c;
  out->is_int = c == r->in.json.end || strchr(",]} \n\t\r", *c) != NULL;
  if (!out->is_int) return tvmrt__parse_real(&r->in, &out->f);
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_int(&r->in, &out->i));
  out->f = (double)out->i;
  return 0;
}

/* Integers are also stored as floats: the type of the list depends on all its numbers. */
static int add_number(tvmrt_parser* in, void* items) {
  reader* r = reader_of(in);
  number value;
  TVMRT_RETURN_IF_ERROR(read_number(r, &value));
  return tvmrt__buf_append(items, &value, sizeof(value));
}

/* Numbers as integers if all are, else as floats. */
static int set_numbers(reader* r, const number* numbers, int32_t count, tvmrt_attr* attr) {
  /* Both, since only the last number decides which is used. */
  int64_t* ints = tvmrt__arena_alloc(&r->set->arena, (size_t)count, sizeof(*ints));
  double* floats = tvmrt__arena_alloc(&r->set->arena, (size_t)count, sizeof(*floats));
  int32_t i;
  bool all_ints = true;
  if (ints == NULL || floats == NULL) return -1;
  if (numbers == NULL) count = 0; /* an empty list */
  for (i = 0; i < count; ++i) {
    all_ints &= numbers[i].is_int;
    ints[i] = numbers[i].i;
    floats[i] = numbers[i].f;
  }
  attr->kind = all_ints ? TVMRT_ATTR_INTS : TVMRT_ATTR_FLOATS;
  attr->ints = all_ints ? ints : NULL;
  attr->floats = all_ints ? NULL : floats;
  attr->count = count;
  return 0;
}

/* Text, a number, or a list of numbers; a single number is a list of one. */
static int read_attr_value(reader* r, tvmrt_attr* attr) {
  char first = tvmrt__parse_peek(&r->in);
  const number* numbers = NULL;
  number one = {false, 0, 0.0};
  if (first == '"') {
    attr->kind = TVMRT_ATTR_TEXT;
    TVMRT_RETURN_IF_ERROR(read_text(r, &attr->text));
    if (r->text.size > INT32_MAX) return FAIL(r, "an attribute is too long");
    attr->count = (int32_t)r->text.size;
    return 0;
  }
  if (first != '[') {
    TVMRT_RETURN_IF_ERROR(read_number(r, &one));
    return set_numbers(r, &one, 1, attr);
  }
  TVMRT_RETURN_IF_ERROR(read_list(r, add_number, sizeof(number), (void*)&numbers, &attr->count));
  return set_numbers(r, numbers, attr->count, attr);
}

/* The key is borrowed for this call, so it is copied to the arena. */
static int add_attr(tvmrt_parser* in, void* into, const char* key) {
  reader* r = reader_of(in);
  tvmrt_attr attr = {0};
  attr.key = tvmrt__arena_text(&r->set->arena, key, strlen(key));
  if (attr.key == NULL) return -1;
  TVMRT_RETURN_IF_ERROR(read_attr_value(r, &attr));
  return tvmrt__buf_append(into, &attr, sizeof(attr));
}

/* An object with any members; devices look up those they know. */
static int read_attrs(reader* r, tvmrt_region_node* node) {
  tvmrt_buf attrs = {NULL, 0, 0};
  int rc = tvmrt__parse_members(&r->in, add_attr, &attrs);
  if (rc == 0)
    rc = store_items(r, &attrs, sizeof(tvmrt_attr), (void*)&node->attrs, &node->num_attrs);
  tvmrt__buf_free(&attrs);
  return rc;
}

/* A constant must lie inside the constants, if these are given. Devices load constants in place by
 * vectors, hence the alignment. */
static int place_constant(reader* r, tvmrt_region_tensor* t, int64_t offset, int64_t bytes) {
  if (offset < 0 || offset % TVMRT_CONSTANT_ALIGN_BYTES != 0) {
    return FAIL(r, "the offset of constant '%.60s' is not a multiple of %d", t->name,
                TVMRT_CONSTANT_ALIGN_BYTES);
  }
  if (bytes < 0 || (uint64_t)bytes != t->num_bytes) {
    return FAIL(r, "constant '%.60s' has %lld bytes instead of %llu", t->name, (long long)bytes,
                (unsigned long long)t->num_bytes);
  }
  t->is_constant = 1;
  /* A compiler that only queries shapes passes none. */
  if (r->constants == NULL) return 0;
  if ((uint64_t)offset > r->constants_size ||
      (uint64_t)bytes > r->constants_size - (uint64_t)offset) {
    return FAIL(r, "constant '%.60s' exceeds the %zu bytes of constants", t->name,
                r->constants_size);
  }
  t->data = r->constants + offset;
  return 0;
}

/* A tensor and its other properties. */
typedef struct tensor_draft {
  tvmrt_region_tensor t;
  const int64_t* min_extents; /* NULL: those of its shape */
  int32_t num_min_extents;
  bool has_dtype;
  bool is_constant;
  int64_t offset;
  int64_t bytes;
} tensor_draft;

/* The shape, followed by the minimum extents for tvmrt__min_extents(), without a field in a
 * struct of the device ABI. */
static int set_extents(reader* r, tensor_draft* d) {
  const size_t bytes = (size_t)d->t.ndim * sizeof(int64_t);
  int64_t* both = tvmrt__arena_alloc(&r->set->arena, (size_t)d->t.ndim * 2 + 1, sizeof(*both));
  int32_t i;
  if (both == NULL) return -1;
  if (bytes != 0) memcpy(both, d->t.shape, bytes);
  if (bytes != 0)
    memcpy(both + d->t.ndim, d->min_extents == NULL ? d->t.shape : d->min_extents, bytes);
  for (i = 0; i < d->t.ndim; ++i) {
    if (both[i + d->t.ndim] > both[i]) {
      return FAIL(r, "tensor '%.60s' has a minimum extent above its maximum", d->t.name);
    }
  }
  d->t.shape = both;
  return 0;
}

/* Whether any tensor has dynamic dimensions. */
bool tvmrt__region_is_dynamic(const tvmrt_region* region) {
  int32_t i;
  for (i = 0; i < region->num_tensors; ++i) {
    const tvmrt_region_tensor* t = &region->tensors[i];
    const size_t bytes = (size_t)t->ndim * sizeof(*t->shape);
    if (bytes != 0 && memcmp(t->shape, tvmrt__min_extents(t), bytes) != 0) return true;
  }
  return false;
}

/* Members may have any order, so relations are checked when all are read. */
static int finish_tensor(reader* r, tensor_draft* d) {
  tvmrt_region_tensor* t = &d->t;
  if (t->name == NULL || t->shape == NULL || !d->has_dtype) {
    return FAIL(r, "a tensor lacks 'name', 'dtype' or 'shape'");
  }
  if (t->ndim > TVMRT_MAX_NDIM) return FAIL(r, "tensor '%.60s' has too many dimensions", t->name);
  /* A constant has a fixed size, so its extents are not dynamic. */
  if (d->min_extents != NULL && (d->num_min_extents != t->ndim || d->is_constant)) {
    return FAIL(r, "tensor '%.60s' has %d minimum extents", t->name, (int)d->num_min_extents);
  }
  TVMRT_RETURN_IF_ERROR(set_extents(r, d));
  TVMRT_RETURN_IF_ERROR(tvmrt__shape_bytes(t->shape, t->ndim, t->dtype, &t->num_bytes));
  return d->is_constant ? place_constant(r, t, d->offset, d->bytes) : 0;
}

/* Unknown members are skipped, so that newer compilers may add some. */
static int read_tensor(tvmrt_parser* in, void* into, const char* key) {
  reader* r = reader_of(in);
  tensor_draft* d = into;
  if (is(key, "name")) return read_text(r, &d->t.name);
  if (is(key, "shape")) {
    return read_list(r, add_extent, sizeof(int64_t), (void*)&d->t.shape, &d->t.ndim);
  }
  if (is(key, "least")) {
    return read_list(r, add_extent, sizeof(int64_t), (void*)&d->min_extents, &d->num_min_extents);
  }
  if (is(key, "bytes")) return tvmrt__parse_int(in, &d->bytes);
  if (is(key, "offset")) {
    d->is_constant = true;
    return tvmrt__parse_int(in, &d->offset);
  }
  if (!is(key, "dtype")) return tvmrt__parse_skip(in);
  d->has_dtype = true;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_string(in, &r->text));
  return tvmrt__dtype_from_text(r->text.data, &d->t.dtype);
}

/* Without "bytes" a constant has -1, which fits no tensor. */
static int add_tensor(tvmrt_parser* in, void* items) {
  reader* r = reader_of(in);
  tensor_draft d = {.bytes = -1};
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_members(&r->in, read_tensor, &d));
  TVMRT_RETURN_IF_ERROR(finish_tensor(r, &d));
  return tvmrt__buf_append(items, &d.t, sizeof(d.t));
}

static int read_indices(reader* r, const int32_t** out, int32_t* out_count) {
  return read_list(r, add_index, sizeof(int32_t), (void*)out, out_count);
}

/* As for tensors, unknown members are skipped. */
static int read_node(tvmrt_parser* in, void* into, const char* key) {
  reader* r = reader_of(in);
  tvmrt_region_node* n = into;
  if (is(key, "op")) return read_text(r, &n->op);
  if (is(key, "name")) return read_text(r, &n->name);
  if (is(key, "inputs")) return read_indices(r, &n->inputs, &n->num_inputs);
  if (is(key, "outputs")) return read_indices(r, &n->outputs, &n->num_outputs);
  return is(key, "attrs") ? read_attrs(r, n) : tvmrt__parse_skip(in);
}

/* Attributes are optional, operands and results are not: devices index them. */
static int add_node(tvmrt_parser* in, void* items) {
  reader* r = reader_of(in);
  tvmrt_region_node n = {0};
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_members(&r->in, read_node, &n));
  if (n.op == NULL || n.inputs == NULL || n.outputs == NULL) {
    return FAIL(r, "a node lacks 'op', 'inputs' or 'outputs'");
  }
  if (n.name == NULL) n.name = n.op;
  return tvmrt__buf_append(items, &n, sizeof(n));
}

/* Minimum and maximum of a size, both valid extents. */
static int add_size(tvmrt_parser* in, void* bounds) {
  tvmrt_buf* items = bounds;
  const size_t before = items->size;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_items(in, add_extent, items));
  if (items->size - before == 2 * sizeof(int64_t)) {
    const int64_t* pair = (const int64_t*)(const void*)(items->data + before);
    if (pair[0] <= pair[1] && pair[1] <= INT32_MAX) return 0;
  }
  return tvmrt__parse_fail(in, "a size needs two bounds");
}

/* The position of the list is recorded, since dynamic_shapes.c evaluates its expressions at each
 * change of sizes. */
static int read_tensors(reader* r, tvmrt_region_draft* draft) {
  (void)tvmrt__parse_peek(&r->in);
  draft->tensors_begin = (size_t)(r->in.json.at - r->in.begin);
  TVMRT_RETURN_IF_ERROR(read_list(r, add_tensor, sizeof(tvmrt_region_tensor),
                                  (void*)&draft->region.tensors, &draft->region.num_tensors));
  draft->tensors_size = (size_t)(r->in.json.at - r->in.begin) - draft->tensors_begin;
  return 0;
}

/* The lists may have any order; tensor numbers in them are checked when the region is complete. */
static int read_region(tvmrt_parser* in, void* into, const char* key) {
  reader* r = reader_of(in);
  tvmrt_region_draft* draft = into;
  tvmrt_region* region = &draft->region;
  if (is(key, "symbol")) return read_text(r, &region->symbol);
  if (is(key, "name")) return read_text(r, &region->name);
  if (is(key, "inputs")) return read_indices(r, &region->inputs, &region->num_inputs);
  if (is(key, "outputs")) return read_indices(r, &region->outputs, &region->num_outputs);
  if (is(key, "tensors")) return read_tensors(r, draft);
  if (is(key, "sizes")) {
    return read_list(r, add_size, 2 * sizeof(int64_t), (void*)&draft->sizes, &draft->num_sizes);
  }
  if (!is(key, "nodes")) return tvmrt__parse_skip(in);
  return read_list(r, add_node, sizeof(tvmrt_region_node), (void*)&region->nodes,
                   &region->num_nodes);
}

/* A region is checked as soon as it is read, so that the position in an error text is close to
 * it. */
static int add_region(tvmrt_parser* in, void* into) {
  reader* r = reader_of(in);
  tvmrt_buf* items = into;
  tvmrt_region_draft draft = {0};
  tvmrt_region* region = &draft.region;
  /* There are few regions, so each is compared with all earlier ones. */
  const tvmrt_region_draft* others = (const void*)items->data;
  size_t i;
  (void)tvmrt__parse_peek(&r->in);
  draft.text_begin = (size_t)(r->in.json.at - r->in.begin);
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_members(&r->in, read_region, &draft));
  draft.text_size = (size_t)(r->in.json.at - r->in.begin) - draft.text_begin;
  if (region->symbol == NULL || region->tensors == NULL || region->nodes == NULL ||
      region->inputs == NULL || region->outputs == NULL) {
    return FAIL(r, "a region lacks 'symbol', 'tensors', 'nodes', 'inputs' or 'outputs'");
  }
  if (region->name == NULL) region->name = region->symbol;
  region->failed_node = -1;
  region->struct_bytes = sizeof(*region);
  for (i = 0; i < items->size / sizeof(draft); ++i) {
    if (strcmp(others[i].region.symbol, region->symbol) == 0) {
      return FAIL(r, "there are two regions '%.60s'", region->symbol);
    }
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__region_check(&r->in, region));
  return tvmrt__buf_append(items, &draft, sizeof(draft));
}

/* Header of the format. */
typedef struct format {
  const char* name;
  int64_t version;
} format;

/* Of repeated members the last one is used. */
static int read_root_member(tvmrt_parser* in, void* into, const char* key) {
  reader* r = reader_of(in);
  format* f = into;
  int64_t value = 0;
  int32_t count = 0;
  if (is(key, "format")) return read_text(r, &f->name);
  if (is(key, "version")) return tvmrt__parse_int(in, &f->version);
  if (is(key, "device")) return read_text(r, &r->set->device);
  if (is(key, "device_version")) return tvmrt__parse_int(in, &r->set->device_version);
  if (is(key, "options")) return read_object_text(r, &r->set->options);
  if (is(key, "fallback")) {
    TVMRT_RETURN_IF_ERROR(tvmrt__parse_int(in, &value));
    r->set->fallback = value != 0;
    return 0;
  }
  if (!is(key, "regions")) return tvmrt__parse_skip(in);
  TVMRT_RETURN_IF_ERROR(
      read_list(r, add_region, sizeof(tvmrt_region_draft), (void*)&r->set->regions, &count));
  r->set->num_regions = (size_t)count;
  return 0;
}

/* The header members may be anywhere in the object, so they are checked at the end. */
static int read_set(reader* r) {
  format f = {NULL, -1};
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_members(&r->in, read_root_member, &f));
  if (tvmrt__parse_peek(&r->in) != '\0') return FAIL(r, "something follows");
  if (f.name == NULL || !is(f.name, "tvmrt-regions")) {
    return FAIL(r, "its format is '%.40s' instead of 'tvmrt-regions'", f.name ? f.name : "");
  }
  if (f.version != 1) {
    return FAIL(r, "it has version %lld of the format, this runtime reads version 1",
                (long long)f.version);
  }
  if (r->set->device == NULL) return FAIL(r, "it lacks 'device'");
  return 0;
}

/* The result points into the constants, but not into the text. */
int tvmrt__region_set_read(const char* json, size_t json_size, const void* constants,
                           size_t constants_size, tvmrt_region_set* out) {
  reader r = {0};
  int rc;
  memset(out, 0, sizeof(*out));
  r.set = out;
  r.constants = constants;
  r.constants_size = constants_size;
  tvmrt__parse_init(&r.in, "the text of a device's regions", json, json_size);
  rc = read_set(&r);
  tvmrt__buf_free(&r.text);
  if (rc != 0) tvmrt__region_set_free(out);
  return rc;
}

void tvmrt__region_set_free(tvmrt_region_set* set) {
  tvmrt__arena_free(&set->arena);
  memset(set, 0, sizeof(*set));
}
