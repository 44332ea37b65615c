"""Float softmax and normalisations against their definitions in numpy, in double."""

from __future__ import annotations

from pathlib import Path

import kernel_build as kb
import numpy as np
import pytest

BUILDS = {
    name: kb.BUILDS[name]
    for name in (
        "native",
        "native-clang",
        "avx2",
        "sse2-O2",
        "plain-O2",
        "three-tasks",
        "sanitised",
    )
}

SOURCE = r"""
#include <tvm/runtime/kernels/op/norm.h>
#include <tvm/runtime/kernels/op/softmax.h>
int softmax(const float* x, float* y, const int64_t* sizes, int32_t log);
int softmax(const float* x, float* y, const int64_t* sizes, int32_t log) {
  return tvmrt_softmax_f32(tvmrt_softmax_f32_task, log, x, y, sizes[0], sizes[1], sizes[2]);
}
int layer_norm(const float* x, const float* scale, const float* shift, float* y,
    const int64_t* sizes, int32_t centre);
int layer_norm(const float* x, const float* scale, const float* shift, float* y,
    const int64_t* sizes, int32_t centre) {
  const tvmrt_layer_norm_f32_layer layer = {
      .rows = sizes[0], .n = sizes[1], .x_stride = sizes[2], .y_stride = sizes[1], .epsilon =
          1e-5f, .centre = centre};
  return tvmrt_layer_norm_f32(&layer, x, scale, shift, y);
}
int group_norm(const float* x, const float* scale, const float* shift, float* y,
    const int32_t* sizes);
int group_norm(const float* x, const float* scale, const float* shift, float* y,
    const int32_t* sizes) {
  const tvmrt_group_norm_f32_layer layer = {
      .batch = sizes[0], .pixels = sizes[1], .channels = sizes[2], .groups = sizes[3],
      .x_stride = sizes[2], .y_stride = sizes[2], .epsilon = 1e-5f};
  return tvmrt_group_norm_f32(&layer, x, scale, shift, y);
}
int lrn(const float* x, float* y, const int32_t* sizes, const float* constants);
int lrn(const float* x, float* y, const int32_t* sizes, const float* constants) {
  const tvmrt_lrn_f32_layer layer = {
      .pixels = sizes[0], .channels = sizes[1], .x_stride = sizes[1], .y_stride = sizes[1], .size =
      sizes[2],
      .alpha = constants[0], .beta = constants[1], .bias = constants[2]};
  return tvmrt_lrn_f32(&layer, x, y);
}
"""


@pytest.fixture(params=BUILDS)
def library(request: pytest.FixtureRequest, build_folder: Path) -> kb.ctypes.CDLL:
    cc, flags, _ = BUILDS[request.param]
    if not kb.has_compiler(cc):
        pytest.skip(f"{cc} is not installed")
    return kb.build(build_folder, SOURCE, flags, cc)


def random(*shape: int) -> np.ndarray:
    return (np.random.default_rng(8).standard_normal(shape) * 3).astype(np.float32)


def ints(*values: int, dtype: type = np.int64) -> np.ndarray:
    return np.array(values, dtype)


@pytest.mark.parametrize("log", [0, 1], ids=["softmax", "log-softmax"])
@pytest.mark.parametrize(
    "shape",
    [
        (4, 10, 1), (3, 1000, 1), (1, 1, 1), (7, 33, 1), (2, 5, 70), (3, 21, 8), (2, 64, 17),
        (2, 65, 17), (70, 1, 1), (37, 2, 1), (50, 4, 1), (33, 8, 1),
    ],
)  # fmt: skip
def test_softmax_sums_to_one_along_the_axis(
    library: kb.ctypes.CDLL, shape: tuple[int, int, int], log: int
) -> None:
    x = random(*shape)
    memory, whole = kb.guarded(x)
    sizes = ints(*shape)
    assert library.softmax(kb.pointer(memory), kb.pointer(memory), kb.pointer(sizes), log) == 0
    shifted = x.astype(np.float64) - x.max(axis=1, keepdims=True)
    expected = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(memory, expected if log else np.exp(expected), rtol=3e-6, atol=3e-7)
    assert kb.guards_intact(whole)


def test_softmax_of_large_and_masked_values(library: kb.ctypes.CDLL) -> None:
    x = np.array([[1e30, 1e30, -np.inf], [-1e30, 0.0, -np.inf]], np.float32)
    right = np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]], np.float32)
    rows, columns = ints(2, 3, 1), ints(1, 3, 2)
    for sizes, given, wanted in ((rows, x, right), (columns, x.T.copy(), right.T)):
        y = np.empty_like(given)
        assert library.softmax(kb.pointer(given), kb.pointer(y), kb.pointer(sizes), 0) == 0
        np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("inner", [1, 3])
@pytest.mark.parametrize("log", [0, 1], ids=["softmax", "log-softmax"])
def test_a_softmax_that_has_no_value_is_nan(library: kb.ctypes.CDLL, inner: int, log: int) -> None:
    x = np.zeros((5, 4, inner), np.float32)
    x[1, 2], x[3] = np.nan, -np.inf
    y = np.empty_like(x)
    assert library.softmax(kb.pointer(x), kb.pointer(y), kb.pointer(ints(*x.shape)), log) == 0
    assert np.isnan(y[[1, 3]]).all()
    np.testing.assert_allclose(y[[0, 2, 4]], np.log(0.25) if log else 0.25, rtol=1e-6)


@pytest.mark.parametrize("centre", [1, 0], ids=["layer", "rms"])
@pytest.mark.parametrize("affine", ["both", "scale", "none"])
@pytest.mark.parametrize("n", [1, 5, 64, 257])
def test_layer_norm_equals_definition(
    library: kb.ctypes.CDLL, n: int, affine: str, centre: int
) -> None:
    x = random(9, n + 3) + 5
    scale = random(n) if affine != "none" else None
    shift = random(n + 1)[1:].copy() if affine == "both" else None
    y, whole = kb.guarded(np.zeros((9, n), np.float32))
    sizes = ints(9, n, n + 3)
    arrays = (x, scale, shift, y, sizes)
    assert library.layer_norm(*(kb.pointer(array) for array in arrays), centre) == 0
    wide = x[:, :n].astype(np.float64)
    mean = wide.mean(axis=1, keepdims=True) * centre
    expected = (wide - mean) / np.sqrt(((wide - mean) ** 2).mean(axis=1, keepdims=True) + 1e-5)
    expected = expected * (1 if scale is None else scale) + (0 if shift is None else shift)
    np.testing.assert_allclose(y, expected, rtol=2e-5, atol=2e-4 if n == 1 else 1e-5)
    assert kb.guards_intact(whole)


@pytest.mark.parametrize("groups", [1, 3, 12], ids=lambda g: f"groups{g}")
@pytest.mark.parametrize("affine", [True, False])
def test_group_norm_equals_definition(library: kb.ctypes.CDLL, groups: int, affine: bool) -> None:
    x = random(2, 150, 12) + 2
    scale, shift = (random(12), random(13)[1:].copy()) if affine else (None, None)
    y = np.empty_like(x)
    sizes = ints(2, 150, 12, groups, dtype=np.int32)
    assert library.group_norm(*(kb.pointer(array) for array in (x, scale, shift, y, sizes))) == 0
    grouped = x.astype(np.float64).reshape(2, 150, groups, 12 // groups)
    mean = grouped.mean(axis=(1, 3), keepdims=True)
    variance = grouped.var(axis=(1, 3), keepdims=True)
    expected = ((grouped - mean) / np.sqrt(variance + 1e-5)).reshape(x.shape)
    expected = expected * (1 if scale is None else scale) + (0 if shift is None else shift)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("beta", [0.75, 0.5])
@pytest.mark.parametrize("size", [1, 4, 5])
def test_lrn_equals_definition(library: kb.ctypes.CDLL, size: int, beta: float) -> None:
    x = random(10, 33)
    y, whole = kb.guarded(np.zeros_like(x))
    sizes = ints(10, 33, size, dtype=np.int32)
    constants = np.array([1e-2, beta, 2.0], np.float32)
    assert library.lrn(*(kb.pointer(array) for array in (x, y, sizes, constants))) == 0
    square = x.astype(np.float64) ** 2
    sums = np.zeros_like(square)
    for c in range(33):
        sums[:, c] = square[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1].sum(axis=1)
    alpha = float(constants[0])
    np.testing.assert_allclose(y, x / (2.0 + alpha / size * sums) ** beta, rtol=3e-6)
    assert kb.guards_intact(whole)
