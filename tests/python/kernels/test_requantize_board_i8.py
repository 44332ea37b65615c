"""Requantisation of int32 accumulators by the board kernels, compared with numpy."""

from __future__ import annotations

import numpy as np
import pytest
from boards import BOARDS, link_image, run_image
from i8_case import requantise
from kernel_build import CHECKED, ROOT, build, pointer

from tvmrt.compiler.codegen.c.formatting import break_lines
from tvmrt.compiler.codegen.window.boards.requant_multipliers import (
    fixed_point_multipliers,
    requant_multipliers,
)

BYTES = """
#define TVMRT_MICRO_HAS_FPU {fpu}
#define TVMRT_FREESTANDING 1
#include <tvm/runtime/kernels/board/common_i8.h>
void bytes(uint8_t* y, const int32_t* sums, const tvmrt_micro_multiplier* factors, int n);
void bytes(uint8_t* y, const int32_t* sums, const tvmrt_micro_multiplier* factors, int n) {{
  static const tvmrt_micro_range range = {{{zero}, {low}, {high}, {whole}, 0}};
  tvmrt_micro_requantize(y, sums, factors, n, &range);
}}
"""


@pytest.mark.parametrize("fpu", [0, 1])
@pytest.mark.parametrize(
    "bounds", [(-128, -128, 127, 1), (3, 0, 255, 2), (111, 111, 255, 0), (127, -128, 127, 1)]
)
def test_fixed_point_multipliers_match_float(bounds, fpu, tmp_path):
    """Check accumulators near ties of many scales, powers of two included, and huge ones."""
    zero, low, high, whole = bounds
    rng = np.random.default_rng(3)
    scale = np.exp2(rng.uniform(-14, -2, 400)).astype(np.float32)
    scale[:40] = np.exp2(-rng.integers(4, 12, 40))
    fixed = fixed_point_multipliers(scale, zero, low, high)
    assert 40 < np.count_nonzero(fixed) < len(fixed)
    chosen = np.where(fixed > 0, (-fixed).astype(np.int32).view(np.float32), scale)
    ties = (np.arange(low - zero - 2, high - zero + 3) + 0.5) / scale[:, None].astype(np.float64)
    near_ties = np.floor(ties).astype(np.int64)[..., None] + np.arange(-1, 3)
    huge = rng.integers(-(1 << 30), 1 << 30, (len(scale), 40))
    sums = np.concatenate([near_ties.reshape(len(scale), -1), huge], axis=1).astype(np.int32)
    factors = np.repeat(chosen[:, None], sums.shape[1], axis=1)
    found = np.zeros(sums.shape, np.uint8)
    text = BYTES.format(fpu=fpu, zero=zero, low=low, high=high, whole=whole)
    build(tmp_path, text, CHECKED).bytes(
        pointer(found), pointer(sums), pointer(np.ascontiguousarray(factors)), sums.size
    )
    expected = requantise(sums, scale[:, None], zero, low, high).astype(np.uint8)
    np.testing.assert_array_equal(found, expected)


BYTES_ON_BOARD = """
#define TVMRT_FREESTANDING 1
#include <stdio.h>
#include <tvm/runtime/kernels/board/common_i8.h>
{arrays}
int main(void) {{
  static const tvmrt_micro_range range = {{{zero}, {low}, {high}, {whole}, 0}};
  for (int row = 0, at = 0; row < {rows}; row++) {{
    uint8_t y[{most} + 1];
    const int n = row % {most} + 1;
    memset(y, 0x5A, sizeof(y));
    tvmrt_micro_requantize(y, sums + row * {most}, factors + row * {most}, n, &range);
    if (memcmp(y, expected + at, (size_t)n) != 0 || y[n] != 0x5A) printf("row %d of %d\\n", row, n);
    at += n;
  }}
  return 0;
}}
"""


@pytest.mark.parametrize("bounds", [(-128, -128, 127, 1), (3, 0, 255, 2), (111, 111, 255, 0)])
@pytest.mark.parametrize("target", ["cortex-m0plus", "cortex-m4", "cortex-m55", "rv32imac_zve32x"])
def test_boards_match_float_requantization(target, bounds, tmp_path):
    """Check rows of 1 to 12 channels: near ties and huge, fixed-point and float scales."""
    board, (zero, low, high, whole), most, rows = BOARDS[target], bounds, 12, 240
    rng = np.random.default_rng(5)
    pool = np.exp2(rng.uniform(-14, -2, 400)).astype(np.float32)
    fixed = fixed_point_multipliers(pool, zero, low, high) > 0
    scale = rng.choice(pool[~fixed], (rows, most))
    scale[:, :4] = rng.choice(pool[fixed], (rows, 4))
    scale[1::2, 8:] = rng.choice(pool[fixed], (rows // 2, 4))
    used = np.stack([requant_multipliers(row, zero, low, high) for row in scale])
    assert (used[:, :4].view(np.int32) < 0).all() and (used[:, 4:8].view(np.int32) > 0).all()
    ties = (rng.integers(low - zero - 3, high - zero + 4, scale.shape) + 0.5) / scale
    sums = (np.floor(ties.astype(np.float64)) + rng.integers(-1, 3, scale.shape)).astype(np.int32)
    sums[5::7] = rng.integers(-(1 << 30), 1 << 30, sums[5::7].shape)
    found = requantise(sums, scale, zero, low, high).astype(np.uint8)
    expected = np.concatenate([row[: i % most + 1] for i, row in enumerate(found)])
    types = {"int32_t sums": sums, "uint8_t expected": expected}
    arrays = [
        f"static const {name}[] = {{{', '.join(map(str, array.reshape(-1)))}}};"
        for name, array in types.items()
    ]
    bits = ", ".join(f"{{.fixed = {n}}}" for n in used.view(np.int32).reshape(-1))
    arrays.append(f"static const tvmrt_micro_multiplier factors[] = {{{bits}}};")
    text = BYTES_ON_BOARD.format(
        arrays="\n".join(arrays), zero=zero, low=low, high=high, whole=whole, rows=rows, most=most
    )
    (tmp_path / "main.c").write_text(break_lines(text))
    includes = [ROOT / "include"]
    image = link_image(board, [tmp_path / "main.c"], [], tmp_path / "image.elf", includes)
    assert run_image(board, image, tmp_path) == ""


def test_multipliers_are_fixed_point_per_four_channels():
    scale = np.array([0.0112, 0.0123, 0.0134, 0.5, 0.014142, 0.015708], np.float32)
    found = requant_multipliers(scale, 0, -128, 127)
    assert found.dtype == np.int32
    assert (found.view(np.float32)[:4] == scale[:4]).all()
    assert (found[4:6] < 0).all()


SCALED = """
#include <math.h>
#define TVMRT_MICRO_HAS_FPU 0
#define TVMRT_FREESTANDING 1
#include <tvm/runtime/kernels/board/common_i8.h>
void scaled(const int32_t* sums, const float* scale, int32_t* q, int n);
void scaled(const int32_t* sums, const float* scale, int32_t* q, int n) {
  for (int i = 0; i < n; i++) q[i] = tvmrt_micro_scale_and_round(sums[i], scale[i]);
}
"""


def test_accumulators_near_ties_and_of_all_magnitudes(tmp_path):
    """Check accumulators near the ties of each scale, and all magnitudes of both."""
    rng = np.random.default_rng(11)
    scale = np.exp2(rng.uniform(-40, 7.9, 200_000)).astype(np.float32)
    ties = (rng.integers(-300, 300, scale.size) + 0.5) / scale.astype(np.float64)
    ties = np.clip(ties + rng.integers(-2, 3, scale.size), -(2.0**31) + 1, 2.0**31 - 1)
    anything = np.exp2(rng.uniform(0, 31, scale.size)) * rng.choice([-1, 1], scale.size)
    sums = np.where(rng.random(scale.size) < 0.7, ties, anything)
    sums = np.clip(sums, -(2.0**31) + 1, 2.0**31 - 1).astype(np.int32)
    found = np.zeros(scale.size, np.int32)
    build(tmp_path, SCALED, CHECKED).scaled(
        pointer(sums), pointer(scale), pointer(found), scale.size
    )
    expected = np.rint(sums.astype(np.float32) * scale)
    np.testing.assert_array_equal(np.clip(found, -512, 512), np.clip(expected, -512, 512))
