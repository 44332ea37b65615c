"""Software floating point (``scalar/soft_float.h``; comparison in ``scalar/math.h``) and its use in
integer networks, compared with numpy."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_build import build, pointer

SOURCE = """
#define TVMRT_SOFT_FLOAT 1
#define TVMRT_ORDER_BY_BITS 1
#define TVMRT_FREESTANDING 1
#include <tvm/runtime/kernels/op/softmax.h>
#include <tvm/runtime/kernels/scalar/quant.h>
#define EACH(NAME, TYPE, EXPRESSION)                             \\
  void NAME(const float* x, const float* y, TYPE* z, int n);     \\
  void NAME(const float* x, const float* y, TYPE* z, int n) {    \\
    for (int i = 0; i < n; i++) z[i] = EXPRESSION;               \\
  }
EACH(plus, float, tvmrt_add_f32(x[i], y[i]))
EACH(times, float, tvmrt_mul_f32(x[i], y[i]))
EACH(over, float, tvmrt_div_f32(x[i], y[i]))
EACH(larger, float, tvmrt_max_f32(x[i], y[i]))
EACH(smaller, float, tvmrt_min_f32(x[i], y[i]))
EACH(less, int32_t, tvmrt_less_f32(x[i], y[i]))
EACH(nearest, int32_t, ((void)y, tvmrt_round_to_int32(x[i])))
EACH(quantised, int32_t, tvmrt_quantize_int8(x[i], y[i], 3))
void whole(const int32_t* x, float* z, int n);
void whole(const int32_t* x, float* z, int n) {
  for (int i = 0; i < n; i++) z[i] = tvmrt_dequantize(x[i], 1.0f);
}
void softmax(const float* x, float* y, int rows, int n);
void softmax(const float* x, float* y, int rows, int n) {
  for (int i = 0; i < rows; i++) tvmrt_softmax_row_f32(x + i * n, y + i * n, n);
}
"""
COUNT = 400_000
SPECIAL = np.array(
    [0, 1, 2, 0x7FFFFF, 0x800000, 0x800001, 0x3F800000, 0x3F7FFFFF, 0x4B000000, 0x7F7FFFFF,
     0x7F800000, 0x7FC00000], np.uint32,
)  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    flags = ["-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all"]
    return build(tmp_path_factory.mktemp("soft"), SOURCE, flags)


def pairs(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return random pairs of floats, pairs of similar magnitude, and pairs of special values."""
    x, y = rng.integers(0, 1 << 32, (2, COUNT), np.uint64).astype(np.uint32)
    part = COUNT // 2
    y[:part] = (x[:part] + (rng.integers(-40, 41, part) << 23).astype(np.uint32)) ^ (
        rng.integers(0, 2, part).astype(np.uint32) << 31
    )
    y[: part // 2] = x[: part // 2] + rng.integers(-9, 10, part // 2).astype(np.uint32)
    y[: part // 4] ^= np.uint32(1 << 31)
    both = np.concatenate([SPECIAL, SPECIAL | np.uint32(1 << 31)])
    a, b = np.meshgrid(both, both)
    x = np.concatenate([x, a.reshape(-1)]).view(np.float32)
    return x, np.concatenate([y, b.reshape(-1)]).view(np.float32)


@pytest.mark.parametrize("name", ["plus", "times", "over"])
def test_bits_match_hardware_float(name, library):
    x, y = pairs(np.random.default_rng(17))
    z = np.zeros_like(x)
    library[name](pointer(x), pointer(y), pointer(z), x.size)
    with np.errstate(all="ignore"):
        expected = {"plus": np.add, "times": np.multiply, "over": np.divide}[name](x, y)
    assert 0.001 < np.mean(np.abs(expected) < 2.0**-126) < 0.5  # including subnormals and zeros
    nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(z), nan)
    np.testing.assert_array_equal(z.view(np.uint32)[~nan], expected.view(np.uint32)[~nan])


@pytest.mark.parametrize("name, exact", [("larger", np.maximum), ("smaller", np.minimum)])
def test_min_and_max_match_numpy(name, exact, library):
    x, y = pairs(np.random.default_rng(18))
    z = np.zeros_like(x)
    library[name](pointer(x), pointer(y), pointer(z), x.size)
    np.testing.assert_array_equal(z, exact(x, y))


def test_order_and_integers(library):
    rng = np.random.default_rng(19)
    x, y = pairs(rng)
    number = ~np.isnan(x) & ~np.isnan(y) & ~((x == 0) & (y == 0))
    x, y = x[number], y[number]
    found = np.zeros(x.size, np.int32)
    library.less(pointer(x), pointer(y), pointer(found), x.size)
    np.testing.assert_array_equal(found != 0, x < y)
    x = (rng.integers(-(1 << 17), 1 << 17, COUNT) / 256).astype(np.float32)  # including ties
    x = np.append(x, np.float32([1e30, -1e30, np.inf, -np.inf, 0.49999997, 8388607.5, np.nan]))
    found = np.zeros(x.size, np.int32)
    library.nearest(pointer(x), None, pointer(found), x.size)
    bound = 1 << 23
    expected = np.clip(np.nan_to_num(np.rint(x), nan=-np.inf), -bound, bound)
    np.testing.assert_array_equal(found, expected)
    n = rng.integers(-(1 << 31), 1 << 31, COUNT).astype(np.int32) >> rng.integers(0, 31, COUNT)
    n = np.append(n.astype(np.int32), np.int32([0, 1, -1, -(1 << 31), (1 << 31) - 1]))
    z = np.zeros(n.size, np.float32)
    library.whole(pointer(n), pointer(z), n.size)
    np.testing.assert_array_equal(z.view(np.uint32), n.astype(np.float32).view(np.uint32))


def test_quantised_next_to_ties(library):
    rng = np.random.default_rng(23)
    scale = np.exp2(rng.uniform(-20, 8, COUNT)).astype(np.float32)
    x = ((rng.integers(-140, 140, COUNT) + 0.5) * scale.astype(np.float64)).astype(np.float32)
    x = (x.view(np.int32) + rng.integers(-2, 3, COUNT).astype(np.int32)).view(np.float32)
    x[:3] = np.inf, -np.inf, np.nan
    found = np.zeros(COUNT, np.int32)
    library.quantised(pointer(x), pointer(scale), pointer(found), COUNT)
    expected = np.clip(np.nan_to_num(np.rint(x / scale), nan=-np.inf) + 3, -128, 127)
    np.testing.assert_array_equal(found, expected)


def test_softmax_is_exact_to_a_few_digits(library):
    rng = np.random.default_rng(29)
    x = (rng.standard_normal((200, 12)) * rng.choice([1, 10, 60], (200, 1))).astype(np.float32)
    y = np.zeros_like(x)
    library.softmax(pointer(x), pointer(y), *x.shape)
    wide = np.exp((x - x.max(axis=1, keepdims=True)).astype(np.float64))
    np.testing.assert_allclose(y, wide / wide.sum(axis=1, keepdims=True), rtol=1e-6, atol=1e-37)
    none = np.full((1, 3), -np.inf, np.float32)
    library.softmax(pointer(none), pointer(none), 1, 3)
    assert np.isnan(none).all()
