/* The parsed ExampleJSON text: subgraphs of element-wise operators on float32 tensors. */
#ifndef TVMRT_SRC_RUNTIME_DEVICES_EXAMPLEJSON_GRAPH_H_
#define TVMRT_SRC_RUNTIME_DEVICES_EXAMPLEJSON_GRAPH_H_

#include <stddef.h>
#include <stdint.h>

#define EXAMPLEJSON_MAX_NDIM 8

typedef struct examplejson_tensor {
  int32_t ndim;
  int64_t shape[EXAMPLEJSON_MAX_NDIM];
  size_t size; /* number of elements */
  /* Of an input: its argument index. Of a result: its offset among the intermediate values, in
   * elements; the last result of a subgraph is the argument after the inputs. */
  size_t position;
  int is_input;
} examplejson_tensor;

typedef struct examplejson_node {
  void (*run)(const float* a, const float* b, float* out, size_t size);
  size_t inputs[2]; /* tensor ids */
  size_t output;
} examplejson_node;

typedef struct examplejson_subgraph {
  char* name;
  examplejson_tensor* tensors; /* by id; ids count from 0 in the order of the lines */
  size_t num_tensors, num_inputs;
  examplejson_node* nodes; /* in execution order */
  size_t num_nodes;
  size_t scratch_elements; /* of all intermediate values */
} examplejson_subgraph;

typedef struct examplejson_graph {
  char* text;
  size_t text_size;
  examplejson_subgraph* subgraphs;
  size_t num_subgraphs;
} examplejson_graph;

/* Parse and copy a text. Returns 0, or -1 with "examplejson: line <n>: <why>" and *out empty. */
int examplejson_parse(const char* text, size_t size, examplejson_graph* out);

void examplejson_free(examplejson_graph* graph);

#endif
