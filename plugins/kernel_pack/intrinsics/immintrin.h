/*!
 * \file immintrin.h
 * \brief Names of vectors for a compiler without them, which compiles calls of kernels only.
 */
#ifndef TVMRT_INTRINSICS_IMMINTRIN_H_
#define TVMRT_INTRINSICS_IMMINTRIN_H_

typedef int __m128i, __m256i, __m512i;
typedef float __m128, __m256, __m512;
typedef int __mmask8, __mmask16, __mmask32, __mmask64;

#endif /* TVMRT_INTRINSICS_IMMINTRIN_H_ */
