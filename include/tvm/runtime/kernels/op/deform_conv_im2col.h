/*!
 * \file deform_conv_im2col.h
 * \brief im2col of a deformable convolution, which is then a 1x1 convolution.
 *
 * All memory is channels-last. A pixel of the result holds [groups][taps][channels / groups]; its
 * product with weights in that order is the convolution.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_DEFORM_CONV_IM2COL_H_
#define TVM_RUNTIME_KERNELS_OP_DEFORM_CONV_IM2COL_H_

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "../scalar/compiler.h"

/*! \brief Sizes of a layer; pairs are {rows, columns}, pixel strides are in floats. */
typedef struct tvmrt_deform_f32_layer {
  int32_t channels;
  int32_t groups;
  /*! \brief Number of channel groups with separate offsets. */
  int32_t parts;
  int32_t in[2];
  int32_t out[2];
  int32_t kernel[2];
  int32_t stride[2];
  int32_t dilation[2];
  int32_t pad[2];
  int32_t x_stride;
  int32_t offset_stride;
  int32_t mask_stride;
  int32_t y_stride;
} tvmrt_deform_f32_layer;

/* Sample channels [c, c_end) at a coordinate of one image, times factor; zeros outside. */
static inline void tvmrt_deform_sample_f32(const tvmrt_deform_f32_layer* layer, const float* image,
                                           float h, float w, float factor, int c, int c_end,
                                           int taps, int tap, float* y) {
  const int depth = layer->channels / layer->groups;
  const int inside = h > -1.0f && w > -1.0f && h < (float)layer->in[0] && w < (float)layer->in[1];
  const int row = inside ? (int)floorf(h) : 0, column = inside ? (int)floorf(w) : 0;
  const float dh = h - (float)row, dw = w - (float)column;
  for (int g = c / depth; g * depth < c_end; g++) {
    const int first = c > g * depth ? c : g * depth;
    const int last = c_end < (g + 1) * depth ? c_end : (g + 1) * depth;
    float* TVMRT_RESTRICT out = y + (int64_t)(g * taps + tap) * depth - g * depth;
    for (int i = first; i < last; i++) out[i] = 0.0f;
    for (int corner = 0; corner < 4 && inside; corner++) {
      const int at_h = row + corner / 2, at_w = column + corner % 2;
      if (at_h < 0 || at_w < 0 || at_h >= layer->in[0] || at_w >= layer->in[1]) continue;
      const float weight = factor * (corner / 2 ? dh : 1.0f - dh) * (corner % 2 ? dw : 1.0f - dw);
      const float* in = image + ((int64_t)at_h * layer->in[1] + at_w) * layer->x_stride;
      for (int i = first; i < last; i++) out[i] += weight * in[i];
    }
  }
}

/*!
 * \brief Compute pixels [begin, end) of the result, counted over the whole batch.
 * \param layer Sizes.
 * \param x Input, [batch][in][x_stride].
 * \param offset [batch][out][offset_stride]: for each part and tap, rows then columns.
 * \param mask [batch][out][mask_stride]: a factor for each part and tap, or NULL for ones.
 * \param y Result, [batch][out][y_stride]; must not overlap x.
 * \return 0.
 */
static inline int tvmrt_deform_im2col_f32(const tvmrt_deform_f32_layer* layer, const float* x,
                                          const float* offset, const float* mask, float* y,
                                          int64_t begin, int64_t end) {
  const int taps = layer->kernel[0] * layer->kernel[1], width = layer->channels / layer->parts;
  const int64_t pixels = (int64_t)layer->out[0] * layer->out[1];
  const int64_t image = (int64_t)layer->in[0] * layer->in[1] * layer->x_stride;
  for (int64_t p = begin; p < end; p++) {
    const int row = (int)(p % pixels / layer->out[1]), column = (int)(p % layer->out[1]);
    for (int part = 0; part < layer->parts; part++) {
      for (int tap = 0; tap < taps; tap++) {
        const int entry = part * taps + tap;
        const float* away = offset + p * layer->offset_stride + 2 * entry;
        const int h =
            row * layer->stride[0] - layer->pad[0] + tap / layer->kernel[1] * layer->dilation[0];
        const int w =
            column * layer->stride[1] - layer->pad[1] + tap % layer->kernel[1] * layer->dilation[1];
        tvmrt_deform_sample_f32(layer, x + p / pixels * image, (float)h + away[0],
                                (float)w + away[1], mask ? mask[p * layer->mask_stride + entry] : 1,
                                part * width, (part + 1) * width, taps, tap,
                                y + p * layer->y_stride);
      }
    }
  }
  return 0;
}

#endif /* TVM_RUNTIME_KERNELS_OP_DEFORM_CONV_IM2COL_H_ */
