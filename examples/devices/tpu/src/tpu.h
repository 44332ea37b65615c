/* The simulated accelerator: its memory, its arithmetic units, and the program of one region. */
#ifndef TVMRT_SRC_RUNTIME_DEVICES_TPU_TPU_H_
#define TVMRT_SRC_RUNTIME_DEVICES_TPU_TPU_H_

#include <stdbool.h>
#include <tvm/runtime/device.h>

#define TPU_MAX_RANK 4
#define TPU_LANES 8 /* words per memory row; channels are padded to a multiple */

/* A tensor in device memory: channels innermost (axis 1 of four, else the last axis), rows padded
 * to TPU_LANES words. Axes are right-aligned; missing ones have extent 1 and stride 0. */
typedef struct tpu_tensor {
  float* words;
  int64_t num_words;
  int64_t extent[TPU_MAX_RANK];
  int64_t stride[TPU_MAX_RANK]; /* in words */
} tpu_tensor;

/* State of one region on the device. */
typedef struct tpu_program {
  const tvmrt_region* region;
  tpu_tensor* tensors; /* per tensor of the region */
  float* memory;       /* of all tensors */
  bool is_half;        /* computes in float16 by default */
} tpu_program;

/* Compute the layout: sets everything except `words`. */
void tpu_set_layout(const tvmrt_region_tensor* from, tpu_tensor* out);
/* Compute the layouts of a region's tensors; return the words of device memory that they need. */
uint64_t tpu_set_layouts(tpu_program* program);
/* Assign the tensors' addresses and copy the constants. */
void tpu_assign_memory(tpu_program* program);

/* Iterator over a tensor's elements in row-major order. {t, {0}, 0} is the first element, which
 * always exists, as empty tensors are rejected. */
typedef struct tpu_walk {
  const tpu_tensor* t;
  int64_t at[TPU_MAX_RANK];
  int64_t word;
} tpu_walk;
/* Advance to the next element; false after the last one. */
bool tpu_step(tpu_walk* w);

/* Copies between row-major host memory and the device. */
void tpu_copy_in(const tpu_tensor* to, const float* from);
void tpu_copy_out(const tpu_tensor* from, float* to);

/* Operators of the units; NULL-terminated. */
extern const char* const tpu_ops[];
/* NULL if the device supports the node with its tensors; otherwise the reason. */
const char* tpu_refuses(const tvmrt_region* region, const tvmrt_region_node* node);
void tpu_run_node(tpu_program* program, const tvmrt_region_node* node);

#endif
