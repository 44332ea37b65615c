/* A network whose memory is planned for each run: y = 2 x + 1 for x of (batch, width), through two
 * buffers, and the positive sums of rows. Main checks its workspace. MAX_BYTES is the limit of
 * memory. Buffers are SCALE times as large as necessary. NUM_EXTENTS is wrong in one test. */
#include <stdint.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/kernels/op/dims.h>
#include <tvm/runtime/metadata.h>
#include <tvm/runtime/run_plan.h>

#ifndef MAX_BYTES
#define MAX_BYTES 0
#endif
#ifndef SCALE
#define SCALE 1
#endif
#ifndef NUM_EXTENTS
#define NUM_EXTENTS 3
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

static const int64_t most[] = {OPEN, OPEN};
static const int64_t least[] = {1, 1};
static const int32_t axes[] = {0, 1};
static const int32_t rows[] = {0};
static const tvmrt_dim dim_list[] = {{"batch", 1, OPEN}, {"width", 1, OPEN}};
static const tvmrt_dims_tensor dims_inputs[] = {{"x", 2, axes, least, most}};
static const tvmrt_dims_tensor dims_outputs[] = {{"y", 2, axes, least, most},
                                                 {"positive", 1, rows, least, most}};
static const tvmrt_dims dims = {
    sizeof(dims),
    dim_list,
    2,
    dims_inputs,
    1,
    dims_outputs,
    2,
    "{\"dims\": {\"batch\": [1, 2147483647], \"width\": [1, 2147483647]}, "
    "\"inputs\": {\"x\": [\"batch\", \"width\"]}, "
    "\"outputs\": {\"y\": [\"batch\", \"width\"], "
    "\"positive\": [\"batch\"]}}"};

static const int64_t pool_shape[] = {(int64_t)1 << 50};
static const struct TVMTensorInfo inputs[] = {{"x", most, 2, {kDLFloat, 32, 1}}};
static const struct TVMTensorInfo outputs[] = {{"y", most, 2, {kDLFloat, 32, 1}},
                                               {"positive", most, 1, {kDLFloat, 32, 1}}};
static const struct TVMTensorInfo pools[] = {{"workspace", pool_shape, 1, {kDLUInt, 8, 1}}};
static const struct TVMMetadata metadata[] = {
    {TVM_METADATA_VERSION, inputs, 1, outputs, 2, pools, 1, NULL, 0, "tvmgen_default"}};

static int num_counts; /* how often a run was planned */

static int32_t read_sizes(const TVMValue* args, int32_t* sizes) {
  return tvmrt_read_dims(&dims, args, sizes);
}

static void estimate(const int32_t* sizes, double* counts) {
  const double elements = (double)sizes[0] * sizes[1];
  counts[0] = counts[1] = SCALE * elements;
  counts[3] = counts[4] = elements;
  counts[2] = 0;
  counts[5] = counts[7] = sizes[0];
  counts[6] = sizes[1];
}

static void count_exactly(const int32_t* sizes, int64_t* counts) {
  double values[8];
  int i;
  estimate(sizes, values);
  for (i = 0; i < 8; ++i) counts[i] = (int64_t)values[i];
  ++num_counts;
}

static const tvmrt_plan_buffer buffers[NUM_BUFFERS] = {{32, 0, 1}, {32, 1, 2}, {8, 0, 2}};
static const int32_t phase_ends[] = {NUM_BUFFERS};
static const int32_t output_phases[] = {0, 0};
static const tvmrt_run_plan plan = {.struct_bytes = sizeof(plan),
                                    .num_sizes = 2,
                                    .num_buffers = NUM_BUFFERS,
                                    .num_tensors = 5,
                                    .num_extents = NUM_EXTENTS,
                                    .buffers = buffers,
                                    .max_bytes = MAX_BYTES,
                                    .read_sizes = read_sizes,
                                    .estimate = estimate,
                                    .count = count_exactly,
                                    .num_phases = 1,
                                    .phase_ends = phase_ends,
                                    .output_phases = output_phases};

GETTER(get_c_metadata, metadata)
GETTER(get_dims, &dims)
GETTER(get_run_plan, &plan)
GETTER(num_plans, &num_counts)
#ifdef STATE
GETTER(get_state, &num_counts)
#endif

static int64_t workspace_bytes;
GETTER(bytes_of_workspace, &workspace_bytes)

/* Whether the pointers are those of run_plan.h, for two buffers of `bytes` and an empty one. */
static int is_workspace(const DLTensor* t, size_t bytes) {
  const uintptr_t begin = (uintptr_t)t->data;
  const uintptr_t end = begin + (uintptr_t)t->shape[0];
  uint8_t* const* words = t->data;
  uintptr_t a = (uintptr_t)words[1];
  uintptr_t b = (uintptr_t)words[2];
  int k;
  workspace_bytes = t->shape[0];
  if (begin % 64 != 0 || (const void*)words[0] != (const void*)&plan) return 0;
  for (k = 1; k <= NUM_BUFFERS; ++k) {
    if ((uintptr_t)words[k] % 64 != 0 || (uintptr_t)words[k] < begin + 64) return 0;
    if ((uintptr_t)words[k] + (k == 3 ? 0 : bytes) > end) return 0;
  }
  return a + bytes <= b || b + bytes <= a;
}

EXPORTED(tvmgen_default___tvm_main__) {
  const DLTensor* x = args[0].v_handle;
  const int64_t batch = x->shape[0];
  const int64_t width = x->shape[1];
  const DLTensor* workspace = args[4].v_handle;
  float* doubled = (float*)((uint8_t* const*)workspace->data)[1];
  float* sums = (float*)((uint8_t* const*)workspace->data)[2];
  int64_t positive = 0;
  int64_t i;
  int64_t k;
  (void)codes, (void)out, (void)out_code, (void)resource;
  if (count != 5 || !is_workspace(workspace, (size_t)(batch * width) * sizeof(float))) {
    TVMAPISetLastError("main: wrong workspace");
    return -1;
  }
  if (tvmrt_set_extent(args[1], "y", 0, batch) != 0 ||
      tvmrt_set_extent(args[1], "y", 1, width) != 0 ||
      tvmrt_set_extent(args[2], "positive", 0, batch) != 0) {
    return -1;
  }
  for (i = 0; i < batch * width; ++i) doubled[i] = ((const float*)x->data)[i] * 2;
  for (i = 0; i < batch * width; ++i) sums[i] = doubled[i] + 1;
  memcpy(((DLTensor*)args[1].v_handle)->data, sums, (size_t)(batch * width) * sizeof(float));
  for (i = 0; i < batch; ++i) {
    float sum = 0;
    for (k = 0; k < width; ++k) sum += ((const float*)x->data)[i * width + k];
    if (sum > 0) ((float*)((DLTensor*)args[2].v_handle)->data)[positive++] = sum;
  }
  return tvmrt_set_extent(args[2], "positive", 0, positive);
}
