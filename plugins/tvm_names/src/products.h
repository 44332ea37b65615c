/* Products of matrices, for functions that are made of them. */
#ifndef TVMRT_PLUGINS_TVM_NAMES_PRODUCTS_H_
#define TVMRT_PLUGINS_TVM_NAMES_PRODUCTS_H_

#include <stdint.h>

/* Floats that a product needs to work with. */
#define NAMES_PRODUCT_FLOATS (128 * 256)

/* c = a * b, all three compact: a of height x depth, b of depth x width elements. */
void names_product_f32(int64_t height, int64_t depth, int64_t width, const float* a, const float* b,
                       float* c, float work[NAMES_PRODUCT_FLOATS]);

#endif
