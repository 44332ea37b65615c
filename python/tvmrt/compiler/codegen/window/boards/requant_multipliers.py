"""Requantisation multipliers as the kernels of microcontrollers read them
(``board/common_i8.h``)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvmrt.compiler.ir.dtype import to_integers
from tvmrt.compiler.ir.requantization import split_scale, thresholds

from ...c.writer import FunctionWriter
from .kernel import pad_to_multiple

# Values of tvmrt_micro_range.twice; if no byte is below the zero point, ties need not round away.
TWICE, TWICE_UPWARDS = "TVMRT_MICRO_TWICE", "TVMRT_MICRO_TWICE_UPWARDS"


@dataclass(frozen=True)
class RequantTable:
    """Multipliers of a layer; ``twice``: of ``tvmrt_micro_range``, or empty."""

    multipliers: np.ndarray
    twice: str = ""

    @property
    def fixed_point_only(self) -> bool:
        """Whether all multipliers are fixed-point."""
        return bool(self.twice) or all_fixed_point(self.multipliers)

    def print(self, f: FunctionWriter) -> str:
        """Print the multipliers; return their C expression."""
        if self.twice:
            f.macro("TVMRT_MICRO_ROUNDS_TWICE", "1")
        return f.constant("multipliers", self.multipliers)


def requant_table(
    scale: np.ndarray, rounding: str, zero: int, low: int, high: int
) -> RequantTable | None:
    """Return the multipliers for a ``rounding`` of products; None if board kernels cannot have
    it."""
    if rounding == "even":
        return RequantTable(requant_multipliers(scale, zero, low, high))
    if rounding == "once":
        least = thresholds(scale, rounding, low - zero, high - zero)
        fixed = _solve(least, np.arange(low - zero + 1, high - zero + 1), np.abs(least) < 1 << 29)
        padded = np.ones(len(pad_to_multiple(fixed, 4)), np.int32)
        padded[: len(fixed)] = fixed
        return RequantTable(-padded) if fixed.all() else None
    m, n = split_scale(scale)
    if n.min() < 1:
        return None
    pairs = pad_to_multiple(np.stack([2 * m - (1 << 32), n - 1], axis=1).astype(np.int32), 4)
    return RequantTable(pairs.reshape(-1), TWICE_UPWARDS if low >= zero else TWICE)


def requant_multipliers(scale: np.ndarray, zero: int, low: int, high: int) -> np.ndarray:
    """Return a multiplier per channel, to a multiple of four, as int32: the bits of a float, or a
    negated fixed-point integer. ``scale``: per channel; ``zero``, ``low``, ``high``: the output's
    zero point and bounds.

    The array is not float32, because the bits of some integers are those of NaN, which C text
    cannot express; nor does its type depend on values, because those of weights can be replaced.
    """
    floats = pad_to_multiple(scale.astype(np.float32), 4)
    fixed = fixed_point_multipliers(scale.astype(np.float32), zero, low, high)
    fours = np.ones(len(floats), np.int64)
    fours[: len(fixed)] = fixed
    chosen = np.repeat(fours.reshape(-1, 4).min(axis=1) > 0, 4)
    return np.where(chosen, (-fours).astype(np.int32), floats.view(np.int32))


def all_fixed_point(multipliers: np.ndarray) -> bool:
    """Return whether all multipliers are fixed-point."""
    return bool((multipliers < 0).all())


def fixed_point_multipliers(scale: np.ndarray, zero: int, low: int, high: int) -> np.ndarray:
    """Return fixed-point multipliers m < 2 ** 31 per channel; 0 where there is none.

    For every sum, (sum * m + (16 * zero + 8) * 2 ** 32) >> 36, clamped, is the rounded float32
    product with the scale. Each output q has a minimum sum, which m must map to at least q.
    """
    q = np.arange(low - zero + 1, high - zero + 1)[None]
    guess = to_integers(np.rint((q - 0.5) / scale.astype(np.float64)[:, None]), np.int32)
    near = np.int64(guess)[..., None] + np.arange(-3, 4)
    there = np.rint(near.astype(np.float32) * scale[:, None, None]) >= q[..., None]
    least = guess - 3 + there.argmax(axis=2)
    # floats hold these sums
    has_solution = ~there[..., 0] & there[..., -1] & (np.abs(least) < 1 << 24)
    return _solve(least, q, has_solution)


def _solve(least: np.ndarray, q: np.ndarray, has_solution: np.ndarray) -> np.ndarray:
    """Return multipliers that map each ``least`` sum, and none below it, to at least q."""
    # least * m >= bound, and (least - 1) * m <= bound - 1
    bound = (2 * q - 1) << 35
    from_, to = np.zeros_like(least), np.full_like(least, (1 << 31) - 1)
    for sums, most in ((least, None), (least - 1, bound - 1)):
        size = np.maximum(np.abs(sums), 1)
        if most is None:
            from_ = np.where(sums > 0, -(-bound // size), from_)
            to = np.where(sums < 0, np.minimum(to, -bound // size), to)
            has_solution &= (sums != 0) | (bound <= 0)
        else:
            to = np.where(sums > 0, np.minimum(to, most // size), to)
            from_ = np.where(sums < 0, np.maximum(from_, -(most // size)), from_)
            has_solution &= (sums != 0) | (most >= 0)
    first, last = from_.max(axis=1, initial=1), to.min(axis=1, initial=(1 << 31) - 1)
    return np.where(has_solution.all(axis=1) & (first <= last), (first + last) // 2, 0)
