/* Firmware runtime: a graph as its executor runs it. Internal. */
#ifndef TVMRT_SRC_RUNTIME_FIRMWARE_GRAPH_H_
#define TVMRT_SRC_RUNTIME_FIRMWARE_GRAPH_H_

#include <tvm/runtime/crt/graph_arena.h>
#include <tvm/runtime/dims.h>

#include "json.h"
#include "tensor_bytes.h"

/* Set in the storage id of a tensor whose memory is an input's; the rest is the input's position. */
enum { EXTERNAL = 0x8000 };

enum { GRAPH_SECTIONS = 8 }; /* of the graph JSON, which graph_walk.h lists */

/* Where the parts of a JSON text are, and how many things they describe. */
typedef struct graph_plan {
  tvmrt_json_tally sections[GRAPH_SECTIONS];
  tvmrt_json json; /* all of it */
  uint32_t nodes, inputs, heads, entries, extents, edges;
} graph_plan;

typedef struct graph_input {
  const char* name; /* in the JSON; ends with a quotation mark */
  uintptr_t entry;
} graph_input;

/* A node that is called, with its arguments ready: they are tensors, so no operator moves them out. */
typedef struct graph_op {
  TVMCPackedFunc function;
  TVMValue* args;
  intptr_t num_args;
} graph_op;

/* Where an executor gets memory when what it has is used up. */
typedef struct graph_memory {
  /* Have at least num_bytes between `at` and `end`. */
  tvm_crt_error_t (*grow)(TVMGraphExecutor* g, size_t num_bytes);
  void (*release)(TVMGraphExecutor* g);
} graph_memory;

/* What an executor does beside where runs choose extents; graph_dims.c has it, for those that do. */
typedef struct graph_sizes {
  /* Let an input be where a program's tensor is, with the extents that this has. */
  tvm_crt_error_t (*set_input)(TVMGraphExecutor* g, uint32_t input, const DLTensor* tensor);
  /* Before a run: outputs have room for the most. */
  void (*show_room)(const TVMGraphExecutor* g);
} graph_sizes;

struct TVMGraphExecutor {
  DLTensor* entries;
  TVMValue* values; /* arguments of all operators, one after the other */
  graph_op* ops;
  graph_op* ops_end; /* behind the last one */
  graph_input* inputs;
  int* type_codes;       /* of the arguments of any operator */
  uint16_t* rows;        /* first entry of each node, and the number of entries */
  uint16_t* storage_ids; /* of each entry */
  uint16_t* heads;       /* entries */
  uint8_t* at;           /* unused memory; its beginning is aligned */
  uint8_t* end;
  const graph_memory* memory; /* NULL: there is no more than that */
  void* blocks;               /* for `memory` */
  const graph_sizes* sizes;   /* NULL: every extent is fixed */
  const tvmrt_dims* dims;     /* for `sizes` */
  uint16_t num_nodes;
  uint16_t num_inputs;
  uint16_t num_heads;
  uint16_t num_entries;
  uint16_t num_unset; /* inputs without data */
  uint16_t most_args;
};

/* Find the parts of a JSON text and count what is in them. */
tvm_crt_error_t tvmrt__graph_plan(const char* json, size_t json_bytes, graph_plan* plan);

/* Bytes of the tables of a plan. */
size_t tvmrt__graph_table_bytes(const graph_plan* plan);

/* Fill the tables, which begin with the executor; on return it has them, but no tensors. */
tvm_crt_error_t tvmrt__graph_read(const graph_plan* plan, const TVMModule* module,
                                  TVMGraphExecutor* g);

/* Give the tensors their memory. *needed_bytes says how much that is, also if there is too little. */
tvm_crt_error_t tvmrt__graph_place(TVMGraphExecutor* g, size_t* needed_bytes);

/* Have num_bytes of unused memory, or kTvmErrorPlatformNoMemory. */
tvm_crt_error_t tvmrt__graph_reserve(TVMGraphExecutor* g, size_t num_bytes);

/* Whether a program's tensor can stand for one of the graph's: where its data begins. */
tvm_crt_error_t tvmrt__graph_compare(const DLTensor* own, const DLTensor* given, uint8_t** data);

/* Let an input be where a program's tensor is. */
tvm_crt_error_t tvmrt__graph_set_input(TVMGraphExecutor* g, uint32_t input, const DLTensor* tensor);

/* Position among the inputs; num_inputs if there is none of that name. */
uint32_t tvmrt__graph_find_input(const TVMGraphExecutor* g, const char* name, size_t num_bytes);

/* Let an input, and everything that shares its memory, be at `data`. */
void tvmrt__graph_bind(TVMGraphExecutor* g, uint32_t input, void* data);

#endif /* TVMRT_SRC_RUNTIME_FIRMWARE_GRAPH_H_ */
