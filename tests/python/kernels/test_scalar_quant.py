"""Single elements quantised and back: numpy's single roundings, bit by bit, in every build."""

from __future__ import annotations

from pathlib import Path

import kernel_build as kb
import numpy as np
import pytest

BUILDS = {
    "native": ("gcc", [*kb.OPTIMISE, "-march=native", "-ffp-contract=fast"]),
    "clang": ("clang", [*kb.OPTIMISE, "-march=native", "-ffp-contract=fast"]),
    "avx2": ("gcc", [*kb.OPTIMISE, "-mavx2", "-mfma", "-mno-avx512f", "-ffp-contract=fast"]),
    "O2-no-fma": ("gcc", ["-O2"]),
}
LITERAL = 0.037

SOURCE = f"""
#include <tvm/runtime/kernels/scalar/quant.h>
void sums(const int32_t* a, const int32_t* b, float s, float* y, int n);
void sums(const int32_t* a, const int32_t* b, float s, float* y, int n) {{
  for (int i = 0; i < n; i++) y[i] = tvmrt_dequantize(a[i], s) + tvmrt_dequantize(b[i], {LITERAL}f);
}}
void quantized(const float* x, float s, int8_t* y, int n);
void quantized(const float* x, float s, int8_t* y, int n) {{
  for (int i = 0; i < n; i++) y[i] = tvmrt_quantize_int8(x[i], s, 3);
}}
"""


def library(build: str, folder: Path) -> kb.ctypes.CDLL:
    cc, flags = BUILDS[build]
    if not kb.has_compiler(cc):
        pytest.skip(f"{cc} is not installed")
    return kb.build(folder, SOURCE, flags, cc)


SCALES = [0.1, -3.7, 1e-40, 3e37, 0.0, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("scale", SCALES)
def test_a_sum_of_dequantised_numbers_rounds_each(build, scale, build_folder):
    a, b = np.random.default_rng(3).integers(-300, 300, (2, 1001), np.int32)
    a[:2] = 0
    y = np.empty(a.size, np.float32)
    number = np.float32(scale)
    library(build, build_folder).sums(
        kb.pointer(a), kb.pointer(b), kb.ctypes.c_float(scale), kb.pointer(y), a.size
    )
    with np.errstate(all="ignore"):
        wanted = a.astype(np.float32) * number + b.astype(np.float32) * np.float32(LITERAL)
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("scale", [1.0, -2.0, 1e-40, 0.0, np.inf])
def test_quantising_saturates_and_nan_is_the_least(build, scale, build_folder):
    x = np.array([np.nan, np.inf, -np.inf, 0.5, 1.5, -0.5, 126.4, 1e30, -1e30, 0.0] * 7, np.float32)
    y = np.empty(x.size, np.int8)
    library(build, build_folder).quantized(
        kb.pointer(x), kb.ctypes.c_float(scale), kb.pointer(y), x.size
    )
    with np.errstate(all="ignore"):
        steps = np.rint(x / np.float32(scale)).astype(np.float64) + 3
    wanted = np.where(np.isnan(steps), -128, np.clip(steps, -128, 127))
    np.testing.assert_array_equal(y, wanted)
