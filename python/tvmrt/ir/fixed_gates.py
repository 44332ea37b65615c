"""Functions of recurrent gates on 16 bits in fixed point: operands are int32 in their range."""

from __future__ import annotations

import numpy as np

from .fixed_point import FixedPointOp, shift
from .op import define

# exp(-2 ** n) in units of 2 ** -15, for n from -2 on
_POWERS = (25520, 19875, 12055, 4435, 600, 11)


def _mul(a: np.ndarray, b: np.ndarray | int) -> np.ndarray:
    return np.minimum((np.int64(a) * b + (1 << 14)) >> 15, 32767)


def _half_up(x: np.ndarray, n: int) -> np.ndarray:
    return shift(x, np.int64(n)).astype(np.int64)


def _exp(a: np.ndarray, integer_bits: np.ndarray) -> np.ndarray:
    """exp of numbers up to 0 with so many integer bits, in units of 2 ** -15."""
    a, k = np.int64(a), np.int64(integer_bits)
    bits = 15 - k
    quarter = np.int64(1) << (bits - 2)
    near = (a & (quarter - 1)) - quarter
    x = (near << k) + (1 << 12)
    x2 = _mul(x, x)
    x3, x4 = _mul(x2, x), _mul(x2, x2)
    rest = _half_up(_mul(_half_up(x4, 2) + x3, 10923) + x2, 1)
    result = 28918 + _mul(x + rest, 28918)
    for n, factor in enumerate(_POWERS, -2):
        taken = ((near - a) >> np.clip(bits + n, 0, 62)) & 1
        result = np.where((n < k) & (taken == 1), _mul(result, factor), result)
    return np.where(a == 0, 32767, result)


def _newton(a: np.ndarray) -> np.ndarray:
    """1 / (1 + a) of fractions from 0 on, with two integer bits."""
    half = (a + 32768) >> 1
    x = 23130 + _mul(half, -15420)
    for _ in range(3):
        step = _mul(x, 8192 - _mul(half, x))
        x = x + np.clip(step * 4, -32768, 32767)
    return x


def logistic16(x: np.ndarray) -> np.ndarray:
    """The logistic function of x * 2 ** -12 in units of 2 ** -15."""
    x = np.int64(x)
    above = np.minimum(_newton(_exp(-np.abs(x), np.int64(3))) * 2, 32767)
    y = np.where(x > 0, above, 32767 - above)
    return np.where(x == 0, 16384, y).astype(np.int32)


def tanh16(x: np.ndarray, k: np.ndarray) -> np.ndarray:
    """tanh of x * 2 ** (k - 15) in units of 2 ** -15; k is from 0 to 4."""
    x = np.int64(x)
    size = np.clip((_newton(_exp(-np.abs(x), np.int64(k) + 1)) - 8192) * 4, -32768, 32767)
    return np.where(x == 0, 0, np.where(x > 0, size, -size)).astype(np.int32)


for _row in (
    FixedPointOp("fixed_logistic16", ["x: int32"], logistic16),
    FixedPointOp("fixed_tanh16", ["x: int32", "k: constant int32"], tanh16),
):
    _row.header = "scalar/fixed_gates.h"
    define(_row)
