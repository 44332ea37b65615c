/*!
 * \file tile/intrinsics.h
 * \brief The compilers' headers of vector instructions, for what simd.h has no operation for.
 *
 * GCC needs 0.16 s and 50 MB to read that of x86, more than for most kernels: who needs no more than
 * floats includes simd.h alone.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_INTRINSICS_H_
#define TVM_RUNTIME_KERNELS_TILE_INTRINSICS_H_

#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#endif /* TVM_RUNTIME_KERNELS_TILE_INTRINSICS_H_ */
