"""Real multipliers in fixed point: an integer and an exponent."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np


def rounded(x: float) -> int:
    """Return the nearest integer, halves away from zero."""
    integer = math.floor(abs(x))
    integer += abs(x) - integer >= 0.5
    return int(math.copysign(integer, x)) if integer else 0


def multiplier(real: float) -> tuple[int, int]:
    """Return (m, e) of a multiplier m * 2 ** (e - 31), abs(m) >= 2 ** 30; (0, 0) if it is tiny.

    Raises ValueError if it is not finite or too large.
    """
    if not math.isfinite(real) or abs(real) >= 2.0**30:
        raise ValueError(f"its scales give a multiplier of {real}; quantise the model again")
    fraction, exponent = math.frexp(real)
    m = rounded(fraction * 2.0**31)
    if abs(m) == 1 << 31:
        m, exponent = m // 2, exponent + 1
    return (0, 0) if exponent < -31 or m == 0 else (m, exponent)


def multipliers(reals: Iterable[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return m and e of several multipliers, as two arrays of int32."""
    pairs = [multiplier(float(real)) for real in reals]
    return np.array([m for m, _ in pairs], np.int32), np.array([e for _, e in pairs], np.int32)
