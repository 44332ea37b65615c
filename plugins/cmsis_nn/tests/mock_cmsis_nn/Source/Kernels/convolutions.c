/* Convolutions, depthwise ones and fully connected layers. */
#include "mock.h"

int32_t arm_convolve_wrapper_s8_get_buffer_size(const cmsis_nn_conv_params* conv_params,
                                                const cmsis_nn_dims* input_dims,
                                                const cmsis_nn_dims* filter_dims,
                                                const cmsis_nn_dims* output_dims) {
  const int32_t window = filter_dims->h * filter_dims->w * input_dims->c;
  const int32_t unit = HELIUM ? 16 : 4;
  (void)conv_params;
  (void)output_dims;
  return 4 * ((window + unit - 1) / unit * unit) + MOCK_EXTRA_SCRATCH;
}

/* Coordinates along one axis: the input element for window element k of result y, or outside. */
static int32_t place(int32_t y, int32_t k, int32_t stride, int32_t dilation, int32_t padding) {
  return y * stride + k * dilation - padding;
}

arm_cmsis_nn_status arm_convolve_wrapper_s8(
    const cmsis_nn_context* ctx, const cmsis_nn_conv_params* conv_params,
    const cmsis_nn_per_channel_quant_params* quant_params, const cmsis_nn_dims* input_dims,
    const int8_t* input_data, const cmsis_nn_dims* filter_dims, const int8_t* filter_data,
    const cmsis_nn_dims* bias_dims, const int32_t* bias_data, const cmsis_nn_dims* output_dims,
    int8_t* output_data) {
  const cmsis_nn_conv_params* p = conv_params;
  const cmsis_nn_dims *in = input_dims, *k = filter_dims, *out = output_dims;
  if (k->n != out->c || k->c != in->c || bias_dims->c != out->c) return ARM_CMSIS_NN_ARG_ERROR;
  if (lacks_scratch(ctx, arm_convolve_wrapper_s8_get_buffer_size(p, in, k, out))) {
    return ARM_CMSIS_NN_ARG_ERROR;
  }
  for (int32_t i = 0; i < out->n * out->h * out->w * out->c; ++i) {
    const int32_t channel = i % out->c, x = i / out->c % out->w, y = i / out->c / out->w % out->h;
    const int8_t* image = input_data + i / out->c / out->w / out->h * in->h * in->w * in->c;
    int32_t sum = bias_data[channel];
    for (int32_t j = 0; j < k->h * k->w; ++j) {
      const int32_t row = place(y, j / k->w, p->stride.h, p->dilation.h, p->padding.h);
      const int32_t column = place(x, j % k->w, p->stride.w, p->dilation.w, p->padding.w);
      if (row < 0 || row >= in->h || column < 0 || column >= in->w) continue;
      const int8_t* a = image + (row * in->w + column) * in->c;
      const int8_t* b = filter_data + (channel * k->h * k->w + j) * in->c;
      for (int32_t c = 0; c < in->c; ++c) sum += (a[c] + p->input_offset) * b[c];
    }
    sum = requantise(sum, quant_params->multiplier[channel], quant_params->shift[channel]);
    output_data[i] = bounded(sum + p->output_offset, p->activation.min, p->activation.max);
  }
  return ARM_CMSIS_NN_SUCCESS;
}

int32_t arm_depthwise_conv_wrapper_s8_get_buffer_size(const cmsis_nn_dw_conv_params* dw_conv_params,
                                                      const cmsis_nn_dims* input_dims,
                                                      const cmsis_nn_dims* filter_dims,
                                                      const cmsis_nn_dims* output_dims) {
  const cmsis_nn_dw_conv_params* p = dw_conv_params;
  const int32_t kernel = filter_dims->h * filter_dims->w;
  if (input_dims->c != output_dims->c || p->dilation.h != 1 || p->dilation.w != 1) return 0;
  if (HELIUM) return 4 * 124 * kernel;
  if (filter_dims->h == 3 && filter_dims->w == 3 && p->padding.h <= 1 && p->padding.w <= 1) {
    return 0;
  }
  return DSP ? 2 * input_dims->c * kernel : 0;
}

arm_cmsis_nn_status arm_depthwise_conv_wrapper_s8(
    const cmsis_nn_context* ctx, const cmsis_nn_dw_conv_params* dw_conv_params,
    const cmsis_nn_per_channel_quant_params* quant_params, const cmsis_nn_dims* input_dims,
    const int8_t* input_data, const cmsis_nn_dims* filter_dims, const int8_t* filter_data,
    const cmsis_nn_dims* bias_dims, const int32_t* bias_data, const cmsis_nn_dims* output_dims,
    int8_t* output_data) {
  const cmsis_nn_dw_conv_params* p = dw_conv_params;
  const cmsis_nn_dims *in = input_dims, *k = filter_dims, *out = output_dims;
  if (in->n != 1 || k->n != 1 || k->c != out->c || bias_dims->c != out->c ||
      in->c * p->ch_mult != out->c) {
    return ARM_CMSIS_NN_ARG_ERROR;
  }
  if (lacks_scratch(ctx, arm_depthwise_conv_wrapper_s8_get_buffer_size(p, in, k, out))) {
    return ARM_CMSIS_NN_ARG_ERROR;
  }
  for (int32_t i = 0; i < out->h * out->w * out->c; ++i) {
    const int32_t channel = i % out->c, x = i / out->c % out->w, y = i / out->c / out->w;
    int32_t sum = bias_data[channel];
    for (int32_t j = 0; j < k->h * k->w; ++j) {
      const int32_t row = place(y, j / k->w, p->stride.h, p->dilation.h, p->padding.h);
      const int32_t column = place(x, j % k->w, p->stride.w, p->dilation.w, p->padding.w);
      if (row < 0 || row >= in->h || column < 0 || column >= in->w) continue;
      const int32_t a = input_data[(row * in->w + column) * in->c + channel / p->ch_mult];
      sum += (a + p->input_offset) * filter_data[j * out->c + channel];
    }
    sum = requantise(sum, quant_params->multiplier[channel], quant_params->shift[channel]);
    output_data[i] = bounded(sum + p->output_offset, p->activation.min, p->activation.max);
  }
  return ARM_CMSIS_NN_SUCCESS;
}

int32_t arm_fully_connected_s8_get_buffer_size(const cmsis_nn_dims* filter_dims) {
  return HELIUM ? filter_dims->c * (int32_t)sizeof(int32_t) : 0;
}

arm_cmsis_nn_status arm_fully_connected_s8(
    const cmsis_nn_context* ctx, const cmsis_nn_fc_params* fc_params,
    const cmsis_nn_per_tensor_quant_params* quant_params, const cmsis_nn_dims* input_dims,
    const int8_t* input_data, const cmsis_nn_dims* filter_dims, const int8_t* filter_data,
    const cmsis_nn_dims* bias_dims, const int32_t* bias_data, const cmsis_nn_dims* output_dims,
    int8_t* output_data) {
  const cmsis_nn_fc_params* p = fc_params;
  const int32_t terms = filter_dims->n, results = output_dims->c;
  const int32_t found = input_dims->h * input_dims->w * input_dims->c;
  if (HELIUM || found != terms || filter_dims->c != results || bias_dims->c != results ||
      p->filter_offset != 0) {
    return ARM_CMSIS_NN_ARG_ERROR;
  }
  (void)ctx;
  for (int32_t i = 0; i < input_dims->n * results; ++i) {
    const int8_t *a = input_data + i / results * terms, *b = filter_data + i % results * terms;
    int32_t sum = bias_data[i % results];
    for (int32_t j = 0; j < terms; ++j) sum += (a[j] + p->input_offset) * b[j];
    sum = requantise(sum, quant_params->multiplier, quant_params->shift) + p->output_offset;
    output_data[i] = bounded(sum, p->activation.min, p->activation.max);
  }
  return ARM_CMSIS_NN_SUCCESS;
}
