#ifndef TOY_ROWS_F32_H_
#define TOY_ROWS_F32_H_

#ifndef TOYCORE
#error "this kernel is for toycore"
#endif

#include <tvm/runtime/kernels/board/layer_f32.h>

/* y[p][o] = bias[o] + sum of x[p][i] * w[i][o], clamped. The output may not overwrite the input: a
 * pixel is written before all of its channels are read for the last time. */
static inline int toy_rows_f32_run(const tvmrt_micro_conv_f32* c, const tvmrt_micro_data_f32* d) {
  const int32_t n = c->shape.in_c, m = c->shape.out_c;
  for (int32_t p = 0; p < c->shape.layout.windows.pixels; p++) {
    for (int32_t o = 0; o < m; o++) {
      float sum = d->bias[o];
      for (int32_t i = 0; i < n; i++) {
        sum += d->x[p * c->shape.x_stride + i] * d->weights[i * m + o];
      }
      d->y[p * c->shape.y_stride + o] = sum < c->lo ? c->lo : sum > c->hi ? c->hi : sum;
    }
  }
  return 0;
}

#endif /* TOY_ROWS_F32_H_ */
