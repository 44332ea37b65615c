/* A network that finds sizes during its run. Outputs for x of (n):
 * - "doubled", 2 x;
 * - "positive", the positive elements of x, whose number is found in phase 1;
 * - "range", the numbers below the sum of the positive elements, which is found in phase 2.
 * Each is computed in a buffer first. MAX_BYTES is the limit of memory. */
#include <stdint.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/kernels/op/dims.h>
#include <tvm/runtime/metadata.h>
#include <tvm/runtime/run_plan.h>

#ifndef MAX_BYTES
#define MAX_BYTES 0
#endif

enum { OPEN = 2147483647, NUM_BUFFERS = 3 };

#define EXPORTED(name)                                                                  \
  TVM_DLL int name(TVMValue* args, int* codes, int count, TVMValue* out, int* out_code, \
                   void* resource);                                                     \
  int name(TVMValue* args, int* codes, int count, TVMValue* out, int* out_code, void* resource)

#define GETTER(name, value)                               \
  EXPORTED(name) {                                        \
    (void)args, (void)codes, (void)count, (void)resource; \
    out->v_handle = (void*)(uintptr_t)(value);            \
    *out_code = kTVMOpaqueHandle;                         \
    return 0;                                             \
  }

static const int64_t most[] = {OPEN};
static const int64_t one[] = {1};
static const int64_t none[] = {0};
static const int32_t axis_n[] = {0};
static const int32_t axis_found[] = {-1};
static const tvmrt_dim dim_list[] = {{"n", 1, OPEN}};
static const tvmrt_dims_tensor dims_inputs[] = {{"x", 1, axis_n, one, most}};
static const tvmrt_dims_tensor dims_outputs[] = {{"doubled", 1, axis_n, one, most},
                                                 {"positive", 1, axis_found, none, most},
                                                 {"range", 1, axis_found, none, most}};
static const tvmrt_dims dims = {sizeof(dims),
                                dim_list,
                                1,
                                dims_inputs,
                                1,
                                dims_outputs,
                                3,
                                "{\"dims\": {\"n\": [1, 2147483647]}}"};

static const int64_t pool_shape[] = {(int64_t)1 << 50};
static const struct TVMTensorInfo inputs[] = {{"x", most, 1, {kDLFloat, 32, 1}}};
static const struct TVMTensorInfo outputs[] = {{"doubled", most, 1, {kDLFloat, 32, 1}},
                                               {"positive", most, 1, {kDLFloat, 32, 1}},
                                               {"range", most, 1, {kDLInt, 32, 1}}};
static const struct TVMTensorInfo pools[] = {{"workspace", pool_shape, 1, {kDLUInt, 8, 1}}};
static const struct TVMMetadata metadata[] = {
    {TVM_METADATA_VERSION, inputs, 1, outputs, 3, pools, 1, NULL, 0, "tvmgen_default"}};

static int32_t read_sizes(const TVMValue* args, int32_t* sizes) {
  return tvmrt_read_dims(&dims, args, sizes);
}

/* Elements of the buffers, then the extents of the outputs. */
static void estimate(const int32_t* sizes, double* counts) {
  int i;
  for (i = 0; i < 6; ++i) counts[i] = sizes[i % 3];
}

static void count_exactly(const int32_t* sizes, int64_t* counts) {
  int i;
  for (i = 0; i < 6; ++i) counts[i] = sizes[i % 3];
}

static const tvmrt_plan_buffer buffers[NUM_BUFFERS] = {{32, 0, 1}, {32, 1, 2}, {32, 2, 3}};
static const int32_t phase_ends[] = {1, 2, 3};
static const int32_t output_phases[] = {0, 1, 2};
static const tvmrt_run_plan plan = {.struct_bytes = sizeof(plan),
                                    .num_sizes = 1,
                                    .num_buffers = NUM_BUFFERS,
                                    .num_tensors = 3,
                                    .num_extents = 3,
                                    .buffers = buffers,
                                    .max_bytes = MAX_BYTES,
                                    .read_sizes = read_sizes,
                                    .estimate = estimate,
                                    .count = count_exactly,
                                    .num_found = 2,
                                    .num_phases = 3,
                                    .phase_ends = phase_ends,
                                    .output_phases = output_phases};

GETTER(get_c_metadata, metadata)
GETTER(get_dims, &dims)
GETTER(get_run_plan, &plan)

/* Copy a buffer to an output, which may have been replaced since the run began. */
static int write_output(TVMValue output, const char* name, const void* from, int64_t count) {
  if (tvmrt_set_extent(output, name, 0, count) != 0) return -1;
  memcpy(((DLTensor*)output.v_handle)->data, from, (size_t)count * 4);
  return 0;
}

EXPORTED(tvmgen_default___tvm_main__) {
  const DLTensor* x = args[0].v_handle;
  const float* values = x->data;
  const int64_t n = x->shape[0];
  const void* workspace = ((DLTensor*)args[5].v_handle)->data;
  tvmrt_run_link* link = tvmrt_plan_pointer(workspace, 1 + NUM_BUFFERS);
  float* doubled = tvmrt_plan_pointer(workspace, 1);
  float* positive;
  int32_t* range;
  int32_t found[2] = {0, 0};
  double sum = 0;
  int64_t i;
  (void)codes, (void)count, (void)out, (void)out_code, (void)resource;
  for (i = 0; i < n; ++i) doubled[i] = 2 * values[i];
  if (write_output(args[1], "doubled", doubled, n) != 0) return -1;

  for (i = 0; i < n; ++i) found[0] += values[i] > 0;
  if (link->place(link, 1, found) != 0) return -1;
  positive = tvmrt_plan_pointer(workspace, 2);
  found[0] = 0;
  for (i = 0; i < n; ++i) {
    if (values[i] > 0) positive[found[0]++] = values[i];
  }
  if (write_output(link->outputs[1], "positive", positive, found[0]) != 0) return -1;

  for (i = 0; i < found[0]; ++i) sum += positive[i];
  found[1] = values[0] == -1 ? -5 : (int32_t)sum; /* a network with an error */
  if (link->place(link, 2, found) != 0) return -1;
  range = tvmrt_plan_pointer(workspace, 3);
  for (i = 0; i < found[1]; ++i) range[i] = (int32_t)i;
  /* the buffers of all phases are intact */
  if (found[0] > 0 && positive[found[0] - 1] <= 0) return -1;
  return write_output(link->outputs[2], "range", range, found[1]);
}
