"""The float functions against numpy in double: accuracy, limits, special values."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import kernel_build as kb
import numpy as np
import pytest

erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.where(x < 0, np.exp(-np.abs(x)), 1.0) / (1.0 + np.exp(-np.abs(x)))


def softplus(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


# name -> (reference, largest |x| tried, units in the last place, absolute error also allowed)
FUNCTIONS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float, float, float]] = {
    "exp": (np.exp, 110.0, 2.0, 0.0),
    "log": (np.log, 3e38, 2.0, 0.0),
    "expm1": (np.expm1, 110.0, 4.0, 0.0),
    "log1p": (np.log1p, 3e38, 4.0, 0.0),
    "tanh": (np.tanh, 30.0, 4.0, 0.0),
    "sigmoid": (sigmoid, 110.0, 4.0, 1.2e-38),
    "silu": (lambda x: x * sigmoid(x), 3e38, 4.0, 1.5e-36),
    "erf": (erf, 10.0, 2.0, 0.0),
    "softplus": (softplus, 110.0, 4.0, 1.2e-38),
    "sin": (np.sin, 3.4e38, 2.0, 0.0),
    "cos": (np.cos, 3.4e38, 2.0, 0.0),
    "tan": (np.tan, 3.4e38, 4.0, 0.0),
    "near_sin": (np.sin, 1048576.0, 2.0, 0.0),
    "near_cos": (np.cos, 1048576.0, 2.0, 0.0),
    "near_tan": (np.tan, 1048576.0, 4.0, 0.0),
    "floor": (np.floor, 1e8, 0.0, 0.0),
    "ceil": (np.ceil, 1e8, 0.0, 0.0),
    "sign": (np.sign, 10.0, 0.0, 0.0),
}

BUILDS = {
    "native": ("gcc", [*kb.OPTIMISE, "-march=native"]),
    "clang": ("clang", [*kb.OPTIMISE, "-march=native"]),
    "avx2": ("gcc", [*kb.OPTIMISE, "-mavx2", "-mfma", "-mno-avx512f"]),
    "O2-no-fma": ("gcc", ["-O2"]),
}


def source() -> str:
    lines = ["#include <tvm/runtime/kernels/scalar/math.h>"]
    for name in FUNCTIONS:
        lines.append(f"""
void each_{name}(const float* x, float* y, int64_t n);
void each_{name}(const float* x, float* y, int64_t n) {{
  for (int64_t i = 0; i < n; i++) y[i] = tvmrt_{name}_f32(x[i]);
}}""")
    lines.append("""
void each_pow(const float* x, const float* p, float* y, int64_t n);
void each_pow(const float* x, const float* p, float* y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = tvmrt_pow_f32(x[i], p[i]);
}""")
    return "\n".join(lines)


def library(build: str, folder: Path) -> kb.ctypes.CDLL:
    cc, flags = BUILDS[build]
    if not kb.has_compiler(cc):
        pytest.skip(f"{cc} is not installed")
    return kb.build(folder, source(), flags, cc)


def arguments(largest: float) -> np.ndarray:
    """Values of all sizes and both signs, with zeros, denormals and the largest."""
    rng = np.random.default_rng(4)
    dense = rng.uniform(-min(largest, 20.0), min(largest, 20.0), 40000)
    sizes = np.exp(rng.uniform(np.log(1e-44), np.log(largest), 40000)) * rng.choice(
        [-1.0, 1.0], 40000
    )
    halves = np.arange(-20, 20) / 2
    special = [0.0, -0.0, 1.0, -1.0, 1e-45, 1.17549435e-38, largest, -largest]
    return np.concatenate([dense, sizes, halves, special]).astype(np.float32)


def units(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Distance in units in the last place of the expected value."""
    rounded = np.abs(expected).astype(np.float32)
    unit = np.spacing(np.minimum(rounded, np.float32(3.4e38))).astype(np.float64)
    return np.abs(got.astype(np.float64) - expected) / unit


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_function_is_accurate(name: str, build: str, build_folder: Path) -> None:
    reference, largest, allowed, absolute = FUNCTIONS[name]
    x = arguments(largest)
    y = np.empty_like(x)
    library(build, build_folder)[f"each_{name}"](
        kb.pointer(x), kb.pointer(y), kb.ctypes.c_int64(x.size)
    )
    expected = reference(x.astype(np.float64))
    overflow = np.abs(expected) > np.finfo(np.float32).max
    assert (np.isnan(y) == np.isnan(expected)).all()
    assert (y[overflow] == np.sign(expected[overflow]) * np.inf).all()
    finite = np.isfinite(expected) & ~overflow
    error = units(y[finite], expected[finite])
    bad = (error > allowed) & (np.abs(y[finite] - expected[finite]) > absolute)
    worst = np.argmax(np.where(bad, error, 0))
    assert not bad.any(), (
        name,
        x[finite][worst],
        y[finite][worst],
        expected[finite][worst],
        error[worst],
    )


LIMITS = {
    "exp": (np.inf, 0.0),
    "log": (np.inf, np.nan),
    "expm1": (np.inf, -1.0),
    "log1p": (np.inf, np.nan),
    "tanh": (1.0, -1.0),
    "sigmoid": (1.0, 0.0),
    "silu": (np.inf, np.nan),
    "erf": (1.0, -1.0),
    "softplus": (np.inf, 0.0),
    "sin": (np.nan, np.nan),
    "cos": (np.nan, np.nan),
    "tan": (np.nan, np.nan),
    "floor": (np.inf, -np.inf),
    "sign": (1.0, -1.0),
}


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("name", LIMITS)
def test_infinities_give_limits_and_nan_stays(name: str, build: str, build_folder: Path) -> None:
    x = np.array([np.inf, -np.inf, np.nan], np.float32)
    y = np.empty_like(x)
    library(build, build_folder)[f"each_{name}"](
        kb.pointer(x), kb.pointer(y), kb.ctypes.c_int64(x.size)
    )
    np.testing.assert_array_equal(y, [*LIMITS[name], np.nan])


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("name", ["sin", "near_sin", "tan", "tanh", "erf", "floor"])
def test_zero_keeps_its_sign(name: str, build: str, build_folder: Path) -> None:
    x = np.array([-0.0, 0.0] * 20, np.float32)
    y = np.ones_like(x)
    library(build, build_folder)[f"each_{name}"](
        kb.pointer(x), kb.pointer(y), kb.ctypes.c_int64(x.size)
    )
    np.testing.assert_array_equal(np.signbit(y), np.signbit(x))


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_pow_is_that_of_c(build: str, build_folder: Path) -> None:
    rng = np.random.default_rng(5)
    special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        -2.0,
        0.5,
        -0.5,
        3.0,
        -3.0,
        np.inf,
        -np.inf,
        np.nan,
        1e-45,
        3e38,
    ]
    grid = np.array([(a, b) for a in special for b in special], np.float32)
    many = np.stack([np.exp(rng.uniform(-80, 80, 20000)), rng.uniform(-20, 20, 20000)], axis=1)
    signed = np.stack([rng.uniform(-9, 9, 2000), np.rint(rng.uniform(-9, 9, 2000))], axis=1)
    pairs = np.concatenate([grid, many.astype(np.float32), signed.astype(np.float32)])
    x, p = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
    y = np.empty_like(x)
    run = library(build, build_folder).each_pow
    run(kb.pointer(x), kb.pointer(p), kb.pointer(y), kb.ctypes.c_int64(x.size))
    expected = np.power(x.astype(np.float64), p.astype(np.float64))
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(y, expected.astype(np.float32), rtol=1.3e-7, atol=1e-45)
