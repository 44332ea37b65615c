/* Firmware runtime: a graph in the form that the graph executor runs. Internal. */
#ifndef TVMRT_SRC_RUNTIME_FIRMWARE_GRAPH_H_
#define TVMRT_SRC_RUNTIME_FIRMWARE_GRAPH_H_

#include <tvm/runtime/crt/graph_arena.h>
#include <tvm/runtime/dims.h>

#include "../aot/tensor_size.h"
#include "json.h"

/* Set in the storage id of a tensor with an input's memory; the other bits are its index. */
enum { EXTERNAL = 0x8000 };

enum { GRAPH_SECTIONS = 8 }; /* of the graph JSON, listed in graph_walk.h */

/* Positions of the parts of a JSON text, and the number of items in them. */
typedef struct graph_plan {
  tvmrt_json_tally sections[GRAPH_SECTIONS];
  tvmrt_json json; /* the whole text */
  uint32_t nodes, inputs, heads, entries, extents, edges;
} graph_plan;

typedef struct graph_input {
  const char* name; /* in the JSON; ends with a quotation mark */
  uintptr_t entry;
} graph_input;

/* An operator with its arguments prepared: all are tensors, whose addresses never change. */
typedef struct graph_op {
  TVMCPackedFunc function;
  TVMValue* args;
  intptr_t num_args;
} graph_op;

/* How an executor gets more memory when its own is used up. */
typedef struct graph_memory {
  /* Make at least num_bytes available between `at` and `end`. */
  tvm_crt_error_t (*grow)(TVMGraphExecutor* g, size_t num_bytes);
  void (*release)(TVMGraphExecutor* g);
} graph_memory;

/* Extra steps of graphs whose runs choose extents, linked only by these; see graph_dims.c. */
typedef struct graph_sizes {
  /* Bind an input to a program's tensor, with the tensor's extents. */
  tvm_crt_error_t (*set_input)(TVMGraphExecutor* g, uint32_t input, const DLTensor* tensor);
  /* Before a run: set the outputs' shapes to the maximum. */
  void (*show_capacity)(const TVMGraphExecutor* g);
} graph_sizes;

struct TVMGraphExecutor {
  DLTensor* entries;
  TVMValue* values; /* arguments of all operators, consecutively */
  graph_op* ops;
  graph_op* ops_end; /* after the last one */
  graph_input* inputs;
  int* type_codes;       /* of any operator's arguments */
  uint16_t* rows;        /* first entry of each node, and the number of entries */
  uint16_t* storage_ids; /* of each entry */
  uint16_t* heads;       /* entries */
  uint8_t* at;           /* unused memory; aligned */
  uint8_t* end;
  const graph_memory* memory; /* NULL: no more memory can be had */
  void* blocks;               /* for `memory` */
  const graph_sizes* sizes;   /* NULL: every extent is fixed */
  const tvmrt_dims* dims;     /* for `sizes` */
  uint16_t num_nodes;
  uint16_t num_inputs;
  uint16_t num_heads;
  uint16_t num_entries;
  uint16_t num_unset; /* inputs without data */
  uint16_t max_args;
};

/* Find the parts of a JSON text and count their items. */
tvm_crt_error_t tvmrt__graph_plan(const char* json, size_t json_bytes, graph_plan* plan);

/* Bytes of the tables of a plan. */
size_t tvmrt__graph_table_bytes(const graph_plan* plan);

/* Fill the tables, which begin with the executor; its tensors have no memory afterwards. */
tvm_crt_error_t tvmrt__graph_read(const graph_plan* plan, const TVMModule* module,
                                  TVMGraphExecutor* g);

/* Give the tensors memory. *needed_bytes is set to its size, also if there is too little. */
tvm_crt_error_t tvmrt__graph_assign_memory(TVMGraphExecutor* g, size_t* needed_bytes);

/* Make num_bytes of unused memory available, or return kTvmErrorPlatformNoMemory. */
tvm_crt_error_t tvmrt__graph_reserve(TVMGraphExecutor* g, size_t num_bytes);

/* Whether a program's tensor fits one of the graph's; *data is set to the address of its data. */
tvm_crt_error_t tvmrt__graph_compare(const DLTensor* own, const DLTensor* given, uint8_t** data);

/* Bind an input to a program's tensor. */
tvm_crt_error_t tvmrt__graph_set_input(TVMGraphExecutor* g, uint32_t input, const DLTensor* tensor);

/* Index among the inputs; num_inputs if no input has the name. */
uint32_t tvmrt__graph_find_input(const TVMGraphExecutor* g, const char* name, size_t num_bytes);

/* Bind an input, and all entries that share its memory, to `data`. */
void tvmrt__graph_bind(TVMGraphExecutor* g, uint32_t input, void* data);

#endif /* TVMRT_SRC_RUNTIME_FIRMWARE_GRAPH_H_ */
