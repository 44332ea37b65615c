/* Three operators in a table, and the graph that calls them one after the other. */
#include "image.h"

#define OPERATOR(name)                                                             \
  int name(TVMValue* args, int* codes, int num_args, TVMValue* out, int* out_code, \
           void* resource);                                                        \
  int name(TVMValue* args, int* codes, int num_args, TVMValue* out, int* out_code, \
           void* resource) {                                                       \
    const int32_t* x = (const int32_t*)((const DLTensor*)args[0].v_handle)->data;  \
    int32_t* y = (int32_t*)((const DLTensor*)args[1].v_handle)->data;              \
    (void)codes, (void)num_args, (void)out, (void)out_code, (void)resource;        \
    for (int i = 0; i < NUM_FLOATS; ++i) y[i] = x[i] + 1;                          \
    return 0;                                                                      \
  }

OPERATOR(op_first)
OPERATOR(op_second)
OPERATOR(op_third)

static const TVMCPackedFunc functions[] = {op_first, op_second, op_third};
static const TVMFuncRegistry registry = {
    "\003\000tvmgen_default_fused_add\000tvmgen_default_fused_add_1\000"
    "tvmgen_default_fused_add_2\000",
    functions};
const TVMModule image_module = {&registry};

const TVMModule* TVMSystemLibEntryPoint(void) { return &image_module; }

#define NODE(name, input)                               \
  "{\"op\":\"tvm_op\",\"name\":\"" name                 \
  "\",\"attrs\":{\"num_outputs\":\"1\",\"num_inputs\":" \
  "\"1\",\"flatten_data\":\"0\",\"func_name\":\"" name "\"},\"inputs\":[[" input ",0,0]]}"

const char graph_json[] =
    "{\"nodes\":[{\"op\":\"null\",\"name\":\"x\",\"inputs\":[]},"
    NODE("tvmgen_default_fused_add", "0") "," NODE("tvmgen_default_fused_add_1", "1") ","
    NODE("tvmgen_default_fused_add_2", "2")
    "],\"arg_nodes\":[0],\"heads\":[[3,0,0]],\"attrs\":{\"dltype\":[\"list_str\",[\"float32\","
    "\"float32\",\"float32\",\"float32\"]],\"device_index\":[\"list_int\",[1,1,1,1]],"
    "\"storage_id\":[\"list_int\",[0,1,2,3]],\"shape\":[\"list_shape\",[[1,64],[1,64],[1,64],"
    "[1,64]]]},\"node_row_ptr\":[0,1,2,3,4]}";
const unsigned graph_json_bytes = sizeof(graph_json) - 1;
