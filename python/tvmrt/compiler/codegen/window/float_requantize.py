"""Fixed-point requantisation as one fused multiplication and addition in float32.

A result rises with its accumulator. Two functions are equal if they agree on both sides of each
step; there are at most 255 steps. For most channels there are a scale and an addend in float32
with which the rounded sum does so; the addend stands for the first of two roundings. This takes
fewer instructions than 64-bit products. Where the rounding of the sum to float32 changes results,
AVX-512 rounds it down instead, which cannot pass an integer; a second product adds the part of the
scale that float32 lacks.
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
LEAST_PAIR = 2.0**-20  # with smaller scales, the rounding of the first sum might exceed a step
ADDENDS = (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8)  # tried between their bounds


@dataclass(frozen=True)
class FloatScales:
    """Scale and addend of each channel; ``middle`` is subtracted from the results. With ``signed``
    the addend has the sign of the accumulator. With ``rest``, a second scale that is added to the
    first, sums are rounded down."""

    scale: np.ndarray
    addend: np.ndarray
    middle: int = 0
    signed: bool = False
    rest: np.ndarray | None = None

    @property
    def rounding(self) -> str:
        """The ``TVMRT_ROUND_*`` of ``tile/simd_i8.h``."""
        return "signed" if self.signed else "float" if self.rest is None else "down"

    @property
    def rows(self) -> list[np.ndarray]:
        """The constants in the order of that file."""
        return [self.scale, self.addend, *([] if self.rest is None else [self.rest])]


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


def find_scale_pairs(
    scale: np.ndarray, rounding: str, bounds: tuple[int, int], reach: tuple[np.ndarray, np.ndarray]
) -> FloatScales | None:
    """Return float scales with a ``rest``, as :func:`find_float_scales`."""
    real = np.broadcast_to(scale.astype(np.float64), reach[0].shape)
    if real.min() < LEAST_PAIR:
        return None
    first = real.astype(np.float32)
    scales = FloatScales(first, np.full_like(first, np.nan), rest=(real - first).astype(np.float32))
    steps = _Steps.of(real, rounding, bounds, 0, reach, False)
    step = np.arange(bounds[0] + 1, bounds[1] + 1)
    occurs = steps.after_sign != 0, steps.before_sign != 0
    least = np.where(occurs[0], step - steps.after * real[:, None], -1.0).max(axis=1)
    most = np.where(occurs[1], step - steps.before * real[:, None], 2.0).min(axis=1)
    for part in ADDENDS:
        left = np.isnan(scales.addend)
        if not left.any():
            return scales
        addend = (least + (most - least) * part).astype(np.float32)
        right = ~occurs[0] | (_fused_twice(steps.after, scales, addend) >= step + EXACT)
        right &= ~occurs[1] | (_fused_twice(steps.before, scales, addend) <= step - EXACT)
        left &= right.all(axis=1)
        scales.addend[left] = addend[left]
    return None if np.isnan(scales.addend).any() else scales


def _fused_twice(acc: np.ndarray, scales: FloatScales, addend: np.ndarray) -> np.ndarray:
    """Return the sums of the second addition before it rounds. Those of the first are exact in
    float64: scales have 31 bits, at least 2 ** -51, and addends are near 0.5."""
    scale, rest = (row.astype(float)[:, None] for row in (scales.scale, scales.rest))
    first = (acc * rest + addend.astype(float)[:, None]).astype(np.float32)
    return acc * scale + first


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
