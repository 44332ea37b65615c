/* Matmul for functions that are built on it. */
#ifndef TVMRT_PLUGINS_TVM_NAMES_MATMUL_H_
#define TVMRT_PLUGINS_TVM_NAMES_MATMUL_H_

#include <stdint.h>

/* Floats of work memory that a matmul needs. */
#define NAMES_GEMM_SCRATCH_FLOATS (128 * 256)

/* c = a * b for compact matrices: a has height x depth elements, b depth x width. */
void names_gemm_f32(int64_t height, int64_t depth, int64_t width, const float* a, const float* b,
                    float* c, float work[NAMES_GEMM_SCRATCH_FLOATS]);

#endif
