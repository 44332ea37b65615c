"""Fixed-point requantisation as one fused multiplication and addition in float32.

A result rises with its accumulator. Two functions are equal if they agree on both sides of each
step; there are at most 255 steps. For most channels there are a scale and an addend in float32
with which the rounded sum does so; the addend stands for the first of two roundings. This takes
fewer instructions than 64-bit products.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tvmrt.compiler.ir.requantization import thresholds

EXACT = 1e-11  # above the rounding errors of this module's sums in float64
# Distances of a scale from the nearest float, in units of its last place, and the part of the
# channels that may be left for larger distances to be tried.
DISTANCES = ((0, 1), (4, 0.5), (64, 0.05), (512, 0))


@dataclass(frozen=True)
class FloatScales:
    """Scale and addend of each channel; ``middle`` is subtracted from the results. With ``signed``
    the addend has the sign of the accumulator."""

    scale: np.ndarray
    addend: np.ndarray
    middle: int
    signed: bool


def find_float_scales(
    scale: np.ndarray,
    rounding: str,
    bounds: tuple[int, int],
    reach: tuple[np.ndarray, np.ndarray],
    may_move: bool = True,
) -> FloatScales | None:
    """Return float scales that give the same results as float64 scales and their rounding, or None.

    ``bounds``: of the results, without zero point; ``reach``: least and greatest accumulator of
    each channel; ``may_move``: the middle of the bounds may be subtracted, which makes sums small
    and thus exact.
    """
    low, high = (part.astype(np.int64).tobytes() for part in reach)
    return _find(scale.astype(np.float64).tobytes(), rounding, bounds, low, high, may_move)


@lru_cache(maxsize=256)
def _find(
    scales: bytes, rounding: str, bounds: tuple[int, int], low: bytes, high: bytes, may_move: bool
) -> FloatScales | None:
    reach = np.frombuffer(low, np.int64), np.frombuffer(high, np.int64)
    real = np.broadcast_to(np.frombuffer(scales), reach[0].shape)
    signed = rounding == "twice" and bounds[0] < 0
    middle = 0 if signed or not may_move else (bounds[0] + bounds[1] + 1) // 2
    steps = _Steps.of(real, rounding, bounds, middle, reach, signed)
    nearest = real.astype(np.float32)
    found, addend = nearest.copy(), np.full(nearest.shape, np.nan, np.float32)
    tried = -1
    for distance, part in DISTANCES:
        for units in range(tried + 1, distance + 1):
            for step in {units, -units}:
                left = np.flatnonzero(np.isnan(addend))
                if not left.size:
                    return FloatScales(found, addend, middle, signed)
                candidate = nearest[left] + np.float32(step) * np.spacing(nearest[left])
                found[left], addend[left] = candidate, steps.addend(candidate, left)
        tried = distance
        if np.isnan(addend).mean() > part:
            return None
    return FloatScales(found, addend, middle, signed)


@dataclass(frozen=True)
class _Steps:
    """Accumulators before and after each step, as floats [channels, steps], and the sum at which
    the rounded sum rises. Each accumulator has the sign of its addend, 0 if it cannot occur."""

    before: np.ndarray
    after: np.ndarray
    before_sign: np.ndarray
    after_sign: np.ndarray
    sums: np.ndarray
    signed: bool

    @classmethod
    def of(
        cls, scale: np.ndarray, rounding: str, bounds: tuple[int, int], middle: int,
        reach: tuple[np.ndarray, np.ndarray], signed: bool,
    ) -> _Steps:  # fmt: skip
        low, high = (part[:, None] for part in reach)
        least = thresholds(scale, rounding, *bounds)
        after, before = np.maximum(least, low), np.minimum(least - 1, high)
        signs = [
            np.where(occurs, np.where(signed & (at < 0), -1, 1), 0)
            for occurs, at in ((least > low, before), (least <= high, after))
        ]
        # a sum is rounded to float32 before it is rounded to an integer, ties to even
        step = np.arange(bounds[0] + 1, bounds[1] + 1) - middle
        middle_of_floats = np.spacing(np.abs(step - 0.5).astype(np.float32)).astype(float) / 2
        sums = step - 0.5 + np.where(step % 2 == 0, -middle_of_floats, middle_of_floats)
        before, after = (at.astype(np.float32).astype(float) for at in (before, after))
        return cls(before, after, signs[0], signs[1], sums, signed)

    def addend(self, scale: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the addend of channels ``rows`` for these scales, NaN if there is none."""
        wide = scale.astype(float)[:, None]
        lower = self.sums + EXACT - self.after[rows] * wide
        upper = self.sums - EXACT - self.before[rows] * wide
        none = np.inf
        after, before = self.after_sign[rows], self.before_sign[rows]
        low = np.maximum(np.where(after > 0, lower, -none), np.where(before < 0, -upper, -none))
        high = np.minimum(np.where(before > 0, upper, none), np.where(after < 0, -lower, none))
        # bounded, and not negative where a negative one would make the sums fall at 0
        least = np.maximum(low.max(axis=1), 0.0 if self.signed else -1e9)
        most = np.minimum(high.min(axis=1), 1e9)
        addend: np.ndarray = ((least + most) / 2).astype(np.float32)
        addend[(addend < least) | (addend > most)] = np.nan
        return addend
