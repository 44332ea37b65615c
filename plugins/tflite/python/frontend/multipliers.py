"""Bounds of activations and other constants of quantised arithmetic in the format."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tvmrt.compiler.sdk.arithmetic import rounded, storage_range
from tvmrt.compiler.sdk.graph import DTYPES
from tvmrt.error import UnsupportedError

ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")
# Real lower and upper bound of each activation.
BOUNDS = {
    "NONE": (None, None),
    "RELU": (0.0, None),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU6": (0.0, 6.0),
    "RELU_0_TO_1": (0.0, 1.0),
}
f32 = np.float32


def ratio(number: Any, scale: Any) -> Any:
    """Divide a number by a scale in their common type. A scale of 0 means an all-zero tensor: the
    result is 0. LiteRT's quotient is NaN in this case, and its multiplier is 0, too."""
    return number / scale if scale else number * 0


def activation_name(code: int) -> str:
    """Return the name of an activation code. Raises UnsupportedError for an unknown one."""
    if not 0 <= code < len(ACTIVATIONS):
        raise UnsupportedError(f"unknown activation code {code}")
    return ACTIVATIONS[code]


def quantized_bounds(activation: str, scale: np.float32, zero: int, dtype: str) -> tuple[int, int]:
    """Return the minimum and maximum quantised value of an activation's result."""
    if activation not in BOUNDS:
        raise UnsupportedError(f"activation {activation} of an integer tensor")
    low, high = storage_range(DTYPES[dtype])
    minimum, maximum = BOUNDS[activation]
    if minimum is not None:
        low = max(low, zero + rounded(float(ratio(f32(minimum), scale))))
    if maximum is not None:
        high = min(high, zero + rounded(float(ratio(f32(maximum), scale))))
    return low, high


def power_of_two(scale: np.float32) -> int | None:
    """Return the exponent of a power-of-two scale, or None for other scales."""
    if not scale:
        return None
    exponent = math.log2(float(scale))
    whole = rounded(exponent)
    return whole if abs(exponent - whole) < 1e-3 else None
