/* The graph executor in caller-provided memory of the exact size, with JSON and params in flash. */
#include <tvm/runtime/crt/graph_arena.h>

#include "image.h"
#include "report.h"

enum {
  TENSOR_BYTES = 3 * TVMRT_GRAPH_ROUND_UP(NUM_FLOATS * 4),
  ARENA_BYTES = TVMRT_GRAPH_ARENA_BYTES(4, 1, 1, 4, 8, 3, 2, TENSOR_BYTES)
};

static uint8_t arena[ARENA_BYTES] __attribute__((aligned(TVMRT_GRAPH_ALIGN_BYTES)));
static float x[NUM_FLOATS];
static float y[NUM_FLOATS];
static const char no_params[] =
    "\xb7\x9c\x04\x05\x4f\x8d\xe5\xf7\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/* Calls of the operators as the graph makes them, without the graph. */
static int run_directly(TVMGraphExecutor* ex, uint32_t* count) {
  TVMCPackedFunc volatile direct = op_first;
  op_args args = {{{0}}, {kTVMDLTensorHandle, kTVMDLTensorHandle}};
  DLTensor tensor = *tvmrt_graph_output(ex, 0);
  TVMValue result;
  int code = kTVMNullptr;
  uint32_t before;
  int rc;
  args.values[0].v_handle = args.values[1].v_handle = &tensor;
  before = count_now();
  rc = direct(args.values, args.codes, 2, &result, &code, NULL);
  *count = count_between(before, count_now());
  return rc;
}

int main(void) {
  TVMGraphExecutor* ex;
  int64_t shape[1] = {NUM_FLOATS};
  DLTensor in = {x, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, NULL, 0};
  DLTensor out = {y, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, NULL, 0};
  size_t used;
  uint32_t kernel;
  uint32_t at[5];
  at[0] = count_now();
  if (tvmrt_graph_create(graph_json, graph_json_bytes, &image_module, arena, sizeof(arena), &ex,
                         &used) != 0) {
    return 1;
  }
  at[1] = count_now();
  if (TVMGraphExecutor_LoadParams(ex, no_params, sizeof(no_params)) != 0) return 2;
  if (TVMGraphExecutor_SetInput(ex, "x", &in) != 0) return 3;
  at[2] = count_now();
  if (TVMGraphExecutor_Run(ex) != 0) return 4;
  at[3] = count_now();
  if (TVMGraphExecutor_GetOutput(ex, 0, &out) != 0) return 5;
  at[4] = count_now();
  if (run_directly(ex, &kernel) != 0 || ((int32_t*)y)[63] != 3) return 6;
  report("graph JSON bytes", graph_json_bytes);
  report("graph memory without its tensors", (uint32_t)(used - TENSOR_BYTES));
  report("graph create", count_between(at[0], at[1]));
  report("graph load params and set input", count_between(at[1], at[2]));
  report("graph run of 3 nodes over their kernels", count_between(at[2], at[3]) - 3 * kernel);
  report("graph get output", count_between(at[3], at[4]));
  return TVMGraphExecutor_Release(&ex);
}
