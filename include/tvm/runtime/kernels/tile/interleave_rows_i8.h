/*!
 * \file tile/interleave_rows_i8.h
 * \brief Interleave two rows of bytes pixel by pixel.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_INTERLEAVE_ROWS_I8_H_
#define TVM_RUNTIME_KERNELS_TILE_INTERLEAVE_ROWS_I8_H_

#include <stdint.h>
#include <string.h>

#include "../scalar/compiler.h"
#include "../scalar/pairs.h"
#include "intrinsics.h"

/* Interleave `pixels` pixels of `bytes` each; with a literal the copies become moves. */
TVMRT_INLINE void tvmrt_interleave_pixels(uint8_t* to, const uint8_t* a, const uint8_t* b,
                                          int32_t pixels, int32_t bytes) {
  for (int32_t i = 0; i < pixels; i++, a += bytes, b += bytes, to += 2 * bytes) {
    memcpy(to, a, (size_t)bytes);
    memcpy(to + bytes, b, (size_t)bytes);
  }
}

#if defined(__AVX512VBMI__) && defined(__AVX512BW__)
TVMRT_TABLE(uint8_t, tvmrt_rgb_lanes, 64, 0, 1, 2, 64, 65, 66, 3, 4, 5, 67, 68, 69, 6, 7, 8, 70, 71,
            72, 9, 10, 11, 73, 74, 75, 12, 13, 14, 76, 77, 78, 15, 16, 17, 79, 80, 81, 18, 19, 20,
            82, 83, 84, 21, 22, 23, 85, 86, 87, 24, 25, 26, 88, 89, 90, 27, 28, 29, 91, 92, 93, 0,
            0, 0);
#define tvmrt_rgb_lanes tvmrt_rgb_lanes

/* Interleave pixels of three bytes, as in pictures: ten pixels per line. */
TVMRT_INLINE void tvmrt_interleave_rgb(uint8_t* to, const uint8_t* a, const uint8_t* b,
                                       int32_t pixels) {
  const __m512i order = _mm512_loadu_si512(tvmrt_rgb_lanes[0]);
  for (; pixels > 0; pixels -= 10, a += 30, b += 30, to += 60) {
    const int n = 6 * (pixels < 10 ? pixels : 10);
    const __mmask64 half = (1ull << n / 2) - 1, whole = (1ull << n) - 1;
    const __m512i first = _mm512_maskz_loadu_epi8(half, a);
    const __m512i both = _mm512_permutex2var_epi8(first, order, _mm512_maskz_loadu_epi8(half, b));
    _mm512_mask_storeu_epi8(to, whole, both);
  }
}
#else
TVMRT_INLINE void tvmrt_interleave_rgb(uint8_t* to, const uint8_t* a, const uint8_t* b,
                                       int32_t pixels) {
  tvmrt_interleave_pixels(to, a, b, pixels, 3);
}
#endif

/*! \brief to[i] = {a[i], b[i]} for pixels of `bytes` each; `to` must not overlap a or b. */
static inline void tvmrt_interleave_rows(uint8_t* to, const uint8_t* a, const uint8_t* b,
                                         int32_t pixels, int32_t bytes) {
  if (bytes == 3) {
    tvmrt_interleave_rgb(to, a, b, pixels);
  } else {
    tvmrt_interleave_pixels(to, a, b, pixels, bytes);
  }
}

#endif /* TVM_RUNTIME_KERNELS_TILE_INTERLEAVE_ROWS_I8_H_ */
