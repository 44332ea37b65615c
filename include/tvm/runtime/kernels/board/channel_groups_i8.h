/*!
 * \file board/channel_groups_i8.h
 * \brief Integer layers whose kernel computes some channels per call: convolutions in groups, and
 * depthwise ones with several output channels per input channel (a depth multiplier).
 *
 * Each call is a layer of its own: it reads the input channels of a group and writes its output
 * channels, with the pixel strides of the whole tensors. Two kinds of groups are copied first:
 * those with a multiplier, where each input channel is copied for each of its outputs, and those
 * whose windows have several columns, with their padding. The columns are then read together.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_CHANNEL_GROUPS_I8_H_
#define TVM_RUNTIME_KERNELS_BOARD_CHANNEL_GROUPS_I8_H_

#include "common_i8.h"

/*! \brief Groups of a layer; the constants of each are packed like those of a layer. */
typedef struct tvmrt_micro_groups {
  int32_t weights;     /*!< Bytes of the packed weights of a group. */
  int32_t bias;        /*!< Elements of its biases. */
  int32_t multipliers; /*!< Elements of its multipliers. */
  int32_t shift;       /*!< Elements of its weight shifts. */
  int32_t x_stride;    /*!< Pixel stride of the input. */
  int32_t bytes;       /*!< Bytes of the copy if it has padding, else 0. */
  int16_t images;      /*!< Images that are copied; 0: the input is read in place. */
  int16_t in[2];       /*!< Rows and columns of the input. */
  int16_t first[2];    /*!< Row and column of the first one in the copy. */
  int16_t in_c;        /*!< Bytes of the input channels of a group. */
  int16_t copies;      /*!< Copies of each of them. */
} tvmrt_micro_groups;

/*! \brief One group: its tensors and, if it has an epilogue, its layer. */
typedef struct tvmrt_micro_group {
  tvmrt_micro_data data;
#ifdef TVMRT_MICRO_CHANNEL_GROUPS
  tvmrt_micro_conv_i8 layer;
#endif
} tvmrt_micro_group;

/*! \brief Copy some channels of a row of pixels, each of them several times. */
TVMRT_INLINE void tvmrt_micro_copy_channels(uint8_t* to, const uint8_t* x,
                                            const tvmrt_micro_conv_i8* c,
                                            const tvmrt_micro_groups* g) {
  const int32_t size = TVMRT_MICRO_BYTES(c), copies = g->copies, channels = g->in_c;
  for (int32_t pixel = g->in[1]; pixel > 0; pixel--, x += g->x_stride) {
    if (copies == 1) {
      tvmrt_micro_copy(to, x, channels);
      to += channels;
      continue;
    }
    for (int32_t i = 0; i < channels; i += size) {
      const uint8_t value = x[i], upper = x[i + size - 1];
      for (int32_t left = copies; left > 0; left--) {
        *to++ = value;
        if (size == 2) *to++ = upper;
        TVMRT_OPAQUE(to); /* or it becomes a call of memset() */
      }
    }
  }
}

/*! \brief Copy the input of a group with its padding. */
TVMRT_NOINLINE void tvmrt_micro_copy_group(uint8_t* copy, const uint8_t* x,
                                           const tvmrt_micro_conv_i8* c,
                                           const tvmrt_micro_groups* g) {
  const uint32_t padding = (uint8_t)c->x_zero * 0x01010101u;
  for (int32_t at = 0; at < g->bytes; at += 4) {
    memcpy(TVMRT_ALIGNED(copy + at, 4), &padding, 4);
    TVMRT_OPAQUE(at);
  }
  for (int32_t image = 0; image < g->images; image++) {
    for (int32_t row = 0; row < g->in[0]; row++, x += g->in[1] * g->x_stride) {
      const int32_t h = image * c->shape.in[0] + g->first[0] + row;
      uint8_t* const to = copy + (h * c->shape.in[1] + g->first[1]) * c->shape.x_stride;
      tvmrt_micro_copy_channels(to, x, c, g);
    }
  }
}

/*!
 * \brief Find the tensors of a group, and copy its input if necessary.
 *
 * \param to    [out] The group.
 * \param c     [in] Layer of any group.
 * \param whole [in] Tensors of the layer.
 * \param index [in] Number of the group.
 * \param copy  [out] Memory for the copy: the input of the group's layer, in whole words.
 */
TVMRT_NOINLINE void tvmrt_micro_select_group(tvmrt_micro_group* to, const tvmrt_micro_conv_i8* c,
                                             const tvmrt_micro_groups* g,
                                             const tvmrt_micro_data* whole, int32_t index,
                                             uint8_t* copy) {
  tvmrt_micro_data* const data = &to->data;
  const int32_t channel = index * c->shape.out_c;
  const uint8_t* const x = (const uint8_t*)whole->x + index * g->in_c;
  data->x = x;
  data->weights = (const uint8_t*)whole->weights + index * g->weights;
  data->bias = whole->bias == NULL ? NULL : whole->bias + index * g->bias;
  data->multipliers = NULL;
  if (whole->multipliers != NULL) {
    data->multipliers = (const int32_t*)whole->multipliers + index * g->multipliers;
  }
  data->shift = whole->shift == NULL ? NULL : whole->shift + index * g->shift;
  data->y = (uint8_t*)whole->y + channel * c->y_bytes;
  data->epilogue = whole->epilogue;
  data->ctx = whole->ctx;
#ifdef TVMRT_MICRO_CHANNEL_GROUPS
  to->layer = *c;
  to->layer.channel = channel;
#endif
  if (g->images > 0) {
    tvmrt_micro_copy_group(copy, x, c, g);
    data->x = copy;
  }
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_CHANNEL_GROUPS_I8_H_ */
