"""Real multipliers as the format's kernels hold them, and the bounds of activations."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from tvmrt.error import UnsupportedError
from tvmrt.ir import DTYPES
from tvmrt.ir.quantized import storage_range

ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")
# What an activation keeps its operand between, as real numbers.
BOUNDS = {
    "NONE": (None, None),
    "RELU": (0.0, None),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU6": (0.0, 6.0),
    "RELU_0_TO_1": (0.0, 1.0),
}
f32 = np.float32


def rounded(x: float) -> int:
    """The nearest whole number, halves away from zero."""
    whole = math.floor(abs(x))
    whole += abs(x) - whole >= 0.5
    return int(math.copysign(whole, x)) if whole else 0


def multiplier(real: float) -> tuple[int, int]:
    """(m, e) of a multiplier: m * 2 ** (e - 31), m from 2 ** 30 on; (0, 0) for next to nothing.

    Raises ValueError where it is not finite or too large.
    """
    if not math.isfinite(real) or abs(real) >= 2.0**30:
        raise ValueError(f"its scales make a multiplier of {real}; quantise the model again")
    fraction, exponent = math.frexp(real)
    m = rounded(fraction * 2.0**31)
    if abs(m) == 1 << 31:
        m, exponent = m // 2, exponent + 1
    return (0, 0) if exponent < -31 or m == 0 else (m, exponent)


def multipliers(reals: Iterable[float]) -> tuple[np.ndarray, np.ndarray]:
    """The same of several, as two arrays of int32."""
    pairs = [multiplier(float(real)) for real in reals]
    return np.array([m for m, _ in pairs], np.int32), np.array([e for _, e in pairs], np.int32)


def activation_name(code: int) -> str:
    """The activation of a number. Raises UnsupportedError for one that there is not."""
    if not 0 <= code < len(ACTIVATIONS):
        raise UnsupportedError(f"activation number {code} is not known")
    return ACTIVATIONS[code]


def quantized_bounds(activation: str, scale: np.float32, zero: int, dtype: str) -> tuple[int, int]:
    """Least and greatest integer that an activation leaves."""
    if activation not in BOUNDS:
        raise UnsupportedError(f"activation {activation} of integers")
    low, high = storage_range(DTYPES[dtype])
    least, most = BOUNDS[activation]
    if least is not None:
        low = max(low, zero + rounded(float(f32(least) / scale)))
    if most is not None:
        high = min(high, zero + rounded(float(f32(most) / scale)))
    return low, high


def power_of_two(scale: np.float32) -> int | None:
    """The exponent of a scale that is a power of two, else None."""
    exponent = math.log2(float(scale))
    whole = rounded(exponent)
    return whole if abs(exponent - whole) < 1e-3 else None
