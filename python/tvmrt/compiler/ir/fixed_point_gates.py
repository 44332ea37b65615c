"""Fixed-point functions of recurrent gates on 16 bits: operands are int32 in their range."""

from __future__ import annotations

import numpy as np

from .fixed_point import FixedPointOp
from .fixed_point_exp import SHORT
from .float_to_int import to_integers
from .op import define

# Entries of the logistic table that are one more than the nearest integer.
_ROUNDED_UP_ENTRIES = (
    4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40, 41,
    43, 44, 45, 46, 49, 50, 54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255,
)  # fmt: skip


def logistic_entries() -> np.ndarray:
    """Return 256 numbers: the logistic function of i / 24 in units of 2 ** -16."""
    i = np.arange(256)
    entries = to_integers(np.floor(65536 / (1 + np.exp(-i / 24)) + 0.5), np.int64)
    entries[list(_ROUNDED_UP_ENTRIES)] += 1
    return entries


def _interpolate(v: np.ndarray, bits: int, beyond_table: int) -> np.ndarray:
    """Return the table at v / 2 ** bits, times 2 ** bits; ``beyond_table`` past its end."""
    entries = logistic_entries()
    index = np.minimum(v >> bits, 255)
    slope = np.append(np.diff(entries), 0)[index]
    near = (entries[index] << bits) + slope * (v & ((1 << bits) - 1))
    return np.where(index == 255, beyond_table, near)


def logistic_by_table(v: np.ndarray) -> np.ndarray:
    """Return the logistic function of v / 24 / 2 ** 9 in units of 2 ** -15."""
    r = _interpolate(np.abs(np.int64(v)), 9, 32767 << 10)
    return (np.where(v >= 0, r + 512, (1 << 25) - r + 511) >> 10).astype(np.int32)


def tanh_by_table(v: np.ndarray) -> np.ndarray:
    """Return tanh of v / 48 / 2 ** 8 in units of 2 ** -15."""
    r = _interpolate(np.abs(np.int64(v)), 8, 65535 << 8)
    r = np.where(v >= 0, r - (1 << 23) + 128, (1 << 23) - r + 127)
    return (r >> 8).astype(np.int32)


def logistic16(x: np.ndarray) -> np.ndarray:
    """Return the logistic function of x * 2 ** -12 in units of 2 ** -15."""
    return SHORT.logistic(x, 3).astype(np.int32)


def tanh16(x: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Return tanh of x * 2 ** (k - 15) in units of 2 ** -15; k is from 0 to 4."""
    return SHORT.tanh(x, k).astype(np.int32)


for _row in (
    FixedPointOp("fixed_logistic16", ["x: int32"], logistic16),
    FixedPointOp("fixed_tanh16", ["x: int32", "k: constant int32"], tanh16),
):
    _row.header = "scalar/fixed_point_gates.h"
    define(_row)

for _row in (
    FixedPointOp("fixed_logistic_by_table", ["v: int32"], logistic_by_table),
    FixedPointOp("fixed_tanh_by_table", ["v: int32"], tanh_by_table),
):
    _row.header = "scalar/sigmoid_table.h"
    define(_row)
