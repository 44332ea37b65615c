"""Functions of fractions in fixed point, on whole tables at a time."""

from __future__ import annotations

import numpy as np

from .fixed_point import product, shift

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


def _newton(a: np.ndarray) -> np.ndarray:
    """1 / (1 + a) for fractions from 0 on, with two integer bits."""
    half = (a + (1 << 31)) >> 1
    x = 1515870810 + _mul(half, -1010580540)
    for _ in range(3):
        error = (1 << 29) - _mul(half, x.astype(np.int32))
        step = np.clip(_mul(x, error.astype(np.int32)) * 4, -(2**31), 2**31 - 1)
        x = (x + step).astype(np.int32).astype(np.int64)
    return x


def logistic_fraction(a: np.ndarray, integer_bits: int) -> np.ndarray:
    """The logistic function of numbers with so many integer bits, as fractions (int64)."""
    a = np.asarray(a, np.int64)
    positive = np.minimum(_newton(exp_fraction(-np.abs(a), integer_bits)) * 2, 2**31 - 1)
    return np.where(a == 0, 1 << 30, np.where(a > 0, positive, 2**31 - 1 - positive))


def tanh_fraction(a: np.ndarray, integer_bits: int) -> np.ndarray:
    """tanh of numbers with so many integer bits, as fractions (int64)."""
    a = np.asarray(a, np.int64)
    # of twice the number: one integer bit more of the same integer
    x = _newton(exp_fraction(-np.abs(a), integer_bits + 1)) - (1 << 29)
    size = np.clip(x * 4, -(2**31), 2**31 - 1)
    return np.where(a == 0, 0, np.where(a > 0, size, -size))


def inverse_square_root(n: int) -> tuple[int, int]:
    """(m, e): 1 / sqrt(n) as a multiplier."""
    if n <= 1:
        return 2**31 - 1, 0
    e = 11
    while n >= 1 << 29:
        n, e = n // 4, e + 1
    pairs = (32 - n.bit_length() - 1) // 2 - 1
    e -= pairs
    n <<= 2 * pairs
    f = n >> 1
    x = np.asarray(1 << 28, np.int64)

    def mul(a: np.ndarray, b: np.ndarray | int) -> np.ndarray:
        return _mul(a, np.asarray(b, np.int32))

    def saturated(a: np.ndarray) -> np.ndarray:
        return np.clip(a, -(2**31), 2**31 - 1)

    for _ in range(5):
        cube = saturated(mul(mul(x, x), x) << 6)
        half = shift(np.asarray(f, np.int64), np.asarray(1))
        x = saturated((mul(np.asarray(402653184), x) - mul(half.astype(np.int64), cube)) << 3)
    x = mul(x, 1518500250)
    if e < 0:
        x, e = x << -e, 0
    return int(x), -e
