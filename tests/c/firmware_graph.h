/* What the tests of the firmware library's graph executor share: a graph and its parameters. */
#ifndef TVMRT_TESTS_C_FIRMWARE_GRAPH_H_
#define TVMRT_TESTS_C_FIRMWARE_GRAPH_H_

#include <tvm/runtime/crt/graph_arena.h>

#include "firmware_image.h"

/* A graph: (x + w) * 2, its result in another shape, and the sum. */

#define NODES(second)                                                                      \
  "\"nodes\": [{\"op\": \"null\", \"name\": \"x\", \"inputs\": []},\n"                     \
  " {\"op\": \"null\", \"name\": \"w\\u00e4\", \"inputs\": []},\n"                         \
  " {\"op\": \"tvm_op\", \"name\": \"sum\", \"inputs\": [[0, 0, 0], " second               \
  "],\n"                                                                                   \
  "  \"attrs\": {\"func_name\": \"add\", \"num_inputs\": \"2\", \"hash\": \"[{\"}},\n"     \
  " {\"op\": \"tvm_op\", \"inputs\": [[2, 0, 0]], \"name\": \"twice\",\n"                  \
  "  \"attrs\": {\"func_name\": \"double\", \"flatten_data\": \"0\"}},\n"                  \
  " {\"op\": \"tvm_op\", \"name\": \"reshape_nop\", \"attrs\": {\"func_name\": \"__nop\"}" \
  ",\n  \"inputs\": [[3, 0, 0]]}]"
#define ARGS ", \"arg_nodes\": [0, 1], \"heads\": [[2, 0, 0], [4, 0]]"
#define ATTRS(ids, shape)                                                      \
  ", \"attrs\": {\"dltype\": [\"list_str\", [\"float32\", \"float32\", "       \
  "\"float32\", \"float32\", \"float32\"]], \"device_index\": [\"list_int\", " \
  "[1, 1, 1, 1, 1]], \"storage_id\": [\"list_int\", " ids                      \
  "], \"shape\": "                                                             \
  "[\"list_shape\", [[2, 3], " shape ", [2, 3], [2, 3], [6]]]}, \"metadata\": {\"a\": [1.5e-3]}"
#define ROWS ", \"node_row_ptr\": [0, 1, 2, 3, 4, 5]"
#define JSON(second, ids, shape, rows) \
  "{" NODES(second) ARGS ATTRS(ids, shape) ", \"node_row_ptr\": " rows "}"

static const char json[] = JSON("[1, 0, 0]", "[0, 1, 2, 3, 3]", "[2, 3]", "[0, 1, 2, 3, 4, 5]");

enum {
  TENSOR_BYTES = 2 * TVMRT_GRAPH_ROUND_UP(24),
  ARENA_BYTES = TVMRT_GRAPH_ARENA_BYTES(5, 2, 2, 5, 9, 4, 3, TENSOR_BYTES)
};

static inline DLTensor tensor_of(float* data) {
  static int64_t extents[] = {6};
  DLTensor t = {data, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, extents, NULL, 0};
  return t;
}

/* A params blob with float32 arrays of 6 elements, each with the given name. Returns its size. */
static inline uint32_t write_params(uint8_t* out, const char* const* names, uint64_t count) {
  static const float w[6] = {10, 20, 30, 40, 50, 60};
  const uint64_t magic[2] = {0xf7e58d4f05049cb7, 0};
  const uint64_t array[3] = {0xdd5e40f096b4a13f, 0, 1};
  const uint8_t head[] = {2, 0, 0, 0, 2, 32, 1, 0, 2,  0, 0, 0, 0, 0, 0, 0,
                          3, 0, 0, 0, 0, 0,  0, 0, 24, 0, 0, 0, 0, 0, 0, 0};
  uint8_t* at = out;
#define PUT(data, size) (memcpy(at, data, size), at += (size))
  PUT(magic, 16);
  PUT(&count, 8);
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t size = strlen(names[i]);
    PUT(&size, 8);
    PUT(names[i], size);
  }
  PUT(&count, 8);
  for (uint64_t i = 0; i < count; ++i) {
    PUT(array, 24);
    PUT(head, sizeof(head));
    PUT(w, sizeof(w));
  }
#undef PUT
  return (uint32_t)(at - out);
}

#endif
