/*!
 * \file pack_i8.h
 * \brief Packing of int8 weights of dense layers at run time, in the order that register tiles
 * read; see pack_once.h.
 *
 * The order is that of conv_i8.h: [group][block of vectors][quad][vector][lane][4], where a quad
 * has four neighbours along a segment of the window. Worked example: 3x3, 6 channels in, segments
 * of 18 elements, one per row of the window: 5 quads per segment, the last one with two zeros and
 * the last two elements; 15 quads for each output channel.
 */
#ifndef TVM_RUNTIME_KERNELS_PACK_I8_H_
#define TVM_RUNTIME_KERNELS_PACK_I8_H_

#include <stdint.h>

#include "pack_once.h"

/*! \brief Layout of weights: the elements of a window are contiguous, strides count elements. */
typedef struct tvmrt_pack_i8 {
  int groups;
  int channels; /*!< output channels of a group */
  int inputs;   /*!< input channels of each */
  int taps;     /*!< elements of the window */
  int run;      /*!< contiguous elements that the kernel reads, channels innermost */
  int gathered; /*!< 1: zeros pad the last quad of a run at its end, 0: at its beginning */
  int vectors;  /*!< vectors of a group's output channels */
  int lanes;
  int block; /*!< vectors of a block; the last one of a group may have fewer */
  int pairs; /*!< 0: whole quads; elements of all lanes 0-1, then 2-3 (1) or 0, 2, then 1, 3 (2) */
  int wide;  /*!< 1: packed as int16, 0: as int8 */
  int is_signed; /*!< weights are int8, else uint8 */
  int64_t group_stride;
  int64_t channel_stride;
  int64_t input_stride;
} tvmrt_pack_i8;

/*! \brief Element `place` of a channel's window in the order of runs, minus `zero`. */
static inline int tvmrt_pack_element_i8(const tvmrt_pack_i8* p, const uint8_t* w, int place,
                                        int zero) {
  const uint8_t value = w[place % p->inputs * p->input_stride + place / p->inputs];
  return (p->is_signed ? (int8_t)value : (int)value) - zero;
}

/*! \brief Element j of quad `quad` of a channel, 0 outside the run. */
static inline int tvmrt_pack_quad_i8(const tvmrt_pack_i8* p, const uint8_t* w, int quad, int j,
                                     int zero) {
  const int quads = (p->run + 3) / 4, within = quad % quads * 4 + j;
  const int late = !p->gathered && quad % quads == quads - 1 ? quads * 4 - p->run : 0;
  if (within >= p->run + late || (late > 0 && j < late)) return 0;
  return tvmrt_pack_element_i8(p, w, quad / quads * p->run + within - late, zero);
}

/*! \brief Pack one quad of the lanes of a vector; return the number of elements. */
static inline int tvmrt_pack_vector_i8(const tvmrt_pack_i8* p, const uint8_t* w,
                                       const int32_t* zeros, int first, int quad, void* packed) {
  int at = 0;
  for (int half = 0; half < (p->pairs ? 2 : 1); ++half) {
    for (int lane = first; lane < first + p->lanes; ++lane) {
      const uint8_t* from = w + lane * p->channel_stride;
      for (int k = 0; k < (p->pairs ? 2 : 4); ++k, ++at) {
        const int j = p->pairs == 0 ? k : p->pairs == 1 ? 2 * half + k : half + 2 * k;
        const int zero = lane < p->channels ? zeros[lane] : 0;
        const int value = lane < p->channels ? tvmrt_pack_quad_i8(p, from, quad, j, zero) : 0;
        if (p->wide) {
          ((int16_t*)packed)[at] = (int16_t)value;
        } else {
          ((int8_t*)packed)[at] = (int8_t)value;
        }
      }
    }
  }
  return at;
}

/*! \brief Pack all groups; `zeros` has the value to subtract from the weights of each channel. */
static inline void tvmrt_pack_weights_i8(const tvmrt_pack_i8* p, const void* w,
                                         const int32_t* zeros, void* packed) {
  const int quads = p->taps * p->inputs / p->run * ((p->run + 3) / 4);
  char* to = (char*)packed;
  for (int group = 0; group < p->groups; ++group) {
    const uint8_t* from = (const uint8_t*)w + group * p->group_stride;
    const int32_t* of_group = zeros + group * p->channels;
    for (int first = 0; first < p->vectors; first += p->block) {
      const int end = first + p->block < p->vectors ? first + p->block : p->vectors;
      for (int quad = 0; quad < quads; ++quad) {
        for (int v = first; v < end; ++v) {
          to += tvmrt_pack_vector_i8(p, from, of_group, v * p->lanes, quad, to) << p->wide;
        }
      }
    }
  }
}

/*! \brief Return the weights, packed by the first run; see tvmrt_pack_begin(). */
static inline const int8_t* tvmrt_pack_once_i8(const tvmrt_pack_i8* p, const void* w,
                                               const int32_t* zeros,
                                               const tvmrt_packed_weights* packed_weights,
                                               void* own) {
  int packs;
  void* const place = tvmrt_pack_begin(packed_weights, own, &packs);
  if (packs) {
    tvmrt_pack_weights_i8(p, w, zeros, place);
    tvmrt_pack_end(packed_weights, place);
  }
  return (const int8_t*)place;
}

#endif /* TVM_RUNTIME_KERNELS_PACK_I8_H_ */
