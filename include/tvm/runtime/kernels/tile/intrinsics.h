/*!
 * \file tile/intrinsics.h
 * \brief The compilers' headers of vector intrinsics, for operations that simd.h lacks.
 *
 * GCC needs 0.16 s and 50 MB to parse the x86 header, more than for most kernels. Code that only
 * uses floats includes simd.h alone.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_INTRINSICS_H_
#define TVM_RUNTIME_KERNELS_TILE_INTRINSICS_H_

#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#endif

#endif /* TVM_RUNTIME_KERNELS_TILE_INTRINSICS_H_ */
