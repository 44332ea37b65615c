/* Reading regions: every number in the result is in range, every tensor has one source. */
#include "region_set.h"

#include <locale.h>
#include <stdlib.h>

#include "../base/json.h"
#include "../tensors/tensor.h"

typedef struct reader {
  tvmrt_parser in;
  tvmrt_buf key;
  tvmrt_buf text;
  tvmrt_region_set* set;
  const uint8_t* constants;
  size_t constants_size;
} reader;

#define FAIL(r, ...) tvmrt__parse_fail(&(r)->in, __VA_ARGS__)

/* The position of a key in a table that ends with NULL; the end for an unknown one. */
static int key_of(const reader* r, const char* const* keys) {
  int i = 0;
  while (keys[i] != NULL && strcmp(keys[i], r->key.data) != 0) ++i;
  return i;
}

static int read_text(reader* r, const char** out) {
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_string(&r->in, &r->text));
  *out = tvmrt__arena_text(&r->set->arena, r->text.data, r->text.size);
  return *out == NULL ? -1 : 0;
}

/* An object as it is written. */
static int read_object_text(reader* r, const char** out) {
  const char* begin;
  if (tvmrt__json_peek(&r->in.json) != '{') return FAIL(r, "the options are no object");
  begin = r->in.json.at;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_skip(&r->in));
  *out = tvmrt__arena_text(&r->set->arena, begin, (size_t)(r->in.json.at - begin));
  return *out == NULL ? -1 : 0;
}

/* Move what a buffer gathered to the arena. */
static int keep(reader* r, tvmrt_buf* items, size_t item_bytes, void* out_items,
                int32_t* out_count) {
  void* kept;
  if (items->size / item_bytes > INT32_MAX) return FAIL(r, "a list is too long");
  kept = tvmrt__arena_copy(&r->set->arena, items->data, items->size);
  if (kept == NULL) return -1;
  memcpy(out_items, &kept, sizeof(kept));
  *out_count = (int32_t)(items->size / item_bytes);
  return 0;
}

/* Append what `item` reads, for each element of a list. */
static int read_list(reader* r, int (*item)(reader* r, tvmrt_buf* items), size_t item_bytes,
                     void* out_items, int32_t* out_count) {
  tvmrt_buf items = {NULL, 0, 0};
  tvmrt_parser_list list;
  bool more = true;
  int rc = tvmrt__parse_array(&r->in, &list);
  while (rc == 0) {
    rc = tvmrt__parse_next(&r->in, &list, &more);
    if (rc != 0 || !more) break;
    rc = item(r, &items);
  }
  if (rc == 0) rc = keep(r, &items, item_bytes, out_items, out_count);
  tvmrt__buf_free(&items);
  return rc;
}

static int add_extent(reader* r, tvmrt_buf* items) {
  int64_t value;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_int(&r->in, &value));
  if (value < 0) return FAIL(r, "an extent is negative");
  return tvmrt__buf_append(items, &value, sizeof(value));
}

static int add_index(reader* r, tvmrt_buf* items) {
  int64_t value;
  int32_t index;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_int(&r->in, &value));
  if (value < -1 || value > INT32_MAX) return FAIL(r, "a tensor's number is out of range");
  index = (int32_t)value;
  return tvmrt__buf_append(items, &index, sizeof(index));
}

/* A number as JSON has it, or as Python writes what JSON lacks: Infinity, NaN. */
typedef struct number {
  bool is_int;
  int64_t i;
  double f;
} number;

static int read_number(reader* r, number* out) {
  char text[64];
  size_t size = 0;
  char* end;
  char* point;
  const char* begin;
  (void)tvmrt__json_peek(&r->in.json); /* what stands before it is passed over */
  begin = r->in.json.at;
  out->is_int = true;
  while (r->in.json.at + size < r->in.json.end && size + 1 < sizeof(text)) {
    const char c = begin[size];
    if (c == ',' || c == ']' || c == '}' || c == ' ' || c == '\n' || c == '\t' || c == '\r') break;
    if ((c < '0' || c > '9') && c != '-') out->is_int = false;
    text[size++] = c;
  }
  if (out->is_int) {
    TVMRT_RETURN_IF_ERROR(tvmrt__parse_int(&r->in, &out->i));
    out->f = (double)out->i;
    return 0;
  }
  text[size] = '\0';
  point = strchr(text, '.');
  if (point != NULL) *point = localeconv()->decimal_point[0]; /* what strtod goes by */
  out->f = strtod(text, &end);
  if (end != text + size || size == 0) return FAIL(r, "'%.20s' is no number", text);
  r->in.json.at += size;
  return 0;
}

static int add_number(reader* r, tvmrt_buf* items) {
  number value;
  TVMRT_RETURN_IF_ERROR(read_number(r, &value));
  return tvmrt__buf_append(items, &value, sizeof(value));
}

/* Numbers as integers if all are, else as floats. */
static int set_numbers(reader* r, const number* numbers, int32_t count, tvmrt_attr* attr) {
  int64_t* ints = tvmrt__arena_alloc(&r->set->arena, (size_t)count, sizeof(*ints));
  double* floats = tvmrt__arena_alloc(&r->set->arena, (size_t)count, sizeof(*floats));
  int32_t i;
  bool all_ints = true;
  if (ints == NULL || floats == NULL) return -1;
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

static int read_attr_value(reader* r, tvmrt_attr* attr) {
  char first = tvmrt__json_peek(&r->in.json);
  const number* numbers;
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

static int read_attrs(reader* r, tvmrt_region_node* node) {
  tvmrt_buf attrs = {NULL, 0, 0};
  tvmrt_parser_list list;
  bool more = true;
  int rc = tvmrt__parse_object(&r->in, &list);
  while (rc == 0) {
    tvmrt_attr attr = {0};
    rc = tvmrt__parse_next_key(&r->in, &list, &r->key, &more);
    if (rc != 0 || !more) break;
    attr.key = tvmrt__arena_text(&r->set->arena, r->key.data, r->key.size);
    rc = attr.key == NULL ? -1 : read_attr_value(r, &attr);
    if (rc == 0) rc = tvmrt__buf_append(&attrs, &attr, sizeof(attr));
  }
  if (rc == 0) rc = keep(r, &attrs, sizeof(tvmrt_attr), (void*)&node->attrs, &node->num_attrs);
  tvmrt__buf_free(&attrs);
  return rc;
}

/* A constant must lie inside the constants, where these are given. */
static int place_constant(reader* r, tvmrt_region_tensor* t, int64_t offset, int64_t bytes) {
  if (offset < 0 || offset % TVMRT_CONSTANT_ALIGN_BYTES != 0) {
    return FAIL(r, "the offset of constant '%.60s' is no multiple of %d", t->name,
                TVMRT_CONSTANT_ALIGN_BYTES);
  }
  if (bytes < 0 || (uint64_t)bytes != t->num_bytes) {
    return FAIL(r, "constant '%.60s' has %lld bytes instead of %llu", t->name, (long long)bytes,
                (unsigned long long)t->num_bytes);
  }
  t->is_constant = 1;
  if (r->constants == NULL) return 0;
  if ((uint64_t)offset > r->constants_size ||
      (uint64_t)bytes > r->constants_size - (uint64_t)offset) {
    return FAIL(r, "constant '%.60s' lies outside of the %zu bytes of constants", t->name,
                r->constants_size);
  }
  t->data = r->constants + offset;
  return 0;
}

static int finish_tensor(reader* r, tvmrt_region_tensor* t, bool has_dtype, bool is_constant,
                         int64_t offset, int64_t bytes) {
  if (t->name == NULL || t->shape == NULL || !has_dtype) {
    return FAIL(r, "a tensor lacks 'name', 'dtype' or 'shape'");
  }
  if (t->ndim > TVMRT_MAX_NDIM) return FAIL(r, "tensor '%.60s' has too many dimensions", t->name);
  TVMRT_RETURN_IF_ERROR(tvmrt__shape_bytes(t->shape, t->ndim, t->dtype, &t->num_bytes));
  return is_constant ? place_constant(r, t, offset, bytes) : 0;
}

static int add_tensor(reader* r, tvmrt_buf* items) {
  static const char* const keys[] = {"name", "dtype", "shape", "offset", "bytes", NULL};
  tvmrt_region_tensor t = {0};
  tvmrt_parser_list list;
  int64_t place[2] = {0, -1}; /* offset and bytes */
  bool has_dtype = false;
  bool is_constant = false;
  bool more;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_object(&r->in, &list));
  for (;;) {
    int key;
    TVMRT_RETURN_IF_ERROR(tvmrt__parse_next_key(&r->in, &list, &r->key, &more));
    if (!more) break;
    key = key_of(r, keys);
    if (key == 0) {
      TVMRT_RETURN_IF_ERROR(read_text(r, &t.name));
    } else if (key == 1) {
      TVMRT_RETURN_IF_ERROR(tvmrt__parse_string(&r->in, &r->text));
      TVMRT_RETURN_IF_ERROR(tvmrt__dtype_from_text(r->text.data, &t.dtype));
      has_dtype = true;
    } else if (key == 2) {
      TVMRT_RETURN_IF_ERROR(read_list(r, add_extent, sizeof(int64_t), (void*)&t.shape, &t.ndim));
    } else if (key < 5) {
      is_constant |= key == 3;
      TVMRT_RETURN_IF_ERROR(tvmrt__parse_int(&r->in, &place[key - 3]));
    } else {
      TVMRT_RETURN_IF_ERROR(tvmrt__parse_skip(&r->in));
    }
  }
  TVMRT_RETURN_IF_ERROR(finish_tensor(r, &t, has_dtype, is_constant, place[0], place[1]));
  return tvmrt__buf_append(items, &t, sizeof(t));
}

static int add_node(reader* r, tvmrt_buf* items) {
  static const char* const keys[] = {"op", "name", "inputs", "outputs", "attrs", NULL};
  tvmrt_region_node n = {0};
  tvmrt_parser_list list;
  bool more;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_object(&r->in, &list));
  for (;;) {
    TVMRT_RETURN_IF_ERROR(tvmrt__parse_next_key(&r->in, &list, &r->key, &more));
    if (!more) break;
    switch (key_of(r, keys)) {
      case 0:
        TVMRT_RETURN_IF_ERROR(read_text(r, &n.op));
        break;
      case 1:
        TVMRT_RETURN_IF_ERROR(read_text(r, &n.name));
        break;
      case 2:
        TVMRT_RETURN_IF_ERROR(
            read_list(r, add_index, sizeof(int32_t), (void*)&n.inputs, &n.num_inputs));
        break;
      case 3:
        TVMRT_RETURN_IF_ERROR(
            read_list(r, add_index, sizeof(int32_t), (void*)&n.outputs, &n.num_outputs));
        break;
      case 4:
        TVMRT_RETURN_IF_ERROR(read_attrs(r, &n));
        break;
      default:
        TVMRT_RETURN_IF_ERROR(tvmrt__parse_skip(&r->in));
    }
  }
  if (n.op == NULL || n.inputs == NULL || n.outputs == NULL) {
    return FAIL(r, "a node lacks 'op', 'inputs' or 'outputs'");
  }
  if (n.name == NULL) n.name = n.op;
  return tvmrt__buf_append(items, &n, sizeof(n));
}

/* Mark that a tensor gets its value here; it must not have one yet. */
static int define(reader* r, const tvmrt_region* region, uint8_t* defined, int32_t tensor) {
  if (tensor < 0 || tensor >= region->num_tensors) {
    return FAIL(r, "region '%.60s' names tensor %d of %d", region->symbol, (int)tensor,
                (int)region->num_tensors);
  }
  if (defined[tensor]) {
    return FAIL(r, "tensor '%.60s' of region '%.60s' is computed twice",
                region->tensors[tensor].name, region->symbol);
  }
  defined[tensor] = 1;
  return 0;
}

static int use(reader* r, const tvmrt_region* region, const uint8_t* defined, int32_t tensor) {
  if (tensor >= 0 && tensor < region->num_tensors && defined[tensor]) return 0;
  return FAIL(r, "region '%.60s' reads tensor %d, which has no value there", region->symbol,
              (int)tensor);
}

static int check_nodes(reader* r, const tvmrt_region* region, uint8_t* defined) {
  int32_t i;
  int32_t k;
  for (i = 0; i < region->num_nodes; ++i) {
    const tvmrt_region_node* n = &region->nodes[i];
    for (k = 0; k < n->num_inputs; ++k) {
      if (n->inputs[k] != -1) TVMRT_RETURN_IF_ERROR(use(r, region, defined, n->inputs[k]));
    }
    for (k = 0; k < n->num_outputs; ++k) {
      TVMRT_RETURN_IF_ERROR(define(r, region, defined, n->outputs[k]));
    }
  }
  return 0;
}

/* Outputs must be results of nodes, each listed once. */
static int check_outputs(reader* r, const tvmrt_region* region, uint8_t* defined) {
  int32_t i;
  int32_t k;
  for (i = 0; i < region->num_inputs; ++i) defined[region->inputs[i]] = 0;
  for (i = 0; i < region->num_tensors; ++i) defined[i] &= !region->tensors[i].is_constant;
  for (i = 0; i < region->num_outputs; ++i) {
    k = region->outputs[i];
    TVMRT_RETURN_IF_ERROR(use(r, region, defined, k));
    defined[k] = 0;
  }
  return 0;
}

static int check_region(reader* r, const tvmrt_region* region) {
  uint8_t* defined = tvmrt__calloc((size_t)region->num_tensors, 1);
  int32_t i;
  int rc = defined == NULL ? -1 : 0;
  for (i = 0; rc == 0 && i < region->num_tensors; ++i) {
    defined[i] = region->tensors[i].is_constant != 0;
  }
  for (i = 0; rc == 0 && i < region->num_inputs; ++i) {
    rc = define(r, region, defined, region->inputs[i]);
  }
  if (rc == 0) rc = check_nodes(r, region, defined);
  if (rc == 0) rc = check_outputs(r, region, defined);
  free(defined);
  return rc;
}

static int read_region_keys(reader* r, tvmrt_region* region) {
  static const char* const keys[] = {"symbol", "name",    "tensors", "nodes",
                                     "inputs", "outputs", NULL};
  tvmrt_parser_list list;
  bool more;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_object(&r->in, &list));
  for (;;) {
    TVMRT_RETURN_IF_ERROR(tvmrt__parse_next_key(&r->in, &list, &r->key, &more));
    if (!more) return 0;
    switch (key_of(r, keys)) {
      case 0:
        TVMRT_RETURN_IF_ERROR(read_text(r, &region->symbol));
        break;
      case 1:
        TVMRT_RETURN_IF_ERROR(read_text(r, &region->name));
        break;
      case 2:
        TVMRT_RETURN_IF_ERROR(read_list(r, add_tensor, sizeof(tvmrt_region_tensor),
                                        (void*)&region->tensors, &region->num_tensors));
        break;
      case 3:
        TVMRT_RETURN_IF_ERROR(read_list(r, add_node, sizeof(tvmrt_region_node),
                                        (void*)&region->nodes, &region->num_nodes));
        break;
      case 4:
        TVMRT_RETURN_IF_ERROR(
            read_list(r, add_index, sizeof(int32_t), (void*)&region->inputs, &region->num_inputs));
        break;
      case 5:
        TVMRT_RETURN_IF_ERROR(read_list(r, add_index, sizeof(int32_t), (void*)&region->outputs,
                                        &region->num_outputs));
        break;
      default:
        TVMRT_RETURN_IF_ERROR(tvmrt__parse_skip(&r->in));
    }
  }
}

static int add_region(reader* r, tvmrt_buf* items) {
  tvmrt_region_draft draft = {0};
  tvmrt_region* region = &draft.region;
  const tvmrt_region_draft* others = (const void*)items->data;
  size_t i;
  (void)tvmrt__json_peek(&r->in.json);
  draft.text_begin = (size_t)(r->in.json.at - r->in.begin);
  TVMRT_RETURN_IF_ERROR(read_region_keys(r, region));
  draft.text_size = (size_t)(r->in.json.at - r->in.begin) - draft.text_begin;
  if (region->symbol == NULL || region->tensors == NULL || region->nodes == NULL ||
      region->inputs == NULL || region->outputs == NULL) {
    return FAIL(r, "a region lacks 'symbol', 'tensors', 'nodes', 'inputs' or 'outputs'");
  }
  if (region->name == NULL) region->name = region->symbol;
  region->failed_node = -1;
  for (i = 0; i < items->size / sizeof(draft); ++i) {
    if (strcmp(others[i].region.symbol, region->symbol) == 0) {
      return FAIL(r, "there are two regions '%.60s'", region->symbol);
    }
  }
  TVMRT_RETURN_IF_ERROR(check_region(r, region));
  return tvmrt__buf_append(items, &draft, sizeof(draft));
}

static int read_top(reader* r, const char** format, int64_t* version) {
  static const char* const keys[] = {"format",  "version",  "device",  "device_version",
                                     "options", "fallback", "regions", NULL};
  tvmrt_parser_list list;
  int64_t value = 0;
  int32_t count = 0;
  bool more;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_object(&r->in, &list));
  for (;;) {
    TVMRT_RETURN_IF_ERROR(tvmrt__parse_next_key(&r->in, &list, &r->key, &more));
    if (!more) return 0;
    switch (key_of(r, keys)) {
      case 0:
        TVMRT_RETURN_IF_ERROR(read_text(r, format));
        break;
      case 1:
        TVMRT_RETURN_IF_ERROR(tvmrt__parse_int(&r->in, version));
        break;
      case 2:
        TVMRT_RETURN_IF_ERROR(read_text(r, &r->set->device));
        break;
      case 3:
        TVMRT_RETURN_IF_ERROR(tvmrt__parse_int(&r->in, &r->set->device_version));
        break;
      case 4:
        TVMRT_RETURN_IF_ERROR(read_object_text(r, &r->set->options));
        break;
      case 5:
        TVMRT_RETURN_IF_ERROR(tvmrt__parse_int(&r->in, &value));
        r->set->fallback = value != 0;
        break;
      case 6:
        TVMRT_RETURN_IF_ERROR(
            read_list(r, add_region, sizeof(tvmrt_region_draft), (void*)&r->set->regions, &count));
        r->set->num_regions = (size_t)count;
        break;
      default:
        TVMRT_RETURN_IF_ERROR(tvmrt__parse_skip(&r->in));
    }
  }
}

static int read_set(reader* r) {
  const char* format = NULL;
  int64_t version = -1;
  TVMRT_RETURN_IF_ERROR(read_top(r, &format, &version));
  if (tvmrt__json_peek(&r->in.json) != '\0') return FAIL(r, "something follows");
  if (format == NULL || strcmp(format, "tvmrt-regions") != 0) {
    return FAIL(r, "its format is '%.40s' instead of 'tvmrt-regions'", format ? format : "");
  }
  if (version != 1) {
    return FAIL(r, "it has version %lld of the format, this runtime reads version 1",
                (long long)version);
  }
  if (r->set->device == NULL) return FAIL(r, "it names no device");
  return 0;
}

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
  tvmrt__buf_free(&r.key);
  tvmrt__buf_free(&r.text);
  if (rc != 0) tvmrt__region_set_free(out);
  return rc;
}

void tvmrt__region_set_free(tvmrt_region_set* set) {
  tvmrt__arena_free(&set->arena);
  memset(set, 0, sizeof(*set));
}
