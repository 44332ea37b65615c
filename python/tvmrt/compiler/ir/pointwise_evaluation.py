"""Functions of pointwise operators that numpy lacks, or defines in another way for integers."""

from __future__ import annotations

from math import erf

import numpy as np


def trunc_div(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a / b; of integers rounded toward zero, and 0 for a divisor of 0."""
    if np.issubdtype(a.dtype, np.floating):
        return a / b
    safe = np.where(b == 0, 1, b).astype(b.dtype)
    floor = np.floor_divide(a, safe)
    upwards = (floor * safe != a) & ((a < 0) != (safe < 0))
    return np.where(b == 0, 0, floor + upwards).astype(a.dtype)


def shift(a: np.ndarray, b: np.ndarray, left: bool) -> np.ndarray:
    """Return a shifted by b bits; a count that is negative or too large leaves signs."""
    bits = a.dtype.itemsize * 8
    moved = np.left_shift(a, b % bits) if left else np.right_shift(a, b % bits)
    beyond = np.where((a < 0) & (not left), -1, 0).astype(a.dtype)
    return np.where((b >= 0) & (b < bits), moved, beyond).astype(a.dtype)


def power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a to the power of b, of integers as ``wrapped_pow``."""
    if np.issubdtype(a.dtype, np.floating):
        return np.power(a.astype(np.float64), b).astype(a.dtype)
    return wrapped_pow(a, b)


def wrapped_pow(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return integer powers that wrap around; a negative exponent gives 0 unless abs(a) is 1."""
    with np.errstate(over="ignore"):
        base, rest = a.astype(np.uint64), b.astype(np.uint64)
        result = np.ones(np.broadcast_shapes(a.shape, b.shape), np.uint64)
        for _ in range(64):
            result = np.where(rest & 1, result * base, result).astype(np.uint64)
            base, rest = base * base, rest >> np.uint64(1)
    return np.where((b < 0) & (np.abs(a) != 1), 0, result).astype(a.dtype)


def elementwise_erf(x: np.ndarray) -> np.ndarray:
    """Return the error function of each element."""
    return np.vectorize(erf, otypes=[x.dtype])(x) if x.size else x


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-x)), computed without overflow."""
    return (0.5 * (np.tanh(0.5 * x) + 1)).astype(x.dtype)
