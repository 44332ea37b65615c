/* What a plan consists of: for plan.c, which makes it, product.c and run.c. */
#ifndef TVMRT_DEVICES_CUDA_PLAN_H_
#define TVMRT_DEVICES_CUDA_PLAN_H_

#include "../shared/region_plan.h"
#include "cuda.h"

/* A parameter of a kernel. */
typedef union {
  CUdeviceptr address;
  int32_t int_value;
  uint32_t uint_value;
  float float_value;
} value;

/* One matrix of a product: row-major, or column-major if it is transposed. */
typedef struct {
  int64_t offset, lead, step; /* in elements: of the first, between rows, between matrices */
  bool transposed;
} matrix;

typedef struct {
  int32_t node;
  CUfunction kernel; /* NULL: a product */
  unsigned int groups, group_size;
  int32_t* tensors; /* the first of the parameters: their addresses change from run to run */
  int32_t num_tensors;
  value* values;
  void** parameters; /* which point to values */
  int64_t count, rows, columns, inner;
  matrix a, b;
} step;

struct cuda_plan {
  cuda_context* context;
  tvmrt_region* region;
  CUstream stream;
  CUevent done; /* behind all of a run */
  bool runs;
  region_plan plan;
  size_t* weight_offsets; /* per constant: where it lies in the weights */
  size_t* buffer_offsets; /* per buffer of the plan: where it lies in the arena */
  size_t* staged;         /* per input and output: where it lies in the staging areas */
  CUdeviceptr* bound;     /* per input and output: its memory in this run */
  step* steps;
  int32_t num_steps;
  CUdeviceptr weights, arena;
  bool owns_weights;
  size_t weights_bytes, arena_bytes;
  /* For borders whose tensors are the host's; made when a run brings the first. The host's part is
   * pinned, so that the GPU copies by itself. */
  CUdeviceptr staging;
  char* pinned;
  size_t staging_bytes;
  cublasHandle_t handle;
};

CUdeviceptr cuda_address(const cuda_plan* p, int32_t tensor);

/* A node "custom_cuda_product", into its step; checks that it stays within its tensors. */
int cuda_product_create(cuda_plan* p, const tvmrt_region_node* node, step* out);
int cuda_product_launch(cuda_plan* p, const step* s);
void cuda_products_free(cuda_plan* p);

#endif
