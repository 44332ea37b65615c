/* Pools, adds and multiplications of two tensors, softmax. */
#include "mock.h"

int32_t arm_avgpool_s8_get_buffer_size(const int dim_dst_width, const int ch_src) {
  (void)dim_dst_width;
  return DSP ? ch_src * (int32_t)sizeof(int32_t) : 0;
}

/* Elements of a window inside the input: count, sum and maximum. */
struct window {
  int32_t count, sum, largest;
};

static struct window look(const cmsis_nn_pool_params* p, const cmsis_nn_dims* in,
                          const int8_t* data, const cmsis_nn_dims* kernel, int32_t y, int32_t x,
                          int32_t channel) {
  struct window found = {0, 0, -128};
  for (int32_t j = 0; j < kernel->h * kernel->w; ++j) {
    const int32_t row = y * p->stride.h + j / kernel->w - p->padding.h;
    const int32_t column = x * p->stride.w + j % kernel->w - p->padding.w;
    if (row < 0 || row >= in->h || column < 0 || column >= in->w) continue;
    const int32_t value = data[(row * in->w + column) * in->c + channel];
    found.count += 1;
    found.sum += value;
    if (value > found.largest) found.largest = value;
  }
  return found;
}

arm_cmsis_nn_status arm_avgpool_s8(const cmsis_nn_context* ctx,
                                   const cmsis_nn_pool_params* pool_params,
                                   const cmsis_nn_dims* input_dims, const int8_t* input_data,
                                   const cmsis_nn_dims* filter_dims,
                                   const cmsis_nn_dims* output_dims, int8_t* output_data) {
  const cmsis_nn_activation* kept = &pool_params->activation;
  const cmsis_nn_dims* out = output_dims;
  const int32_t size = arm_avgpool_s8_get_buffer_size(out->w, input_dims->c);
  if (input_dims->n != 1 || lacks_scratch(ctx, size)) return ARM_CMSIS_NN_ARG_ERROR;
  for (int32_t i = 0; i < out->h * out->w * out->c; ++i) {
    const int32_t y = i / out->c / out->w, x = i / out->c % out->w;
    const struct window found =
        look(pool_params, input_dims, input_data, filter_dims, y, x, i % out->c);
    if (found.count == 0) return ARM_CMSIS_NN_ARG_ERROR;
    const int32_t half = found.sum > 0 ? found.count / 2 : -(found.count / 2);
    output_data[i] = bounded((found.sum + half) / found.count, kept->min, kept->max);
  }
  return ARM_CMSIS_NN_SUCCESS;
}

arm_cmsis_nn_status arm_max_pool_s8(const cmsis_nn_context* ctx,
                                    const cmsis_nn_pool_params* pool_params,
                                    const cmsis_nn_dims* input_dims, const int8_t* input_data,
                                    const cmsis_nn_dims* filter_dims,
                                    const cmsis_nn_dims* output_dims, int8_t* output_data) {
  const cmsis_nn_activation* kept = &pool_params->activation;
  const cmsis_nn_dims* out = output_dims;
  (void)ctx;
  if (input_dims->n != 1) return ARM_CMSIS_NN_ARG_ERROR;
  for (int32_t i = 0; i < out->h * out->w * out->c; ++i) {
    const int32_t y = i / out->c / out->w, x = i / out->c % out->w;
    const struct window found =
        look(pool_params, input_dims, input_data, filter_dims, y, x, i % out->c);
    output_data[i] = bounded(found.largest, kept->min, kept->max);
  }
  return ARM_CMSIS_NN_SUCCESS;
}

arm_cmsis_nn_status arm_elementwise_add_s8(
    const int8_t* input_1_vect, const int8_t* input_2_vect, const int32_t input_1_offset,
    const int32_t input_1_mult, const int32_t input_1_shift, const int32_t input_2_offset,
    const int32_t input_2_mult, const int32_t input_2_shift, const int32_t left_shift,
    int8_t* output, const int32_t out_offset, const int32_t out_mult, const int32_t out_shift,
    const int32_t out_activation_min, const int32_t out_activation_max, const int32_t block_size) {
  const int32_t raised = (int32_t)(UINT32_C(1) << left_shift);
  for (int32_t i = 0; i < block_size; ++i) {
    const int32_t a = (input_1_vect[i] + input_1_offset) * raised;
    const int32_t b = (input_2_vect[i] + input_2_offset) * raised;
    const int32_t sum =
        requantise(a, input_1_mult, input_1_shift) + requantise(b, input_2_mult, input_2_shift);
    output[i] = bounded(requantise(sum, out_mult, out_shift) + out_offset, out_activation_min,
                        out_activation_max);
  }
  return ARM_CMSIS_NN_SUCCESS;
}

arm_cmsis_nn_status arm_elementwise_mul_s8(
    const int8_t* input_1_vect, const int8_t* input_2_vect, const int32_t input_1_offset,
    const int32_t input_2_offset, int8_t* output, const int32_t out_offset, const int32_t out_mult,
    const int32_t out_shift, const int32_t out_activation_min, const int32_t out_activation_max,
    const int32_t block_size) {
  for (int32_t i = 0; i < block_size; ++i) {
    const int32_t product = (input_1_vect[i] + input_1_offset) * (input_2_vect[i] + input_2_offset);
    output[i] = bounded(requantise(product, out_mult, out_shift) + out_offset, out_activation_min,
                        out_activation_max);
  }
  return ARM_CMSIS_NN_SUCCESS;
}

/* exp of a number from -1/4 up to 0, with 31 bits of fraction. */
static int32_t small_power(int32_t a) {
  const int32_t exp_of_eighth = 1895147668, third = 715827883;
  const int32_t x = a + (INT32_C(1) << 28);
  const int32_t square = high_product(x, x), cube = high_product(square, x);
  const int32_t fourth = high_product(square, square);
  const int32_t rest = halved(high_product(halved(fourth, 2) + cube, third) + square, 1);
  return exp_of_eighth + high_product(exp_of_eighth, x + rest);
}

/* exp of a number up to 0, with 26 bits of fraction; the result has 31. */
static int32_t power(int32_t a) {
  /* exp(-2 ** n) for n from -2 on */
  static const int32_t steps[] = {1672461947, 1302514674, 790015084, 290630308,
                                  39332535,   720401,     242};
  const int32_t quarter = INT32_C(1) << 24;
  const int32_t near = (a & (quarter - 1)) - quarter;
  const int32_t away = near - a;
  int32_t result;
  if (a == 0) return INT32_MAX;
  result = small_power(near * 32);
  for (int32_t n = 0; n < 7; ++n) {
    if (away & (INT32_C(1) << (24 + n))) result = high_product(result, steps[n]);
  }
  return result;
}

/* 1 / (1 + a) for a from 0 to 1, by Newton's method; values have 31 fractional bits. */
static int32_t inverse(int32_t a) {
  const int32_t half = (int32_t)(((int64_t)a + (INT64_C(1) << 31)) >> 1);
  int32_t x = 1515870810 + high_product(half, -1010580540);
  for (int32_t i = 0; i < 3; ++i) {
    const int32_t error = (INT32_C(1) << 29) - high_product(half, x);
    x += high_product(x, error) * 4;
  }
  return x > INT32_MAX / 2 ? INT32_MAX : x * 2;
}

static int32_t leading_zeros(uint32_t x) {
  int32_t count = 0;
  while (count < 32 && !(x >> 31)) {
    x <<= 1;
    ++count;
  }
  return count;
}

static int32_t power_of(int32_t difference, int32_t mult, int32_t shift) {
  return power(high_product(difference * (int32_t)(UINT32_C(1) << shift), mult));
}

void arm_softmax_s8(const int8_t* input, const int32_t num_rows, const int32_t row_size,
                    const int32_t mult, const int32_t shift, const int32_t diff_min,
                    int8_t* output) {
  for (int32_t row = 0; row < num_rows; ++row, input += row_size, output += row_size) {
    int32_t largest = input[0], sum = 0;
    for (int32_t i = 1; i < row_size; ++i) largest = input[i] > largest ? input[i] : largest;
    for (int32_t i = 0; i < row_size; ++i) {
      if (input[i] - largest < diff_min) continue;
      sum += halved(power_of(input[i] - largest, mult, shift), 12);
    }
    const int32_t zeros = leading_zeros((uint32_t)sum);
    const int32_t scale = inverse((int32_t)((((uint32_t)sum) << zeros) & INT32_MAX));
    for (int32_t i = 0; i < row_size; ++i) {
      output[i] = -128;
      if (input[i] - largest < diff_min) continue;
      const int32_t part = high_product(scale, power_of(input[i] - largest, mult, shift));
      output[i] = bounded(halved(part, 12 - zeros + 23) - 128, -128, 127);
    }
  }
}
