/*!
 * \file tile/gemm_i8_i8mm.h
 * \brief Accumulation of a tile with AArch64's I8MM instructions; a part of tile/gemm_i8.h.
 *
 * One instruction multiplies two pixels with two channels, eight bytes of each. Weights are packed
 * as for TVMRT_I8_NEON_DOT: two consecutive quads of four channels are zipped to two matrices of
 * two channels, once for all pixels. The tail of a run, and a pixel without a partner, are
 * multiplied quad by quad.
 *
 * Before: tile/gemm_i8.h, which includes this file where TVMRT_I8_FORMAT is TVMRT_I8_NEON_I8MM.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_GEMM_I8_I8MM_H_
#define TVM_RUNTIME_KERNELS_TILE_GEMM_I8_I8MM_H_

#if !defined(TVM_RUNTIME_KERNELS_TILE_GEMM_I8_H_) || TVMRT_I8_FORMAT != TVMRT_I8_NEON_I8MM
#error "tile/gemm_i8_i8mm.h is a part of tile/gemm_i8.h: define TVMRT_I8_FORMAT, include that"
#else

/*! \brief Two pixels of a vector of channels: {pixel, channel} 00 01 10 11, and 02 03 12 13. */
typedef struct tvmrt_i8mm_acc {
  int32x4_t first, second;
} tvmrt_i8mm_acc;

/*! \brief Eight bytes of two pixels. */
TVMRT_INLINE int8x16_t tvmrt_i8mm_pixels(const uint8_t* one, const uint8_t* other, int is_signed) {
  const uint8x16_t both = vcombine_u8(vld1_u8(one), vld1_u8(other));
  return vreinterpretq_s8_u8(is_signed ? both : veorq_u8(both, vdupq_n_u8(0x80)));
}

/*! \brief Four bytes of two pixels, each followed by four with zero weights. */
TVMRT_INLINE int8x16_t tvmrt_i8mm_quads(const uint8_t* one, const uint8_t* other, int is_signed) {
  const uint64_t low = tvmrt_i8_four_signed(one, is_signed);
  const uint64_t high = tvmrt_i8_four_signed(other, is_signed);
  return vreinterpretq_s8_u64(vcombine_u64(vcreate_u64(low), vcreate_u64(high)));
}

/*! \brief Multiply one quad of weights, and the next one, with their input bytes. */
TVMRT_INLINE void tvmrt_i8mm_add(tvmrt_i8mm_acc* acc, int8x16_t x, int8x16_t w, int8x16_t next) {
  const int32x4_t a = vreinterpretq_s32_s8(w), b = vreinterpretq_s32_s8(next);
  acc->first = vmmlaq_s32(acc->first, x, vreinterpretq_s8_s32(vzip1q_s32(a, b)));
  acc->second = vmmlaq_s32(acc->second, x, vreinterpretq_s8_s32(vzip2q_s32(a, b)));
}

/*! \brief Address of a tile's pixel, by strides from the first of three. */
#define TVMRT_I8MM_X(t) (x[(t) / 3] + ((t) % 3) * step)

/*! \brief Eight bytes, or a quad if is_quad, of all pixels times those of all channels; nr, mr,
 * is_signed and is_quad are literals. */
TVMRT_INLINE void tvmrt_i8mm_step(
    int nr, int mr, int is_signed, int is_quad, const uint8_t* const* x, int64_t k, int64_t step,
    const int8_t* weights, int64_t w_step,
    tvmrt_i8mm_acc acc[TVMRT_TILE_I8_MAX_MR / 2][TVMRT_TILE_I8_MAX_NR], tvmrt_i8_acc* alone) {
  int8x16_t pair[TVMRT_TILE_I8_MAX_MR / 2];
  TVMRT_UNROLL_ALL for (int t = 0; t + 1 < mr; t += 2) {
    const uint8_t *one = TVMRT_I8MM_X(t) + k, *other = TVMRT_I8MM_X(t + 1) + k;
    pair[t / 2] = is_quad ? tvmrt_i8mm_quads(one, other, is_signed)
                          : tvmrt_i8mm_pixels(one, other, is_signed);
  }
  TVMRT_UNROLL_ALL for (int o = 0; o < nr; o++) {
    const int8x16_t w = vld1q_s8(weights + o * TVMRT_I8_QUAD_BYTES);
    const int8x16_t next =
        is_quad ? vdupq_n_s8(0) : vld1q_s8(weights + w_step + o * TVMRT_I8_QUAD_BYTES);
    TVMRT_UNROLL_ALL for (int t = 0; t < mr / 2; t++) {
      tvmrt_i8mm_add(&acc[t][o], pair[t], w, next);
    }
    if (mr % 2 != 0) {
      const uint8_t* last = TVMRT_I8MM_X(mr - 1) + k;
      alone[o] = tvmrt_i8_dot(alone[o], tvmrt_i8_quad_load(last, is_signed), w);
      if (!is_quad)
        alone[o] = tvmrt_i8_dot(alone[o], tvmrt_i8_quad_load(last + 4, is_signed), next);
    }
  }
}

/*! \brief Accumulate a tile of two or more pixels like tvmrt_tile_i8_add(); nr, mr, is_signed and
 * is_shared are literals. */
TVMRT_INLINE void tvmrt_i8mm_tile(int nr, int mr, int is_signed, int is_shared,
                                  const tvmrt_tile_i8_args* a, int64_t offset,
                                  tvmrt_i8_acc out[TVMRT_TILE_I8_MAX_MR][TVMRT_TILE_I8_MAX_NR]) {
  tvmrt_i8mm_acc acc[TVMRT_TILE_I8_MAX_MR / 2][TVMRT_TILE_I8_MAX_NR];
  tvmrt_i8_acc* alone = out[mr - 1];
  const int8_t* weights = a->weights;
  const int64_t step = a->x_step, w_step = is_shared ? a->w_step : nr * TVMRT_I8_QUAD_BYTES;
  const uint8_t* x[(TVMRT_TILE_I8_MAX_MR + 2) / 3];
  TVMRT_UNROLL_ALL for (int o = 0; o < nr; o++) {
    const int32x4_t bias = out[0][o];
    TVMRT_UNROLL_ALL for (int t = 0; t < mr / 2; t++) {
      acc[t][o].first = vcombine_s32(vget_low_s32(bias), vget_low_s32(bias));
      acc[t][o].second = vcombine_s32(vget_high_s32(bias), vget_high_s32(bias));
    }
  }
  for (int32_t s = 0; s < a->segments; s++) {
    int32_t k = 0;
    TVMRT_UNROLL_ALL for (int t = 0; t < mr; t += 3) x[t / 3] = a->segment[s] + offset + t * step;
    for (; k + 8 <= a->run; k += 8, weights += 2 * w_step) {
      tvmrt_i8mm_step(nr, mr, is_signed, 0, x, k, step, weights, w_step, acc, alone);
    }
    for (; k < a->run; k += 4, weights += w_step) {
      const int32_t at = k + 4 <= a->run ? k : a->run - 4;
      tvmrt_i8mm_step(nr, mr, is_signed, 1, x, at, step, weights, w_step, acc, alone);
    }
  }
  for (int32_t e = 0; e < a->num_overflow_quads; e++, weights += w_step) {
    const uint8_t* start =
        a->segment[a->overflow_quads[2 * e]] + a->overflow_quads[2 * e + 1] + offset;
    TVMRT_UNROLL_ALL for (int t = 0; t < mr; t += 3) x[t / 3] = start + t * step;
    tvmrt_i8mm_step(nr, mr, is_signed, 1, x, 0, step, weights, w_step, acc, alone);
  }
  TVMRT_UNROLL_ALL for (int o = 0; o < nr; o++) {
    TVMRT_UNROLL_ALL for (int t = 0; t < mr / 2; t++) {
      const tvmrt_i8mm_acc both = acc[t][o];
      out[2 * t][o] = vcombine_s32(vget_low_s32(both.first), vget_low_s32(both.second));
      out[2 * t + 1][o] = vcombine_s32(vget_high_s32(both.first), vget_high_s32(both.second));
    }
  }
}

#undef TVMRT_I8MM_X

#endif /* required definitions */
#endif /* TVM_RUNTIME_KERNELS_TILE_GEMM_I8_I8MM_H_ */
