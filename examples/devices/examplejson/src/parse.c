/* Parser of ExampleJSON: one line per subgraph name, input and operator.
 *
 *     subgraph_0
 *     input 0 10 10
 *     input 1 10 10
 *     add 2 inputs: 0 1 shape: 10 10
 *
 * Texts are untrusted: numbers, ids, shapes and counts are bounded here, so that running only
 * checks its arguments. Everything allocated belongs to the graph immediately; any failure frees
 * the graph. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_packed_func.h>

#include "graph.h"

/* `out` must not overlap an operand, since each result has its own memory. */
static void run_add(const float* a, const float* b, float* out, size_t size) {
  for (size_t i = 0; i < size; ++i) out[i] = a[i] + b[i];
}

static void run_sub(const float* a, const float* b, float* out, size_t size) {
  for (size_t i = 0; i < size; ++i) out[i] = a[i] - b[i];
}

static void run_mul(const float* a, const float* b, float* out, size_t size) {
  for (size_t i = 0; i < size; ++i) out[i] = a[i] * b[i];
}

static const struct {
  const char* name;
  void (*run)(const float*, const float*, float*, size_t);
} operators[] = {{"add", run_add}, {"sub", run_sub}, {"mul", run_mul}};

typedef struct {
  examplejson_graph* graph;
  const char* at;  /* within the current line */
  const char* end; /* of the current line */
  size_t line;
} Reader;

/* Report an error with the line's number; returns -1. Words are truncated and have no NUL. */
static int refuse(const Reader* in, const char* why, const char* word, size_t size) {
  char text[256];
  (void)snprintf(text, sizeof(text), "examplejson: line %zu: %s '%.*s'", in->line, why,
                 (int)(size < 64 ? size : 64), word);
  TVMPackedFuncSetLastError(text);
  return -1;
}

/* Returns -1. The line is not reported, since any allocation may fail. */
static int out_of_memory(void) {
  TVMPackedFuncSetLastError("examplejson: out of memory while reading a graph");
  return -1;
}

/* Carriage returns are blanks, for Windows files. */
static int is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* Return the next word of the line; its size is 0 at the end. */
static const char* next_word(Reader* in, size_t* size) {
  const char* begin;
  while (in->at < in->end && is_space(*in->at)) in->at++;
  begin = in->at;
  while (in->at < in->end && !is_space(*in->at)) in->at++;
  *size = (size_t)(in->at - begin);
  return begin;
}

/* `word` has no NUL, `text` has one. */
static int equals(const char* word, size_t size, const char* text) {
  return strlen(text) == size && memcmp(word, text, size) == 0;
}

/* Convert decimal digits to a number below 2^31, which bounds all sums and products. */
static int to_number(const Reader* in, const char* word, size_t size, int64_t* out) {
  *out = 0;
  if (size == 0) return refuse(in, "expected a number after", in->end, 0);
  for (size_t i = 0; i < size; ++i) {
    if (word[i] < '0' || word[i] > '9') return refuse(in, "not a number:", word, size);
    *out = *out * 10 + (word[i] - '0');
    if (*out > INT32_MAX) return refuse(in, "number too large:", word, size);
  }
  return 0;
}

/* Read the next word of the line as a number. */
static int read_number(Reader* in, int64_t* out) {
  size_t size;
  const char* word = next_word(in, &size);
  return to_number(in, word, size, out);
}

/* Grow an array by one element; on failure returns NULL and keeps the old array. Graphs are small,
 * so doubling would not help. */
static void* grow_array(void* array, size_t count, size_t bytes) {
  return count >= SIZE_MAX / bytes - 1 ? NULL : realloc(array, (count + 1) * bytes);
}

/* The count is increased last, so that an unnamed subgraph is not freed. Names must be unique,
 * since functions are looked up by name. */
static int add_subgraph(Reader* in, const char* name, size_t size) {
  examplejson_graph* g = in->graph;
  examplejson_subgraph* all;
  for (size_t i = 0; i < g->num_subgraphs; ++i) {
    if (equals(name, size, g->subgraphs[i].name)) return refuse(in, "a second", name, size);
  }
  all = grow_array(g->subgraphs, g->num_subgraphs, sizeof(*all));
  if (all == NULL) return out_of_memory();
  g->subgraphs = all;
  all += g->num_subgraphs;
  memset(all, 0, sizeof(*all));
  all->name = malloc(size + 1);
  if (all->name == NULL) return out_of_memory();
  memcpy(all->name, name, size);
  all->name[size] = '\0';
  g->num_subgraphs++;
  return 0;
}

/* Each factor and product is below 2^31, so 64 bits do not overflow. No extents: a scalar with one
 * element. An extent of 0: an empty tensor. */
static int read_shape(Reader* in, examplejson_tensor* tensor) {
  size_t size;
  const char* word;
  int64_t extent;
  tensor->size = 1;
  while (word = next_word(in, &size), size != 0) {
    if (tensor->ndim == EXAMPLEJSON_MAX_NDIM) return refuse(in, "too many extents at", word, size);
    if (to_number(in, word, size, &extent) != 0) return -1;
    tensor->shape[tensor->ndim++] = extent;
    tensor->size *= (size_t)extent;
    if (tensor->size > INT32_MAX) return refuse(in, "a tensor too large at", word, size);
  }
  return 0;
}

/* Add the tensor of a line; ids must be consecutive. *out is borrowed until the next tensor is
 * added, which may move the array. */
static int add_tensor(Reader* in, examplejson_subgraph* s, int64_t id, examplejson_tensor** out) {
  examplejson_tensor* all;
  if ((size_t)id != s->num_tensors) {
    char expected[24];
    (void)snprintf(expected, sizeof(expected), "%zu", s->num_tensors);
    return refuse(in, "ids must count up by one; expected", expected, strlen(expected));
  }
  all = grow_array(s->tensors, s->num_tensors, sizeof(*all));
  if (all == NULL) return out_of_memory();
  s->tensors = all;
  /* lint: the subgraph owns the list */
  *out = &all[s->num_tensors++];
  /* lint: the subgraph owns the list */
  memset(*out, 0, sizeof(**out));
  return 0;
}

/* Arguments are in the order of the lines. */
static int read_input(Reader* in, examplejson_subgraph* s) {
  examplejson_tensor* tensor;
  int64_t id;
  if (s->num_nodes != 0)
    return refuse(in, "inputs must precede operators in", s->name, strlen(s->name));
  if (read_number(in, &id) != 0 || add_tensor(in, s, id, &tensor) != 0) return -1;
  /* lint: add_tensor() has set it where it gives 0 */
  tensor->is_input = 1;
  tensor->position = s->num_inputs++;
  return read_shape(in, tensor);
}

/* Expects one of the format's two keywords. */
static int read_word(Reader* in, const char* expected) {
  size_t size;
  const char* word = next_word(in, &size);
  if (equals(word, size, expected)) return 0;
  return refuse(in,
                strcmp(expected, "inputs:") == 0 ? "expected 'inputs:', found"
                                                 : "expected 'shape:' after two inputs, found",
                word, size);
}

/* Check that an operand has the operator's shape. Operators do not broadcast: they read as many
 * elements as they write. */
static int check_operand(const Reader* in, const examplejson_subgraph* s, int64_t id,
                         const examplejson_tensor* result) {
  const examplejson_tensor* operand = &s->tensors[id];
  if (operand->ndim == result->ndim &&
      memcmp(operand->shape, result->shape, sizeof(operand->shape)) == 0) {
    return 0;
  }
  return refuse(in, "inputs and result have different shapes in", s->name, strlen(s->name));
}

/* Read the format's "inputs: 0 1 shape:". */
static int read_operands(Reader* in, const examplejson_subgraph* s, examplejson_node* node) {
  if (read_word(in, "inputs:") != 0) return -1;
  for (int i = 0; i < 2; ++i) {
    int64_t id;
    if (read_number(in, &id) != 0) return -1;
    if ((size_t)id >= s->num_tensors) {
      return refuse(in, "no earlier line defines an input in", s->name, strlen(s->name));
    }
    node->inputs[i] = (size_t)id;
  }
  return read_word(in, "shape:");
}

/* Operands are read before the result is added, so an operator cannot read itself. Each result has
 * its own part of the scratch memory; the last one's part is unused. */
static int read_operator(Reader* in, examplejson_subgraph* s, examplejson_node* node) {
  examplejson_tensor* result;
  int64_t id;
  if (read_number(in, &id) != 0 || read_operands(in, s, node) != 0) return -1;
  if (add_tensor(in, s, id, &result) != 0 || read_shape(in, result) != 0) return -1;
  node->output = (size_t)id;
  result->position = s->scratch_elements;
  s->scratch_elements += result->size;
  for (int i = 0; i < 2; ++i) {
    if (check_operand(in, s, (int64_t)node->inputs[i], result) != 0) return -1;
  }
  return 0;
}

/* The node is counted before its line is read, since it owns nothing. */
static int add_operator(Reader* in, examplejson_subgraph* s, const char* word, size_t size) {
  examplejson_node* all;
  for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); ++i) {
    if (!equals(word, size, operators[i].name)) continue;
    all = grow_array(s->nodes, s->num_nodes, sizeof(*all));
    if (all == NULL) return out_of_memory();
    s->nodes = all;
    /* lint: the subgraph owns the list */
    all[s->num_nodes].run = operators[i].run;
    /* lint: the subgraph owns the list */
    return read_operator(in, s, &all[s->num_nodes++]);
  }
  return refuse(in, "unknown operator; add, sub and mul are known, not", word, size);
}

/* The name of a subgraph may have a prefix. Empty lines are counted and ignored. A line belongs to
 * the last named subgraph. */
static int read_line(Reader* in) {
  examplejson_graph* g = in->graph;
  size_t size;
  const char* word = next_word(in, &size);
  if (size == 0) return 0;
  in->at = word + size;
  for (size_t i = 0; i + 9 <= size; ++i) {
    if (memcmp(word + i, "subgraph_", 9) == 0) return add_subgraph(in, word, size);
  }
  if (g->num_subgraphs == 0) return refuse(in, "expected a subgraph_<name>, found", word, size);
  if (equals(word, size, "input")) return read_input(in, &g->subgraphs[g->num_subgraphs - 1]);
  return add_operator(in, &g->subgraphs[g->num_subgraphs - 1], word, size);
}

/* The last line needs no newline. Parsing stops at the first error. */
static int read_lines(Reader* in, const char* text, size_t size) {
  const char* end = text + size;
  while (text < end) {
    const char* stop = memchr(text, '\n', (size_t)(end - text));
    in->at = text;
    in->end = stop != NULL ? stop : end;
    in->line++;
    if (read_line(in) != 0) return -1;
    text = stop != NULL ? stop + 1 : end;
  }
  return 0;
}

/* A subgraph's last tensor is its output, so it needs at least one operator. The error names the
 * last line. */
static int check_ends(const Reader* in) {
  const examplejson_graph* g = in->graph;
  if (g->num_subgraphs == 0) return refuse(in, "no subgraph in the text", "", 0);
  for (size_t i = 0; i < g->num_subgraphs; ++i) {
    const char* name = g->subgraphs[i].name;
    if (g->subgraphs[i].num_nodes == 0) return refuse(in, "no operator in", name, strlen(name));
  }
  return 0;
}

/* NUL-terminated, for printing. */
static int keep_text(examplejson_graph* graph, const char* text, size_t size) {
  graph->text = malloc(size + 1);
  if (graph->text == NULL) return out_of_memory();
  if (size != 0) memcpy(graph->text, text, size);
  graph->text[size] = '\0';
  graph->text_size = size;
  return 0;
}

int examplejson_parse(const char* text, size_t size, examplejson_graph* out) {
  Reader in = {out, text, text, 0};
  memset(out, 0, sizeof(*out));
  if (keep_text(out, text, size) == 0 && read_lines(&in, text, size) == 0 && check_ends(&in) == 0) {
    return 0;
  }
  examplejson_free(out);
  return -1;
}

/* Also frees a partly parsed graph. The struct itself is the caller's, and empty afterwards. */
void examplejson_free(examplejson_graph* graph) {
  for (size_t i = 0; i < graph->num_subgraphs; ++i) {
    free(graph->subgraphs[i].name);
    free(graph->subgraphs[i].tensors);
    free(graph->subgraphs[i].nodes);
  }
  free(graph->subgraphs);
  free(graph->text);
  memset(graph, 0, sizeof(*graph));
}
