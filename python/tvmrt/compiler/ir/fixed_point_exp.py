"""Fixed-point functions on whole numpy arrays, bit-identical to the kernels.

Results are int64 fractions in units of 2 ** -``bits``, below 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp
from typing import Any

import numpy as np


def shift(x: np.ndarray, n: Any) -> np.ndarray:
    """Return x / 2 ** n rounded to nearest, halves away from zero."""
    x, n = np.int64(x), np.int64(n)
    rest, mask = x & ((1 << n) - 1), (1 << n) - 1
    return ((x >> n) + (rest > (mask >> 1) + (x < 0))).astype(np.int32)


class Fractions:
    """Fractions of ``bits`` bits. exp is a product of constants exp(-2 ** n), n in ``powers``, and
    of a Taylor series near 0."""

    def __init__(self, bits: int, powers: Iterable[int]) -> None:
        self.bits, self.one, self.top = bits, 1 << bits, (1 << bits) - 1
        self.factors = {n: self.of(exp(-(2.0**n))) for n in powers}

    def of(self, x: float) -> int:
        """Return the fraction nearest to a number."""
        return round(x * self.one)

    def mul(self, a: np.ndarray, b: Any) -> np.ndarray:
        """Return a * b rounded to nearest, halves upwards, saturated."""
        return np.minimum((np.int64(a) * b + (self.one >> 1)) >> self.bits, self.top)

    def _exp_near_zero(self, a: np.ndarray) -> np.ndarray:
        """Return exp of fractions from -1/4 to 0: a Taylor series about -1/8."""
        x = a + (self.one >> 3)
        x2 = self.mul(x, x)
        x3, x4 = self.mul(x2, x), self.mul(x2, x2)
        rest = np.int64(shift(self.mul(shift(x4, 2) + x3, self.of(1 / 3)) + x2, 1))
        middle = self.of(exp(-1 / 8))
        return middle + self.mul(x + rest, middle)

    def exp(self, a: np.ndarray, integer_bits: Any) -> np.ndarray:
        """Return exp of numbers up to 0 that have ``integer_bits`` integer bits."""
        a, k = np.int64(a), np.int64(integer_bits)
        quarter = np.int64(1) << (self.bits - k - 2)
        near = (a & (quarter - 1)) - quarter
        result = self._exp_near_zero(near << k)
        for n, factor in self.factors.items():
            bit = ((near - a) >> np.clip(self.bits - k + n, 0, 62)) & 1
            result = np.where((n < k) & (bit == 1), self.mul(result, factor), result)
        result = np.where((k > 5) & (a < -(quarter << 7)), 0, result)
        return np.where(a == 0, self.top, result)

    def newton(self, a: np.ndarray) -> np.ndarray:
        """Return 1 / (1 + a) for fractions a >= 0, with two integer bits."""
        half = (np.int64(a) + self.one) >> 1
        x = self.of(12 / 17) + self.mul(half, -self.of(8 / 17))
        for _ in range(3):
            step = self.mul(x, (self.one >> 2) - self.mul(half, x))
            x = x + np.clip(step * 4, -self.one, self.top)
        return x

    def logistic(self, a: np.ndarray, integer_bits: Any) -> np.ndarray:
        """Return the logistic function of numbers that have ``integer_bits`` integer bits."""
        a = np.int64(a)
        above = np.minimum(self.newton(self.exp(-np.abs(a), integer_bits)) * 2, self.top)
        return np.where(a == 0, self.one >> 1, np.where(a > 0, above, self.top - above))

    def tanh(self, a: np.ndarray, integer_bits: Any) -> np.ndarray:
        """Return tanh of numbers that have ``integer_bits`` integer bits."""
        a = np.int64(a)
        # twice the number is the same integer with one more integer bit
        x = self.newton(self.exp(-np.abs(a), integer_bits + 1)) - (self.one >> 2)
        size = np.clip(x * 4, -self.one, self.top)
        return np.where(a == 0, 0, np.where(a > 0, size, -size))


LONG = Fractions(31, range(-2, 5))
SHORT = Fractions(15, range(-2, 4))
exp_fraction, logistic_fraction, tanh_fraction = LONG.exp, LONG.logistic, LONG.tanh
