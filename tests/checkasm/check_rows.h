/* Kernels without weights: pooling, elementwise int8 operators, softmax, normalisations.
   Included by the generated layers.c after the headers of its kernels. */
#ifndef CHECK_ROWS_H_
#define CHECK_ROWS_H_

#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/kernels/op/eltwise_i8.h>
#include <tvm/runtime/kernels/op/norm.h>
#include <tvm/runtime/kernels/op/softmax.h>
#include <tvm/runtime/kernels/pool.h>
#include <tvm/runtime/kernels/pool_i8.h>
#include <tvm/runtime/kernels/tile/gemm_f32.h>

static ck_buffer ck_floats(int n, float scale) {
  const ck_buffer b = ck_new((size_t)n * 4, 4);
  for (int i = 0; i < n; i++) ((float*)(void*)b.data)[i] = ck_normal() * scale;
  return b;
}

static ck_buffer ck_bytes(int n) {
  const ck_buffer b = ck_new((size_t)n, 1);
  for (int i = 0; i < n; i++) b.data[i] = (uint8_t)ck_random();
  return b;
}

static int ck_value(uint8_t byte, int is_signed) { return is_signed ? (int8_t)byte : byte; }

static tvmrt_i8_range ck_random_range(void) {
  const int is_signed = ck_between(0, 1), least = is_signed ? -128 : 0;
  tvmrt_i8_range r = {ck_between(least, least + 255), least, least + 255, is_signed};
  if (ck_between(0, 3) == 0) r.lo = ck_between(least, least + 100), r.hi = r.lo + 90;
  return r;
}

static int ck_bounded(double steps, const tvmrt_i8_range* r) {
  return (int)(steps < r->lo ? r->lo : steps > r->hi ? r->hi : steps);
}

/* Guards of two tensors; frees them. */
static void ck_end(ck_buffer* x, ck_buffer* y) {
  if (!ck_guards_intact(x) || !ck_guards_intact(y)) ck_fail("bytes around a tensor were written");
  ck_free(x), ck_free(y);
}

/* ---- pairs of bytes, tables ---- */

static void ck_check_pair(int is_product) {
  const int n = ck_between(1, 5) == 1 ? ck_between(1, 1000) : ck_between(1, 70);
  ck_buffer a = ck_bytes(n), b = ck_bytes(n), y = ck_new((size_t)n, 1);
  const tvmrt_i8_range range = ck_random_range();
  const int signs[2] = {ck_between(0, 1), ck_between(0, 1)};
  const int zeros[2] = {ck_between(signs[0] ? -128 : 0, 127), ck_between(signs[1] ? -128 : 0, 127)};
  const float fa = 0.031f, fb = 0.017f, factor = is_product ? 0.7f : 1.0f;
  const float divisor = ck_between(0, 1) ? 1.0f : 0.029f;
  const tvmrt_add_i8 add = {fa, fb, divisor, zeros[0], signs[0], zeros[1], signs[1], range};
  const tvmrt_mul_i8 mul = {fa, fb, factor, divisor, zeros[0], signs[0], zeros[1], signs[1], range};
  ck_begin("%s_i8 of %d", is_product ? "mul" : "add", n);
  if (is_product) (void)tvmrt_mul_i8_run(&mul, y.data, a.data, b.data, n, 0);
  if (!is_product) (void)tvmrt_add_i8_run(&add, y.data, a.data, b.data, n, 0);
  for (int i = 0; i < n; i++) {
    const float u = ck_times((float)(ck_value(a.data[i], signs[0]) - zeros[0]), fa);
    const float v = ck_times((float)(ck_value(b.data[i], signs[1]) - zeros[1]), fb);
    float both = is_product ? ck_times(ck_times(u, v), factor) : ck_plus(u, v);
    if (divisor != 1.0f) both = ck_over(both, divisor);
    const int right = ck_bounded(rint((double)both) + range.zero, &range);
    if (y.data[i] == (uint8_t)right) continue;
    ck_fail("element %d is %d, not %d", i, y.data[i], (uint8_t)right);
    break;
  }
  if (!ck_guards_intact(&a)) ck_fail("bytes around a tensor were written");
  ck_free(&a);
  ck_end(&b, &y);
}

static void ck_check_table(void) {
  const int n = ck_between(1, 300);
  ck_buffer table = ck_bytes(256), x = ck_bytes(n), y = ck_new((size_t)n, 1);
  ck_begin("table_i8 of %d", n);
  (void)tvmrt_table_i8_run(table.data, y.data, x.data, n, 0);
  for (int i = 0; i < n; i++) {
    if (y.data[i] != table.data[x.data[i]]) ck_fail("element %d is %d", i, y.data[i]);
  }
  ck_free(&table);
  ck_end(&x, &y);
}

/* ---- pooling ---- */

static tvmrt_pool_layer ck_random_pool(int kinds) {
  tvmrt_pool_layer p;
  tvmrt_window* w = &p.window;
  const int first = ck_between(0, 2); /* of one, two or three dimensions */
  memset(&p, 0, sizeof(p));
  p.kind = (tvmrt_pool_kind)ck_between(0, kinds - 1);
  p.p = ck_between(1, 3);
  p.channels = ck_between(0, 3) ? ck_between(1, 40) : ck_between(40, 110);
  p.is_signed = ck_between(0, 1);
  w->batch = ck_between(1, 2);
  for (int d = 0; d < 3; d++) {
    const int is_there = d >= first, span = is_there ? 4 : 1;
    w->in[d] = is_there ? ck_between(1, 9) : 1;
    w->kernel[d] = ck_between(1, span < w->in[d] ? span : w->in[d]);
    if (is_there && ck_between(0, 5) == 0) w->kernel[d] = w->in[d]; /* global */
    w->stride[d] = ck_between(1, is_there ? 3 : 1);
    w->dilation[d] = ck_between(0, 3) == 0 && (w->kernel[d] - 1) * 2 < w->in[d] ? 2 : 1;
    w->pad[d] = ck_between(0, w->kernel[d] / 2);
    p.pad_end[d] = ck_between(0, w->kernel[d] / 2);
    const int whole = w->in[d] + w->pad[d] + p.pad_end[d] - (w->kernel[d] - 1) * w->dilation[d] - 1;
    const int up = whole % w->stride[d] && whole + w->stride[d] <= w->in[d] + w->pad[d] - 1;
    w->out[d] = whole / w->stride[d] + 1 + (up && ck_between(0, 1)); /* ceil_mode */
  }
  w->x_stride = p.channels + ck_between(0, 1) * 5;
  w->y_stride = p.channels + ck_between(0, 1) * 3;
  return p;
}

/* The elements of a window in the order of depth, row and column: pixels of x, and the divisor
   of averages. */
static int ck_window(const tvmrt_pool_layer* p, int pixel, int found[512], int* among) {
  const tvmrt_window* w = &p->window;
  int at[3], count = 0;
  for (int d = 2; d >= 0; d--) at[d] = pixel % w->out[d], pixel /= w->out[d];
  *among = 0;
  for (int tap = 0; tap < w->kernel[0] * w->kernel[1] * w->kernel[2]; tap++) {
    const int of[3] = {tap / w->kernel[2] / w->kernel[1], tap / w->kernel[2] % w->kernel[1],
                       tap % w->kernel[2]};
    int inside = 1, padded = 1, from = pixel;
    for (int d = 0; d < 3; d++) {
      const int i = at[d] * w->stride[d] - w->pad[d] + of[d] * w->dilation[d];
      inside &= i >= 0 && i < w->in[d];
      padded &= i < w->in[d] + p->pad_end[d];
      from = from * w->in[d] + i;
    }
    if (inside) found[count++] = from;
    *among += p->kind == TVMRT_POOL_AVERAGE_PADDED ? padded : inside;
  }
  return count;
}

static int ck_pool_pixels(const int32_t size[3], int batch) {
  return batch * size[0] * size[1] * size[2];
}

static void ck_check_pool(void) {
  const tvmrt_pool_layer p = ck_random_pool(4);
  const tvmrt_window* w = &p.window;
  const int ins = ck_pool_pixels(w->in, w->batch), outs = ck_pool_pixels(w->out, w->batch);
  ck_buffer x = ck_floats((ins - 1) * w->x_stride + p.channels, 1.0f);
  ck_buffer y = ck_new((size_t)((outs - 1) * w->y_stride + p.channels) * 4, 4);
  const float *from = (const float*)(void*)x.data, *to = (const float*)(void*)y.data;
  int pixels[512], among;
  ck_begin("pool_f32 kind %d, %d channels, k%dx%dx%d s%dx%dx%d", (int)p.kind, p.channels,
           w->kernel[0], w->kernel[1], w->kernel[2], w->stride[0], w->stride[1], w->stride[2]);
  if (tvmrt_pool_f32(&p, from, (float*)(void*)y.data, NULL, NULL) != 0) ck_fail("an error");
  for (int o = 0; o < outs; o++) {
    const int count = ck_window(&p, o, pixels, &among);
    for (int c = 0; c < p.channels; c++) {
      double v = p.kind == TVMRT_POOL_MAX ? -HUGE_VAL : 0.0;
      for (int i = 0; i < count; i++) {
        const double each = (double)from[pixels[i] * w->x_stride + c];
        if (p.kind == TVMRT_POOL_MAX) v = each > v ? each : v;
        if (p.kind == TVMRT_POOL_LP) v += pow(fabs(each), p.p);
        if (p.kind == TVMRT_POOL_AVERAGE || p.kind == TVMRT_POOL_AVERAGE_PADDED) v += each;
      }
      if (p.kind == TVMRT_POOL_LP) v = pow(v, 1.0 / p.p);
      if (p.kind == TVMRT_POOL_AVERAGE || p.kind == TVMRT_POOL_AVERAGE_PADDED) {
        v /= among > 0 ? among : 1;
      }
      const double found = (double)to[o * w->y_stride + c];
      if (found == v || fabs(found - v) <= 2e-6 * fabs(v) + 1e-6) continue;
      ck_fail("channel %d of pixel %d is %.9g, not %.9g", c, o, found, v);
      o = outs - 1, c = p.channels;
    }
  }
  ck_end(&x, &y);
}

static void ck_check_pool_i8(void) {
  const tvmrt_pool_layer p = ck_random_pool(3);
  const tvmrt_window* w = &p.window;
  const int ins = ck_pool_pixels(w->in, w->batch), outs = ck_pool_pixels(w->out, w->batch);
  const tvmrt_average_i8 average = {0.031f, 0.029f, ck_between(0, 1) ? 3.0f : 0.0f,
                                    ck_between(0, 20), ck_random_range()};
  const int is_max = p.kind == TVMRT_POOL_MAX;
  ck_buffer x = ck_bytes((ins - 1) * w->x_stride + p.channels);
  ck_buffer y = ck_new((size_t)((outs - 1) * w->y_stride + p.channels), 1);
  int pixels[512], among;
  ck_begin("pool_i8 kind %d, %d channels, k%dx%dx%d s%dx%dx%d", (int)p.kind, p.channels,
           w->kernel[0], w->kernel[1], w->kernel[2], w->stride[0], w->stride[1], w->stride[2]);
  if ((is_max ? tvmrt_max_pool_i8(&p, x.data, y.data)
              : tvmrt_average_pool_i8(&p, &average, x.data, y.data)) != 0) {
    ck_fail("an error");
  }
  for (int o = 0; o < outs; o++) {
    const int count = ck_window(&p, o, pixels, &among);
    for (int c = 0; c < p.channels; c++) {
      int right = p.is_signed ? -128 : 0;
      float sum = 0;
      for (int i = 0; i < count; i++) {
        const int each = ck_value(x.data[pixels[i] * w->x_stride + c], p.is_signed);
        right = each > right ? each : right;
        sum = ck_plus(sum, ck_times((float)(each - average.x_zero), average.x_scale));
      }
      if (!is_max) {
        const float mean = ck_over(sum, (float)(among > 0 ? among : 1));
        const float steps = ck_plus(ck_over(mean, average.y_scale), average.shift);
        right = ck_bounded(rint((double)steps) + average.range.zero, &average.range);
      }
      if (y.data[o * w->y_stride + c] == (uint8_t)right) continue;
      ck_fail("channel %d of pixel %d is %d, not %d", c, o, y.data[o * w->y_stride + c],
              (uint8_t)right);
      o = outs - 1, c = p.channels;
    }
  }
  ck_end(&x, &y);
}

static void ck_check_global_average(void) {
  const int pixels = ck_between(1, 60), channels = ck_between(1, 150), is_signed = ck_between(0, 1);
  const int stride = channels + ck_between(0, 4), zero = ck_between(-4, 4);
  const tvmrt_i8_range range = ck_random_range();
  const float scale = 0.9f / (float)pixels;
  ck_buffer x = ck_bytes((2 * pixels - 1) * stride + channels);
  ck_buffer y = ck_new((size_t)(2 * channels), 1);
  ck_begin("global_average_pool_i8 of %d pixels, %d channels", pixels, channels);
  tvmrt_global_average_pool_i8(2, pixels, channels, x.data, stride, zero, is_signed, scale, &range,
                               y.data);
  for (int i = 0; i < 2 * channels; i++) {
    int sum = 0;
    for (int p = 0; p < pixels; p++) {
      const int at = (i / channels * pixels + p) * stride + i % channels;
      sum += ck_value(x.data[at], is_signed) - zero;
    }
    const int right = ck_requantized(sum, scale, range.zero, range.lo, range.hi);
    if (y.data[i] != (uint8_t)right) ck_fail("byte %d is %d, not %d", i, y.data[i], (uint8_t)right);
  }
  ck_end(&x, &y);
}

/* ---- softmax and normalisations ---- */

static void ck_check_softmax(void) {
  const int inner = ck_between(0, 1) ? 1 : ck_between(1, 70), outer = ck_between(1, 70);
  const int n = ck_between(0, 2) ? ck_between(1, 40) : ck_between(40, 300);
  const int log_of = ck_between(0, 1), count = outer * n * inner, kind = ck_between(0, 3);
  ck_buffer x = ck_floats(count, 3.0f), y = ck_new((size_t)count * 4, 4);
  float *from = (float*)(void*)x.data, *to = (float*)(void*)y.data;
  double* right = (double*)malloc(sizeof(double) * (size_t)count * 2);
  if (kind == 1) from[ck_between(0, count - 1)] = -INFINITY;
  if (kind == 2) from[ck_between(0, count - 1)] = NAN;
  if (kind == 3) from[ck_between(0, count - 1)] = 1e30f;
  for (int i = 0; i < outer * inner; i++) {
    const int first = i / inner * n * inner + i % inner;
    double most = -HUGE_VAL, sum = 0;
    for (int j = 0; j < n; j++) {
      const double v = (double)from[first + j * inner];
      most = v > most || isnan(v) ? v : most;
    }
    for (int j = 0; j < n; j++) sum += exp((double)from[first + j * inner] - most);
    for (int j = 0; j < n; j++) {
      const int at = first + j * inner;
      const double shifted = (double)from[at] - most;
      right[at] = log_of ? shifted - log(sum) : exp(shifted) / sum;
      right[count + at] = 3e-6 * fabs(right[at]) + (log_of ? 1e-6 : 3e-7);
    }
  }
  ck_begin("softmax_f32 %d of %d x %d x %d", log_of, outer, n, inner);
  ck_tasks = ck_between(1, 3);
  if (tvmrt_softmax_f32(tvmrt_softmax_f32_task, log_of, from, to, outer, n, inner) != 0) {
    ck_fail("an error");
  }
  (void)ck_near("result", to, right, right + count, count);
  free(right);
  ck_end(&x, &y);
}

static void ck_check_layer_norm(void) {
  const int rows = ck_between(1, 9), n = ck_between(0, 1) ? ck_between(1, 20) : ck_between(20, 260);
  const int stride = n + ck_between(0, 3), affine = ck_between(0, 2), centre = ck_between(0, 1);
  const tvmrt_layer_norm_f32_layer layer = {
      .rows = rows, .n = n, .x_stride = stride, .y_stride = n, .epsilon = 1e-5f, .centre = centre};
  ck_buffer x = ck_floats((rows - 1) * stride + n, 3.0f), y = ck_new((size_t)(rows * n) * 4, 4);
  ck_buffer scale = ck_floats(n, 1.0f), shift = ck_floats(n, 1.0f);
  const float *from = (const float*)(void*)x.data, *s = (const float*)(void*)scale.data;
  const float* b = (const float*)(void*)shift.data;
  ck_begin("layer_norm_f32 of %d rows of %d", rows, n);
  ck_tasks = ck_between(1, 3);
  (void)tvmrt_layer_norm_f32(&layer, from, affine > 0 ? s : NULL, affine > 1 ? b : NULL,
                             (float*)(void*)y.data);
  for (int r = 0; r < rows; r++, from += stride) {
    double mean = 0, variance = 0;
    for (int i = 0; i < n; i++) mean += (double)from[i] / n;
    if (!centre) mean = 0;
    for (int i = 0; i < n; i++) variance += ((double)from[i] - mean) * ((double)from[i] - mean) / n;
    for (int i = 0; i < n; i++) {
      double v = ((double)from[i] - mean) / sqrt(variance + (double)1e-5f);
      if (affine > 0) v *= (double)s[i];
      if (affine > 1) v += (double)b[i];
      const double found = (double)((const float*)(void*)y.data)[r * n + i];
      if (fabs(found - v) <= 2e-5 * fabs(v) + (n == 1 ? 1e-3 : 1e-5)) continue;
      ck_fail("element %d of row %d is %.9g, not %.9g", i, r, found, v);
      break;
    }
  }
  ck_free(&scale), ck_free(&shift);
  ck_end(&x, &y);
}

static void ck_check_group_norm(void) {
  const int groups = ck_between(1, 4), channels = groups * ck_between(1, 6);
  const int pixels = ck_between(1, 150), affine = ck_between(0, 1), each = channels / groups;
  const tvmrt_group_norm_f32_layer layer = {.batch = 2,
                                            .pixels = pixels,
                                            .channels = channels,
                                            .groups = groups,
                                            .x_stride = channels,
                                            .y_stride = channels,
                                            .epsilon = 1e-5f};
  const int count = 2 * pixels * channels;
  ck_buffer x = ck_floats(count, 3.0f), y = ck_new((size_t)count * 4, 4);
  ck_buffer scale = ck_floats(channels, 1.0f), shift = ck_floats(channels, 1.0f);
  const float *from = (const float*)(void*)x.data, *s = (const float*)(void*)scale.data;
  const float* b = (const float*)(void*)shift.data;
  ck_begin("group_norm_f32 of %d pixels, %d channels, %d groups", pixels, channels, groups);
  (void)tvmrt_group_norm_f32(&layer, from, affine ? s : NULL, affine ? b : NULL,
                             (float*)(void*)y.data);
  for (int g = 0; g < 2 * groups; g++) {
    const int first = g / groups * pixels * channels + g % groups * each, n = pixels * each;
    double mean = 0, variance = 0;
    for (int i = 0; i < n; i++) mean += (double)from[first + i / each * channels + i % each] / n;
    for (int i = 0; i < n; i++) {
      const double off = (double)from[first + i / each * channels + i % each] - mean;
      variance += off * off / n;
    }
    for (int i = 0; i < n; i++) {
      const int at = first + i / each * channels + i % each, c = at % channels;
      double v = ((double)from[at] - mean) / sqrt(variance + (double)1e-5f);
      if (affine) v = v * (double)s[c] + (double)b[c];
      const double found = (double)((const float*)(void*)y.data)[at];
      if (fabs(found - v) <= 1e-5 * fabs(v) + (n == 1 ? 1e-3 : 2e-5)) continue;
      ck_fail("element %d is %.9g, not %.9g", at, found, v);
      break;
    }
  }
  ck_free(&scale), ck_free(&shift);
  ck_end(&x, &y);
}

static void ck_check_lrn(void) {
  const int pixels = ck_between(1, 10), channels = ck_between(1, 40), size = ck_between(1, 6);
  const tvmrt_lrn_f32_layer layer = {.pixels = pixels,
                                     .channels = channels,
                                     .x_stride = channels,
                                     .y_stride = channels,
                                     .size = size,
                                     .alpha = 1e-2f,
                                     .beta = ck_between(0, 1) ? 0.75f : 0.5f,
                                     .bias = 2.0f};
  ck_buffer x = ck_floats(pixels * channels, 3.0f), y = ck_new((size_t)(pixels * channels) * 4, 4);
  const float* from = (const float*)(void*)x.data;
  ck_begin("lrn_f32 of %d pixels, %d channels, %d at a time", pixels, channels, size);
  (void)tvmrt_lrn_f32(&layer, from, (float*)(void*)y.data);
  for (int i = 0; i < pixels * channels; i++) {
    double sum = 0;
    for (int c = i % channels - (size - 1) / 2; c <= i % channels + size / 2; c++) {
      const double v = c >= 0 && c < channels ? (double)from[i - i % channels + c] : 0;
      sum += v * v;
    }
    const double right =
        (double)from[i] / pow(2.0 + (double)1e-2f / size * sum, (double)layer.beta);
    const double found = (double)((const float*)(void*)y.data)[i];
    if (fabs(found - right) <= 3e-6 * fabs(right)) continue;
    ck_fail("element %d is %.9g, not %.9g", i, found, right);
  }
  ck_end(&x, &y);
}

/* ---- remainder rows ---- */

static void ck_no_tile(const tvmrt_tile_f32* tile, int64_t x_offset, const float* w,
                       const float* bias, const float* residual, float* out, int channels) {
  (void)tile, (void)x_offset, (void)w, (void)bias, (void)residual, (void)out, (void)channels;
}

static void ck_check_uncovered(void) {
  const tvmrt_tiles_f32 tiles = {
      .block = 4, .blocks_per_group = 1, .width = {4, 2}, .run = {ck_no_tile, ck_no_tile}};
  tvmrt_tile_row_f32_args row;
  memset(&row, 0, sizeof(row));
  row.tiles = &tiles;
  ck_begin("rows that widths of tiles do not cover");
  if (tvmrt_tile_row_f32(&row, 0, 7, 0, 4) != -1) ck_fail("no error");
  if (strstr(ck_last_error, "do not cover a row") == NULL) ck_fail("no text: %s", ck_last_error);
  if (tvmrt_tile_row_f32(&row, 0, 6, 0, 4) != 0) ck_fail("an error of those that they do");
}

/* All checks of this file, random ones `times` times. */
static void ck_check_rows(int times) {
  if (!ck_is_wanted("rows")) return;
  for (int i = 0; i < times; i++) {
    ck_tasks = i % 3 + 1;
    ck_check_pair(0), ck_check_pair(1), ck_check_table(), ck_check_global_average();
    ck_check_pool(), ck_check_pool_i8(), ck_check_softmax(), ck_check_lrn();
    ck_check_layer_norm(), ck_check_group_norm();
  }
  ck_check_uncovered();
}

#endif
