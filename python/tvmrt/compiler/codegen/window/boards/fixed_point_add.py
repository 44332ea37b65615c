"""Residual add of 8-bit tensors in integers (``kernels/board/residual_add_i8.h``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tvmrt.compiler.ir.dtype import to_integers

BITS = 31
_OFFSETS = range(-6, 7)  # offsets from the nearest factors that are tried
_TIE_DISTANCE = 1e-3  # distance from a tie beyond which no tried factor changes the result


@dataclass(frozen=True)
class FixedPointAdd:
    """(own byte * own + other byte * other + add) >> places, before clamping."""

    own: int
    other: int
    add: int
    shift: int


def find_fixed_point_add(
    own: Mapping[str, float],
    other: Mapping[str, float],
    result: Mapping[str, float],
    sums: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
) -> FixedPointAdd | None:
    """Find integers that give the byte of the sum for every two bytes, or None.

    ``own`` and ``other`` have ``scale``, ``zero``, ``low`` and ``high`` of the bytes, ``result``
    those of the sum. ``sums`` returns the sums of own and other bytes; by default in floats.
    """
    a, b = (np.arange(int(side["low"]), int(side["high"]) + 1) for side in (own, other))
    a, b = a[:, None], b[None]
    expected = sums(a, b) if sums else _float_results(a, b, own, other, result)
    real = [side["scale"] / result["scale"] for side in (own, other)]
    parts = [(x - side["zero"]) * r for x, side, r in zip((a, b), (own, other), real)]
    exact = parts[0] + parts[1] + result["zero"]
    offset = result["zero"] + 0.5 - own["zero"] * real[0] - other["zero"] * real[1]
    magnitude = max(np.abs(exact).max(), np.abs(offset + a * real[0]).max()) + 1
    shift = int(np.floor(BITS - np.log2(magnitude + 1)))
    # without bytes near 0, the constant term may be greater than all sums
    shift = min(shift, int(np.floor(BITS - np.log2(abs(offset) + 2**-8))))
    if not 8 <= shift < BITS or not 0 < min(real):
        return None
    low, high = int(result["low"]), int(result["high"])
    near = np.abs(exact - np.floor(exact) - 0.5) < _TIE_DISTANCE
    where = np.nonzero(near & (exact > low - 2) & (exact < high + 2))
    sample = a[where[0], 0], b[0, where[1]], expected[where]
    best: tuple[int, FixedPointAdd] | None = None
    for first in _OFFSETS:
        for second in _OFFSETS:
            factors = [round(r * 2**shift) + d for r, d in zip(real, (first, second))]
            slack, add = _constant_term(*sample, *factors, shift, (low, high), offset)
            if slack >= 0 and (best is None or slack > best[0]):
                candidate = FixedPointAdd(*factors, add, shift)
                if (_integer_results(a, b, candidate, (low, high)) == expected).all():
                    best = slack, candidate
    return None if best is None else best[1]


def _constant_term(a, b, expected, own, other, shift, bounds, offset) -> tuple[int, int]:
    """Return the slack of the constant term and its midpoint, so that all given bytes come out
    right; the slack is negative if there is no such constant."""
    raised = a * own + b * other
    least, most = (expected << shift) - raised, ((expected + 1) << shift) - 1 - raised
    near = round(offset * 2**shift)
    radius = 1 << max(0, shift - 9)
    from_ = max([near - radius, *least[expected > bounds[0]]])
    to = min([near + radius, *most[expected < bounds[1]]])
    return int(to - from_), int(from_ + to) // 2


def _float_results(a, b, own, other, result) -> np.ndarray:
    """Return QuantizeLinear of the sum of two DequantizeLinear."""
    parts = [
        (x - int(side["zero"])).astype(np.float32) * np.float32(side["scale"])
        for x, side in ((a, own), (b, other))
    ]
    steps = to_integers(np.rint((parts[0] + parts[1]) / np.float32(result["scale"])), np.int32)
    return np.clip(np.int64(steps) + int(result["zero"]), int(result["low"]), int(result["high"]))


def _integer_results(a, b, add: FixedPointAdd, bounds: tuple[int, int]) -> np.ndarray:
    """Return the kernel's result; -1 << BITS where an intermediate exceeds 32 bits."""
    first = a * add.own + add.add
    total = first + b * add.other
    fits = (np.abs(first) < 1 << BITS) & (np.abs(total) < 1 << BITS) & (abs(add.add) < 1 << BITS)
    return np.where(fits, np.clip(total >> add.shift, *bounds), -1 << BITS)
