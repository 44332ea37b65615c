/*!
 * \file scalar/any_weights.h
 * \brief Arithmetic of the integer layers with weights that may have changed.
 *
 * Sums of products and biases fit into int32_t, as the compiler of the network knows the weights. A
 * network that detects changed weights only after a layer defines TVMRT_ANY_WEIGHTS. Then the
 * operations wrap around, so that layers have defined results for all values of weights, biases and
 * multipliers. They are macros, because functions would change the code that GCC makes of other
 * networks.
 */
#ifndef TVM_RUNTIME_KERNELS_SCALAR_ANY_WEIGHTS_H_
#define TVM_RUNTIME_KERNELS_SCALAR_ANY_WEIGHTS_H_

#include <stdint.h>

#include "compiler.h"

#ifdef TVMRT_ANY_WEIGHTS
#define TVMRT_WRAP_ADD(a, b) ((int32_t)((uint32_t)(a) + (uint32_t)(b)))
/* opaque, or GCC adds several products first, for which small processors lack registers */
#define TVMRT_WRAP_ADD_TO(sum, a)       \
  do {                                  \
    (sum) = TVMRT_WRAP_ADD((sum), (a)); \
    TVMRT_OPAQUE(sum);                  \
  } while (0)
#define TVMRT_WRAP_MULTIPLY(a, b) ((int32_t)((uint32_t)(a) * (uint32_t)(b)))
#define TVMRT_WRAP_NEG(a) ((int32_t)(0u - (uint32_t)(a)))
#define TVMRT_WRAP_SHIFT_RIGHT(a, n) ((a) >> (int)((uint32_t)(n) % 32))
/* the exponent e of a fixed-point multiplier; that of a positive float, where 2 ^ 8 has 135 */
#define TVMRT_WRAP_LIMIT(e, high) ((e) = (e) < -31 ? -31 : (e) > (high) ? (high) : (e))
#define TVMRT_WRAP_EXPONENT(bits) ((bits) >> 23 < 134 ? (bits) >> 23 : 134)
#else
#define TVMRT_WRAP_ADD(a, b) ((a) + (b))
#define TVMRT_WRAP_ADD_TO(sum, a) ((sum) += (a))
#define TVMRT_WRAP_MULTIPLY(a, b) ((a) * (b))
#define TVMRT_WRAP_NEG(a) (-(a))
#define TVMRT_WRAP_SHIFT_RIGHT(a, n) ((a) >> (n))
#define TVMRT_WRAP_LIMIT(e, high) ((void)0)
#define TVMRT_WRAP_EXPONENT(bits) ((bits) >> 23)
#endif

#endif /* TVM_RUNTIME_KERNELS_SCALAR_ANY_WEIGHTS_H_ */
