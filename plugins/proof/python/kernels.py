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
        "tvmrt_round_to_int32", "tvmrt_quantize_int8", "tvmrt_quantize_uint8",
        "tvmrt_micro_requantize_fixed", "tvmrt_micro_requantize_one", "tvmrt_micro_copy_groups",
    ),
    ("tvmrt_micro_requantize_once",),
)  # fmt: skip

# Multipliers of a row; Frama-C joins the bits of floats of both signs too early for one clause.
_MULTIPLIERS = "\n".join(
    f"    requires scale_{i}: n <= {i} || -2147483647 <= multipliers[{i}].fixed < 0x43800000;"
    for i in range(32)
)

# Layers of dense kernels in generated C.
_WINDOW = r"\.in_c = (\d+),[^;]*?\.length = (\d+),[^;]*?\.columns = (\d+)"

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
@multipliers@
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

void proof_kernels_1(void) {
#ifdef TVM_RUNTIME_KERNELS_SCALAR_SOFT_FLOAT_H_
#if TVMRT_SOFT_FLOAT
  proof_floats();
#endif
#endif
#ifdef TVM_RUNTIME_KERNELS_SCALAR_QUANT_H_
  proof_quantize();
#endif
#ifdef TVM_RUNTIME_KERNELS_BOARD_COMMON_I8_H_
  proof_requantize_one();
#endif
#ifdef TVM_RUNTIME_KERNELS_BOARD_CONV_I8_2PX_RV32_H_
  proof_copy_groups();
#endif
}

void proof_kernels_2(void) {
#ifdef TVM_RUNTIME_KERNELS_BOARD_COMMON_I8_H_
  proof_requantize_row();
#endif
}
"""


def print_kernels(code: Iterable[str]) -> str:
    """Return a header for the end of a file with these operators.

    The contracts admit the lengths of copies that the layers have: whole windows, and their rows.
    """
    lengths = {1}
    for text in code:
        for channels, length, columns in re.findall(_WINDOW, text):
            lengths |= {int(length), int(channels) * int(columns)}
    texts = {
        "@multipliers@": _MULTIPLIERS,
        "@choice@": " || ".join(f"n == {n}" for n in sorted(lengths)),
        "@lengths@": ", ".join(map(str, sorted(lengths))),
        "@longest@": str(max(lengths)),
    }
    header = _TEXT
    for name, text in texts.items():
        header = header.replace(name, text)
    return header


__all__ = ["LEVELS", "print_kernels"]
