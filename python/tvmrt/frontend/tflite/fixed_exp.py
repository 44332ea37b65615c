"""Functions of fractions in fixed point, on whole tables at a time."""

from __future__ import annotations

import numpy as np

from tvmrt.ir.fixed_point import product, shift

# exp(-2 ** n) as fractions, for n from -2 on
_POWERS = {
    -2: 1672461947, -1: 1302514674, 0: 790015084, 1: 290630308, 2: 39332535, 3: 720401, 4: 242,
}  # fmt: skip


def _mul(a: np.ndarray, b: np.ndarray | int) -> np.ndarray:
    return product(np.asarray(a, np.int32), np.int32(b) if isinstance(b, int) else b).astype(
        np.int64
    )


def _near_exp(a: np.ndarray) -> np.ndarray:
    """exp of fractions from -1/4 to 0: a Taylor series about -1/8."""
    x = a + (1 << 28)
    x2 = _mul(x, x.astype(np.int32))
    x3 = _mul(x2, x.astype(np.int32))
    x4 = _mul(x2, x2.astype(np.int32))
    rest = shift(_mul(shift(x4, 2) + x3, 715827883) + x2, 1).astype(np.int64)
    return 1895147668 + _mul(x + rest, 1895147668)


def exp_fraction(a: np.ndarray, integer_bits: int) -> np.ndarray:
    """exp of numbers up to 0 with so many integer bits, as fractions (int64)."""
    a = np.asarray(a, np.int64)
    bits = 31 - integer_bits
    quarter = 1 << (bits - 2)
    near = (a & (quarter - 1)) - quarter
    result = _near_exp(near << integer_bits)
    rest = near - a
    for n, factor in _POWERS.items():
        if n < integer_bits:
            result = np.where(rest & (1 << (bits + n)), _mul(result, factor), result)
    if integer_bits > 5:
        result = np.where(a < -(1 << (bits + 5)), 0, result)
    return np.where(a == 0, 2**31 - 1, result)
