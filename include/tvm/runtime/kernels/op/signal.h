/*!
 * \file signal.h
 * \brief Audio front end from spectra to features, bit-identical to the signal library of
 * TensorFlow Lite Micro. Integer arithmetic only.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_SIGNAL_H_
#define TVM_RUNTIME_KERNELS_OP_SIGNAL_H_

#include <stdint.h>

#include "../scalar/signal.h"

/*!
 * \brief Scale samples up so that the largest uses all bits, which keeps a transform exact.
 *
 * The library compares in 16 bits: after -32768, whose negative does not fit, its search for the
 * largest sample restarts below all samples.
 *
 * \param x [in] count samples; may be y.
 * \return the number of bits that all were shifted left.
 */
static inline int32_t tvmrt_signal_auto_scale(const int16_t* x, int16_t* y, int64_t count) {
  int32_t max_magnitude = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t v = x[i];
    if (v > max_magnitude) {
      max_magnitude = v;
    } else if (-v > max_magnitude) {
      max_magnitude = v == -32768 ? -32768 : -v;
    }
  }
  const int32_t headroom = 15 - tvmrt_signal_bits((uint32_t)max_magnitude),
                bits = headroom > 0 ? headroom : 0;
  for (int64_t i = 0; i < count; ++i) y[i] = (int16_t)((uint32_t)x[i] << bits);
  return bits;
}

/*! \brief A filter bank: two weights per frequency, one for a channel and one for the next. */
typedef struct tvmrt_signal_bank {
  const int16_t* weights;
  const int16_t* unweights; /* contribution of the same frequency to the next channel */
  const int16_t* first;     /* first frequency of each channel */
  const int16_t* first_weight;
  const int16_t* widths;
  int32_t channels;
} tvmrt_signal_bank;

/*!
 * \brief Weighted sums of energies; sums wrap around at 64 bits.
 *
 * \param x [in] energies of the frequencies.
 * \param y [out] channels sums; the bank has an additional first channel; only its weights
 * for the next one count.
 */
static inline void tvmrt_signal_filter_bank(const tvmrt_signal_bank* bank, const uint32_t* x,
                                            uint64_t* y) {
  uint64_t next = 0;
  for (int32_t c = 0; c <= bank->channels; ++c) {
    const uint32_t* const in = x + bank->first[c];
    const int16_t* const w = bank->weights + bank->first_weight[c];
    const int16_t* const u = bank->unweights + bank->first_weight[c];
    uint64_t sum = next;
    next = 0;
    for (int32_t i = 0; i < bank->widths[c]; ++i) {
      sum += (uint64_t)w[i] * in[i];
      next += (uint64_t)u[i] * in[i];
    }
    if (c > 0) y[c - 1] = sum;
  }
}

/*!
 * \brief Evaluate a function of integers of any magnitude: quadratics over intervals that double.
 *
 * \param table [in] the values at 0, 1 and 2, then from index 6 on four entries per interval, three
 * of them its polynomial; 125 entries.
 */
static inline int32_t tvmrt_signal_wide_function(uint32_t x, const int16_t* table) {
  if (x <= 2) return table[x];
  const int32_t interval = tvmrt_signal_bits(x);
  const int16_t* const at = table + 4 * interval - 6;
  const uint32_t fraction = (interval < 11 ? x << (11 - interval) : x >> (interval - 11)) & 0x3FF;
  const int32_t slope_step = (at[2] * (int32_t)fraction) >> 5;
  const uint32_t slope = (uint32_t)slope_step + ((uint32_t)at[1] << 5);
  const int32_t rise = (int32_t)(slope * fraction + (1 << 14)) >> 15;
  return (int16_t)(rise + at[0]);
}

/*!
 * \brief Automatic gain control by an estimate of the noise; quiet signals become quieter.
 *
 * \param shift from x times the gain to 12 fractional bits, 0 to 63.
 * \param y [out] count values with 6 fractional bits; may be x.
 */
static inline void tvmrt_signal_gain(const uint32_t* x, const uint32_t* noise, const int16_t* table,
                                     uint32_t* y, int64_t count, int shift) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t gain = (uint32_t)tvmrt_signal_wide_function(noise[i], table);
    const uint32_t ratio = (uint32_t)(((uint64_t)x[i] * gain) >> shift);
    y[i] = ratio < (2u << 12) ? (ratio * ratio) >> 20 : (ratio >> 6) - (1u << 6);
  }
}

#endif /* TVM_RUNTIME_KERNELS_OP_SIGNAL_H_ */
