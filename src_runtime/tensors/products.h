/* Products of matrices, for functions that are made of them. */
#ifndef TVMRT_SRC_RUNTIME_TENSORS_PRODUCTS_H_
#define TVMRT_SRC_RUNTIME_TENSORS_PRODUCTS_H_

#include <stdint.h>

/* Floats that a product needs to work with. */
#define TVMRT_PRODUCT_FLOATS (128 * 256)

/* c = a * b, all three compact: a of height x depth, b of depth x width elements. */
void tvmrt__product_f32(int64_t height, int64_t depth, int64_t width, const float* a,
                        const float* b, float* c, float work[TVMRT_PRODUCT_FLOATS]);

#endif
