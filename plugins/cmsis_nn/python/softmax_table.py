"""Recover the multiplier from which a table of exponentials was computed."""

from __future__ import annotations

import math

import numpy as np

from tvmrt.compiler.sdk.arithmetic import exp_fraction, scale
from tvmrt.plugins.cmsis_nn.layers import EXPONENT_BITS, INTEGER_BITS, min_difference

SEARCH_RADIUS = 64  # maximum error of a multiplier estimated from one entry


def recover_multiplier(table: np.ndarray) -> tuple[int, int] | None:
    """Return (m, e) such that ``table`` contains exp(-i * scale) as fractions, or None. Any
    multiplier that gives equal entries is accepted."""
    if table.shape != (256,) or table[0] != 2**31 - 1:
        return None
    index = 1 + int(np.argmin(np.abs(table[1:] - 2.0**31 / math.e)))
    if table[index] <= 0:
        return None
    real = -math.log(table[index] / 2.0**31) / index * 2.0**EXPONENT_BITS
    exponent = math.frexp(real)[1]
    for e in (exponent, exponent - 1, exponent + 1):
        if not 0 <= e <= 30:
            continue
        candidates = _bisect_multiplier(int(table[index]), index, e) + np.arange(
            -SEARCH_RADIUS, SEARCH_RADIUS + 1
        )
        kept = candidates[(candidates >= 2**30) & (candidates < 2**31)]
        equal = kept[np.all(_tables(kept, e, np.arange(256)) == table, axis=1)]
        if equal.size:
            return int(equal[equal.size // 2]), e
    return None


def _bisect_multiplier(entry: int, index: int, e: int) -> int:
    """Return the multiplier whose exponential is nearest to the entry, by bisection."""
    low, high = 2**30, 2**31 - 1
    while low < high:
        middle = (low + high) // 2
        if _tables(np.array([middle]), e, np.array([index]))[0, 0] > entry:
            low = middle + 1
        else:
            high = middle
    return low


def _tables(multipliers: np.ndarray, e: int, indices: np.ndarray) -> np.ndarray:
    """Return these entries of the tables of several multipliers, one row each."""
    below = -indices[None]
    steps = scale(below, multipliers[:, None], np.int64(e))
    return np.where(below < min_difference(e), 0, exp_fraction(steps, INTEGER_BITS))
