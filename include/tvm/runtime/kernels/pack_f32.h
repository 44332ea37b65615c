/*!
 * \file pack_f32.h
 * \brief Packing of float32 convolution weights at run time, in the order that register tiles read;
 * see pack_once.h.
 *
 * The order is that of conv_f32.h, [group][block][tap][input][channel of the block]. Worked
 * example: 3x3, 64 channels in, 40 out, blocks of 32: two blocks of 9 * 64 * 32 floats, the last 24
 * channels of the second one zeros.
 */
#ifndef TVM_RUNTIME_KERNELS_PACK_F32_H_
#define TVM_RUNTIME_KERNELS_PACK_F32_H_

#include <stdint.h>

#include "pack_once.h"

/*! \brief Layout of weights: the elements of a window are contiguous, strides count floats. */
typedef struct tvmrt_pack_f32 {
  int groups;
  int channels; /*!< output channels of a group */
  int inputs;   /*!< input channels of each */
  int taps;     /*!< elements of the window */
  int block;    /*!< channels of a block of packed weights */
  int64_t group_stride;
  int64_t channel_stride;
  int64_t input_stride;
} tvmrt_pack_f32;

/*! \brief Pack one block of a group's channels from `first` on; return its end. */
static inline float* tvmrt_pack_block_f32(const tvmrt_pack_f32* p, const float* w, int first,
                                          float* packed) {
  for (int tap = 0; tap < p->taps; ++tap) {
    for (int input = 0; input < p->inputs; ++input) {
      const float* from = w + input * p->input_stride + tap;
      for (int channel = first; channel < first + p->block; ++channel) {
        *packed++ = channel < p->channels ? from[channel * p->channel_stride] : 0.0f;
      }
    }
  }
  return packed;
}

/*! \brief Pack all groups; channels of each are rounded up to whole blocks. */
static inline void tvmrt_pack_weights_f32(const tvmrt_pack_f32* p, const float* w, float* packed) {
  for (int group = 0; group < p->groups; ++group) {
    for (int first = 0; first < p->channels; first += p->block) {
      packed = tvmrt_pack_block_f32(p, w + group * p->group_stride, first, packed);
    }
  }
}

/*! \brief Return the weights, packed by the first run; see tvmrt_pack_begin(). */
static inline const float* tvmrt_pack_once_f32(const tvmrt_pack_f32* p, const float* w,
                                               const tvmrt_packed_weights* packed_weights,
                                               float* own) {
  int packs;
  float* const place = (float*)tvmrt_pack_begin(packed_weights, own, &packs);
  if (packs) {
    tvmrt_pack_weights_f32(p, w, place);
    tvmrt_pack_end(packed_weights, place);
  }
  return place;
}

#endif /* TVM_RUNTIME_KERNELS_PACK_F32_H_ */
