"""Contracts of kernels that operators call for each element or pixel, and drivers that prove them.

Frama-C would analyse these functions again for each element, because the address of the element
differs. With the contract it analyses each body once, for all arguments that the contract admits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# Functions with contracts: those of a later level are proved with the contracts of earlier ones.
LEVELS = (
    (
        "tvmrt_add_f32", "tvmrt_mul_f32", "tvmrt_div_f32", "tvmrt_int32_to_f32",
        "tvmrt_round_to_int32", "tvmrt_bounded_f32",
        "tvmrt_micro_requantize_fixed", "tvmrt_micro_requantize_one", "tvmrt_micro_copy_groups",
        "tvmrt_micro_3x3_copy", "tvmrt_micro_3x3_quad", "tvmrt_micro_copy_run",
    ),
    ("tvmrt_quantize_int8", "tvmrt_quantize_uint8", "tvmrt_micro_requantize_once"),
    ("tvmrt_micro_requantize_quad_8",),
)  # fmt: skip

# Layers of dense kernels in generated C.
_WINDOW = r"\.in_c = (\d+),[^;]*?\.length = (\d+),[^;]*?\.columns = (\d+)"

# Depthwise layers: columns, stride, channels, strides of x and y, plane, columns of the input.
_DEPTHWISE = (
    r"\.out = \{\d+, (\d+)\}, \.kernel = \{3, 3\},\s+\.stride = \{(\d+), [^;]*?\.out_c = (\d+),"
    r"\s+\.x_stride = (\d+),\s+\.y_stride = (\d+),[^;]*?\.plane = (\d+),[^;]*?\.inside = (\d+)"
)

# A driver must reach all arguments that the contract admits.
_TEXT = r"""/* Contracts of kernels, and drivers with all arguments that the contracts admit. */
#include <__fc_builtin.h>

#define PROOF_UNKNOWN(x) Frama_C_make_unknown((char *)&(x), sizeof(x))

static float proof_float(void) {
  float x;
  PROOF_UNKNOWN(x);
  return x;
}

#ifdef TVM_RUNTIME_KERNELS_SCALAR_SOFT_FLOAT_H_
#if TVMRT_SOFT_FLOAT
/*@ assigns \result \from x, y; */
TVMRT_RARELY_CALLED float tvmrt_add_f32(float x, float y);
/*@ assigns \result \from x, y; */
TVMRT_RARELY_CALLED float tvmrt_mul_f32(float x, float y);
/*@ assigns \result \from x, y; */
TVMRT_RARELY_CALLED float tvmrt_div_f32(float x, float y);
/*@ assigns \result \from n; */
TVMRT_RARELY_CALLED float tvmrt_int32_to_f32(int32_t n);
/*@ assigns \result \from x;
    ensures bounds: -8388608 <= \result <= 8388608; */
TVMRT_RARELY_CALLED int32_t tvmrt_round_to_int32(float x);

static void proof_floats(void) {
  int32_t n;
  PROOF_UNKNOWN(n);
  tvmrt_add_f32(proof_float(), proof_float());
  tvmrt_mul_f32(proof_float(), proof_float());
  tvmrt_div_f32(proof_float(), proof_float());
  tvmrt_int32_to_f32(n);
  tvmrt_round_to_int32(proof_float());
}
#endif
#endif

#ifdef TVM_RUNTIME_KERNELS_SCALAR_QUANT_H_
#if !TVMRT_SOFT_FLOAT
/*@ requires limits: -2097152 <= low <= 2097152 && -2097152 <= high <= 2097152;
    assigns \result \from v, low, high;
    ensures number: \is_finite(\result);
    ensures bounds: -2097152 <= \result <= 2097152; */
TVMRT_INLINE float tvmrt_bounded_f32(float v, float low, float high);

/* NaN alone, because Frama-C 25 does not remove it from other values that pass a comparison. */
static void proof_bounded(void) {
  const float v = proof_float(), low = Frama_C_float_interval(-2097152, 2097152),
              high = Frama_C_float_interval(-2097152, 2097152);
  if (v == v) tvmrt_bounded_f32(v, low, high);
  tvmrt_bounded_f32(0.0f / 0.0f, low, high);
}
#endif

/*@ requires zero_point: -128 <= zero <= 127;
    assigns \result \from x, scale, zero; */
static inline int8_t tvmrt_quantize_int8(float x, float scale, int32_t zero);
/*@ requires zero_point: 0 <= zero <= 255;
    assigns \result \from x, scale, zero; */
static inline uint8_t tvmrt_quantize_uint8(float x, float scale, int32_t zero);

static void proof_quantize(void) {
  tvmrt_quantize_int8(proof_float(), proof_float(), Frama_C_interval(-128, 127));
  tvmrt_quantize_uint8(proof_float(), proof_float(), Frama_C_interval(0, 255));
}
#endif

#ifdef TVM_RUNTIME_KERNELS_BOARD_COMMON_I8_H_
/*@ requires fixed: factor >= 0;
    requires zero_point: -524288 <= half <= 524287;
    requires range: \valid_read(range) && \initialized(range);
    assigns \result \from sum, factor, half, range->lo, range->hi; */
TVMRT_INLINE uint8_t tvmrt_micro_requantize_fixed(int32_t sum, int32_t factor, int32_t half,
                                                  const tvmrt_micro_range *range);
/*@ requires scale: -2147483647 <= factor.fixed < 0x43800000;
    requires zero_point: -32768 <= zero <= 32767;
    assigns \result \from sum, factor, zero;
    ensures bounds: -134217728 <= \result <= 134217727; */
TVMRT_INLINE int32_t tvmrt_micro_requantize_one(int32_t sum, tvmrt_micro_multiplier factor,
                                                int32_t zero);
/*@ requires count: 0 <= n <= 32;
    requires bytes: \valid(y + (0 .. n - 1));
    requires sums: \valid_read(sums + (0 .. n - 1)) && \initialized(sums + (0 .. n - 1));
    requires multipliers: \valid_read(multipliers + (0 .. n - 1));
    requires scale_@i@: n <= @i@ || -2147483647 <= multipliers[@i@].fixed < 0x43800000;
    requires range: \valid_read(range) && \initialized(range);
    requires apart: \separated(y + (0 .. n - 1), sums + (0 .. n - 1)) &&
      \separated(y + (0 .. n - 1), multipliers + (0 .. n - 1)) &&
      \separated(y + (0 .. n - 1), range);
    assigns y[0 .. n - 1] \from sums[0 .. n - 1], multipliers[0 .. n - 1], *range;
    ensures written: \initialized(y + (0 .. n - 1)); */
TVMRT_NOINLINE void tvmrt_micro_requantize_once(uint8_t *y, const int32_t *sums,
                                                const tvmrt_micro_multiplier *multipliers,
                                                int32_t n, const tvmrt_micro_range *range);

static void proof_requantize_one(void) {
  tvmrt_micro_range range;
  tvmrt_micro_multiplier factor;
  int32_t sum;
  PROOF_UNKNOWN(range);
  PROOF_UNKNOWN(sum);
  tvmrt_micro_requantize_fixed(sum, Frama_C_interval(0, 2147483647),
                               Frama_C_interval(-524288, 524287), &range);
  factor.fixed = Frama_C_interval(-2147483647, -1);
  tvmrt_micro_requantize_one(sum, factor, Frama_C_interval(-32768, 32767));
  for (int32_t exponent = 0; exponent < 135; exponent++) {
    factor.fixed = exponent * 0x800000 + Frama_C_interval(0, 0x7FFFFF);
    tvmrt_micro_requantize_one(sum, factor, Frama_C_interval(-32768, 32767));
  }
}

static void proof_requantize_row(void) {
  for (int32_t n = 0; n <= 32; n++) {
    uint8_t y[32];
    int32_t sums[32];
    tvmrt_micro_multiplier multipliers[32];
    tvmrt_micro_range range;
    PROOF_UNKNOWN(sums);
    PROOF_UNKNOWN(range);
    for (int32_t i = 0; i < n; i++) {
      multipliers[i].fixed = Frama_C_interval(-2147483647, 0x437FFFFF);
    }
    tvmrt_micro_requantize_once(y + 32 - n, sums + 32 - n,
                                multipliers, n, &range);
  }
}
#endif

#ifdef TVM_RUNTIME_KERNELS_BOARD_IM2COL_I8_H_
static const int32_t proof_runs[] = {@runs@};
/*@ requires length: @run@;
    requires to: \valid(to + (0 .. n - 1));
    requires from: \valid_read(from + (0 .. n - 1)) && \initialized(from + (0 .. n - 1));
    requires apart: \separated(to + (0 .. n - 1), from + (0 .. n - 1));
    assigns to[0 .. n - 1] \from from[0 .. n - 1];
    ensures written: \initialized(to + (0 .. n - 1)); */
TVMRT_INLINE void tvmrt_micro_copy_run(uint8_t *to, const uint8_t *from, int32_t n);

static void proof_copy_run(void) {
  uint8_t from[@longest@], to[@longest@];
  PROOF_UNKNOWN(from);
  for (int i = 0; i < (int)(sizeof(proof_runs) / sizeof(*proof_runs)); i++) {
    const int32_t n = proof_runs[i];
    tvmrt_micro_copy_run(to + @longest@ - n, from + @longest@ - n, n);
  }
}
#endif

#ifdef TVM_RUNTIME_KERNELS_BOARD_CONV_I8_2PX_RV32_H_
/* Elements up to the last one: the first of two pixels also writes the second one's. */
#define PROOF_LAST(to) ((n - 1) * step + (step - 1) * (1 - \offset(to) % 4 / 2))
static const int32_t proof_lengths[] = {@lengths@};
/*@ requires length: @choice@;
    requires step: step == 1 || step == 2;
    requires to: \offset(to) % 2 == 0 && \valid(to + (0 .. PROOF_LAST(to)));
    requires from: \valid_read(from + (0 .. n - 1)) && \initialized(from + (0 .. n - 1));
    requires first: step == 1 || \offset(to) % 4 == 0 || \initialized(to + (0 .. 2 * n - 2));
    requires apart: \separated(to + (0 .. PROOF_LAST(to)), from + (0 .. n - 1));
    assigns to[0 .. PROOF_LAST(to)] \from from[0 .. n - 1];
    assigns \result \from to;
    ensures written: \initialized(to + (0 .. PROOF_LAST(to)));
    ensures bounds: step == 2 || \subset(to[0 .. n - 1], (-128 .. 127));
    ensures next: \result == to + n * step; */
TVMRT_NOINLINE tvmrt_micro_element *tvmrt_micro_copy_groups(tvmrt_micro_element *to, int32_t step,
                                                            const uint8_t *from, int32_t n,
                                                            int is_signed);

static void proof_copy_groups(void) {
  uint8_t from[@longest@];
  int is_signed;
  PROOF_UNKNOWN(from);
  PROOF_UNKNOWN(is_signed);
  for (int i = 0; i < (int)(sizeof(proof_lengths) / sizeof(*proof_lengths)); i++) {
    const int32_t n = proof_lengths[i];
    const uint8_t *const x = from + @longest@ - n;
    int16_t one[@longest@], first[2 * @longest@], second[2 * @longest@];
    tvmrt_micro_copy_groups(one + @longest@ - n, 1, x, n, is_signed);
    tvmrt_micro_copy_groups(first + 2 * (@longest@ - n), 2, x, n, is_signed);
    PROOF_UNKNOWN(second);
    tvmrt_micro_copy_groups(second + 2 * (@longest@ - n) + 1, 2, x, n, is_signed);
  }
}
#endif

#ifdef TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_3X3_DSP_H_
/* What a copy writes, with elements between; what it reads; channels of the line buffer. */
#define PROOF_COPY (to + (0 .. 3 * plane + 4 * n - 3))
#define PROOF_ROW(from) (from.x + (0 .. (n - 1) * from.pixel + 3))
#define PROOF_SHAPE (d->conv->shape)
#define PROOF_PLANE PROOF_SHAPE.layout.line_buffer.plane
#define PROOF_COLUMNS ((int8_t *)d->line_buffer + (channel * PROOF_PLANE .. \
  (channel + 3) * PROOF_PLANE + 4 * (PROOF_SHAPE.out[1] - 1) * PROOF_SHAPE.stride[0] + 11))
/*@ requires shape: @any plane == {5} && (n == 1 || n == {6}) && above.pixel % {3} == 0 &&
      below.pixel % {3} == 0 && 0 <= above.pixel <= {3} && 0 <= below.pixel <= {3}@;
    requires to: \valid(PROOF_COPY) && \initialized(PROOF_COPY);
    requires bounds: \subset(*PROOF_COPY, (-128 .. 127));
    requires above: \valid_read(PROOF_ROW(above)) && \initialized(PROOF_ROW(above));
    requires below: \valid_read(PROOF_ROW(below)) && \initialized(PROOF_ROW(below));
    requires apart: \separated(PROOF_COPY, PROOF_ROW(above));
    requires others: \separated(PROOF_COPY, PROOF_ROW(below));
    assigns *PROOF_COPY \from *PROOF_COPY, *PROOF_ROW(above), *PROOF_ROW(below);
    ensures written: \initialized(PROOF_COPY);
    ensures bounds: \subset(*PROOF_COPY, (-128 .. 127)); */
TVMRT_NOINLINE void tvmrt_micro_3x3_copy(int8_t *to, int32_t plane, tvmrt_micro_source above,
                                         tvmrt_micro_source below, int32_t n, int is_signed);
#define PROOF_SUMS(k) (d->sums + (8 * k .. 8 * k + (PROOF_SHAPE.stride[0] == 1 ? 7 : 3)))
/*@ requires shape: @any PROOF_SHAPE.out[1] == {0} && PROOF_SHAPE.stride[0] == {1} &&
      PROOF_SHAPE.stride[1] == {1} && PROOF_PLANE == {5} && channel % 4 == 0 &&
      0 <= channel <= {2} - 4@;
    requires sums: \valid(d->sums + (0 .. 8 * PROOF_SHAPE.out[1] - 1));
    requires columns: \valid_read(PROOF_COLUMNS) && \initialized(PROOF_COLUMNS);
    requires bounds: \subset(*PROOF_COLUMNS, (-128 .. 127));
    requires weights:
      \valid_read((int16_t *)d->data->weights + (channel * 10 .. channel * 10 + 39));
    requires bias: \subset(d->data->bias[channel .. channel + 3], (-939524096 .. 939524096));
    assigns d->sums[0 .. 8 * PROOF_SHAPE.out[1] - 1] \from *PROOF_COLUMNS, *d->data, *d->conv,
      newer, ((int16_t *)d->data->weights)[channel * 10 .. channel * 10 + 39],
      d->data->bias[channel .. channel + 3];
    ensures written_@k@: PROOF_SHAPE.out[1] <= @k@ || \initialized(PROOF_SUMS(@k@));
*/
TVMRT_NOINLINE_TIGHT void tvmrt_micro_3x3_quad(const tvmrt_micro_layer *d, int32_t channel,
                                               int32_t newer);
/* Pixel k, or the first one if there are fewer. */
#define PROOF_PIXEL(k) ((c->shape.out[1] + @columns@ - 1 - k) / @columns@ * k * c->shape.y_stride)
#define PROOF_READ sums[0 .. 8 * c->shape.out[1] - 5], multipliers[0 .. 3], *c
/*@ requires shape: @any c->shape.out[1] == {0} && c->shape.y_stride == {4}@;
    requires bytes: \valid(y + (0 .. (c->shape.out[1] - 1) * c->shape.y_stride + 3));
    requires multipliers: \valid_read(multipliers + (0 .. 3)) && multipliers[0].fixed < 0x43800000;
    requires lowest_@q@: -2147483647 <= multipliers[@q@].fixed;
    requires scale_@q@: multipliers[@q@].fixed < (multipliers[0].fixed < 0 ? 0 : 0x43800000);
    requires sums_@k@: c->shape.out[1] <= @k@ || \initialized(sums + (8 * @k@ .. 8 * @k@ + 3));
    requires end: \valid_read(sums + (0 .. 8 * c->shape.out[1] + 2));
    requires apart: \separated(y + (0 .. (c->shape.out[1] - 1) * c->shape.y_stride + 3), c,
      sums + (0 .. 8 * c->shape.out[1] - 5), multipliers + (0 .. 3));
    assigns y[PROOF_PIXEL(@k@) .. PROOF_PIXEL(@k@) + 3] \from PROOF_READ;
    ensures written_@k@: \initialized(y + (PROOF_PIXEL(@k@) .. PROOF_PIXEL(@k@) + 3));
*/
TVMRT_NOINLINE void tvmrt_micro_requantize_quad_8(const tvmrt_micro_conv_i8 *c, uint8_t *y,
                                                  const int32_t *sums,
                                                  const tvmrt_micro_multiplier *multipliers);

/* Columns, stride, channels, strides of x and y, plane, and columns of the input. */
static const int32_t proof_layers[][7] = {@layers@};
static int8_t proof_buffer[@most@];
static uint8_t proof_bytes[2][@most@];

static int8_t *proof_columns(int32_t n) {
  int8_t *const at = proof_buffer + @most@ - n;
  *at = (int8_t)Frama_C_interval(-128, 127);
  for (int32_t i = 1; i < n; i *= 2) memcpy(at + i, at, (size_t)(2 * i < n ? i : n - i));
  return at;
}

static void proof_3x3_copy(const int32_t *layer, int32_t n, int32_t a, int32_t b) {
  const tvmrt_micro_source above = {proof_bytes[0] + @most@ - (n - 1) * a - 4, a, 0},
                           below = {proof_bytes[1] + @most@ - (n - 1) * b - 4, b, 0};
  PROOF_UNKNOWN(proof_bytes);
  tvmrt_micro_3x3_copy(proof_columns(3 * layer[5] + 4 * n - 2), layer[5], above, below, n,
                       Frama_C_interval(0, 1));
}

static void proof_3x3_quad(const int32_t *layer) {
  int16_t weights[@most@];
  int32_t bias[@most@], sums[@most@];
  const int32_t size = (layer[2] - 1) * layer[5] + 4 * (layer[0] - 1) * layer[1] + 12;
  const tvmrt_micro_conv_i8 conv = {.shape = {.out = {1, (int16_t)layer[0]},
    .stride = {(int16_t)layer[1], (int16_t)layer[1]}, .layout.line_buffer.plane = layer[5]}};
  const tvmrt_micro_data data = {.weights = weights + @most@ - 10 * layer[2], .bias = bias};
  const tvmrt_micro_layer d = {&conv, &data, proof_columns(size), sums + @most@ - 8 * layer[0]};
  PROOF_UNKNOWN(weights);
  for (int32_t i = 0; i < layer[2]; i++) bias[i] = Frama_C_interval(-939524096, 939524096);
  for (int32_t channel = 0; channel < layer[2]; channel += 4) {
    tvmrt_micro_3x3_quad(&d, channel, 0);
    tvmrt_micro_3x3_quad(&d, channel, 1);
  }
}

static void proof_requantize_quad(const int32_t *layer, int32_t lowest, int32_t highest) {
  uint8_t y[@most@]; /* not static: without values */
  int32_t sums[@most@];
  tvmrt_micro_multiplier multipliers[4];
  tvmrt_micro_conv_i8 c = {.shape = {.out = {1, (int16_t)layer[0]}, .y_stride = layer[4]}};
  PROOF_UNKNOWN(sums);
  PROOF_UNKNOWN(c.range);
  for (int i = 0; i < 4; i++) {
    multipliers[i].fixed = Frama_C_interval(i ? -2147483647 : lowest, highest);
  }
  tvmrt_micro_requantize_quad_8(&c, y + @most@ - (layer[0] - 1) * layer[4] - 4,
                                sums + @most@ - 8 * layer[0] - 3, multipliers);
}

static void proof_depthwise(int level) {
  for (int i = 0; i < (int)(sizeof(proof_layers) / sizeof(*proof_layers)); i++) {
    const int32_t *const layer = proof_layers[i];
    if (level == 3) {
      proof_requantize_quad(layer, -2147483647, -1);
      proof_requantize_quad(layer, 0, 0x437FFFFF);
      continue;
    }
    proof_3x3_quad(layer);
    for (int k = 0; k < 8; k++) {
      proof_3x3_copy(layer, k % 2 ? layer[6] : 1, k / 2 % 2 * layer[3], k / 4 * layer[3]);
    }
  }
}
#endif

void proof_kernels_1(void) {
#ifdef TVM_RUNTIME_KERNELS_BOARD_IM2COL_I8_H_
  proof_copy_run();
#endif
#ifdef TVM_RUNTIME_KERNELS_SCALAR_SOFT_FLOAT_H_
#if TVMRT_SOFT_FLOAT
  proof_floats();
#endif
#endif
#ifdef TVM_RUNTIME_KERNELS_SCALAR_QUANT_H_
#if !TVMRT_SOFT_FLOAT
  proof_bounded();
#endif
#endif
#ifdef TVM_RUNTIME_KERNELS_BOARD_COMMON_I8_H_
  proof_requantize_one();
#endif
#ifdef TVM_RUNTIME_KERNELS_BOARD_CONV_I8_2PX_RV32_H_
  proof_copy_groups();
#endif
#ifdef TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_3X3_DSP_H_
  proof_depthwise(1);
#endif
}

void proof_kernels_2(void) {
#ifdef TVM_RUNTIME_KERNELS_SCALAR_QUANT_H_
  proof_quantize();
#endif
#ifdef TVM_RUNTIME_KERNELS_BOARD_COMMON_I8_H_
  proof_requantize_row();
#endif
}

void proof_kernels_3(void) {
#ifdef TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_3X3_DSP_H_
  proof_depthwise(3);
#endif
}
"""


def print_kernels(code: Iterable[str]) -> str:
    """Return a header for the end of a file with these operators.

    The contracts admit the lengths of copies that the layers have: whole windows, and their rows;
    and the shapes of their depthwise layers.
    """
    lengths, runs, layers = {1}, {1}, set()
    for text in code:
        for channels, length, columns in re.findall(_WINDOW, text):
            lengths |= {int(length), int(channels) * int(columns)}
            runs |= {int(channels) * (k + 1) for k in range(int(columns))}
        layers |= {tuple(map(int, match)) for match in re.findall(_DEPTHWISE, text)}
    columns = max((layer[0] for layer in layers), default=1)
    texts = {
        "@choice@": " || ".join(f"n == {n}" for n in sorted(lengths)),
        "@lengths@": ", ".join(map(str, sorted(lengths))),
        "@run@": " || ".join(f"n == {n}" for n in sorted(runs)),
        "@runs@": ", ".join(map(str, sorted(runs))),
        "@longest@": str(max(lengths | runs)),
        "@columns@": str(columns),
        "@layers@": ", ".join(f"{{{', '.join(map(str, layer))}}}" for layer in sorted(layers)),
        "@most@": str(max(map(_longest, layers), default=1)),
    }
    header = re.sub(r"@any ([^@]*)@", lambda match: _any(match[1], layers), _TEXT)
    for name, text in texts.items():
        header = header.replace(name, text)
    for name, count in (("@i@", 32), ("@k@", columns), ("@q@", 4)):
        header = "\n".join(
            line.replace(name, str(k))
            for line in header.split("\n")
            for k in range(count if name in line else 1)
        )
    return header


def _any(condition: str, layers: Iterable[tuple[int, ...]]) -> str:
    """Return that a condition holds for the numbers of one of the layers."""
    conditions = {f"({condition.format(*layer)})" for layer in layers}
    return " || ".join(sorted(conditions)) or "\\false"


def _longest(layer: tuple[int, ...]) -> int:
    """Return the elements of the longest array of a depthwise layer."""
    out, stride, channels, x_stride, y_stride, plane, inside = layer
    buffer = (channels - 1) * plane + 4 * (out - 1) * stride + 12
    return max(
        buffer,
        3 * plane + 4 * inside,
        10 * channels,
        inside * x_stride,
        out * y_stride,
        8 * out + 3,
    )


__all__ = ["LEVELS", "print_kernels"]
