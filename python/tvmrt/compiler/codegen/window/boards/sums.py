"""Residual add of 8-bit tensors in integers (``kernels/board/residual_add_i8.h``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tvmrt.compiler.ir.float_to_int import to_integers

BITS = 31
_AROUND = range(-6, 7)  # offsets from the nearest factors that are tried
_NEAR = 1e-3  # distance from a tie beyond which no tried factor changes the result


@dataclass(frozen=True)
class IntegerSum:
    """(own byte * own + other byte * other + add) >> places, before clamping."""

    own: int
    other: int
    add: int
    places: int


def integer_sum(
    own: Mapping[str, float], other: Mapping[str, float], result: Mapping[str, float]
) -> IntegerSum | None:
    """Find integers that give the byte of the float sum for every two bytes, or None.

    ``own`` and ``other`` have ``scale``, ``zero``, ``low`` and ``high`` of the bytes, ``result``
    those of the sum.
    """
    a, b = (np.arange(int(side["low"]), int(side["high"]) + 1) for side in (own, other))
    a, b = a[:, None], b[None]
    wanted = _by_floats(a, b, own, other, result)
    real = [side["scale"] / result["scale"] for side in (own, other)]
    parts = [(x - side["zero"]) * r for x, side, r in zip((a, b), (own, other), real)]
    exact = parts[0] + parts[1] + result["zero"]
    offset = result["zero"] + 0.5 - own["zero"] * real[0] - other["zero"] * real[1]
    reach = max(np.abs(exact).max(), np.abs(offset + a * real[0]).max()) + 1
    places = int(np.floor(BITS - np.log2(reach + 1)))
    if not 8 <= places < BITS or not 0 < min(real):
        return None
    low, high = int(result["low"]), int(result["high"])
    near = np.abs(exact - np.floor(exact) - 0.5) < _NEAR
    where = np.nonzero(near & (exact > low - 2) & (exact < high + 2))
    some = a[where[0], 0], b[0, where[1]], wanted[where]
    best: tuple[int, IntegerSum] | None = None
    for first in _AROUND:
        for second in _AROUND:
            factors = [round(r * 2**places) + d for r, d in zip(real, (first, second))]
            room, add = _constant(*some, *factors, places, (low, high), offset)
            if room >= 0 and (best is None or room > best[0]):
                found = IntegerSum(*factors, add, places)
                if (_by_integers(a, b, found, (low, high)) == wanted).all():
                    best = room, found
    return None if best is None else best[1]


def _constant(a, b, wanted, own, other, places, bounds, offset) -> tuple[int, int]:
    """Return the slack of the constant term and its midpoint, so that all given bytes come out
    right; the slack is negative if there is no such constant."""
    raised = a * own + b * other
    least, most = (wanted << places) - raised, ((wanted + 1) << places) - 1 - raised
    near = round(offset * 2**places)
    spread = 1 << max(0, places - 9)
    from_ = max([near - spread, *least[wanted > bounds[0]]])
    to = min([near + spread, *most[wanted < bounds[1]]])
    return int(to - from_), int(from_ + to) // 2


def _by_floats(a, b, own, other, result) -> np.ndarray:
    """Return QuantizeLinear of the sum of two DequantizeLinear."""
    parts = [
        (x - int(side["zero"])).astype(np.float32) * np.float32(side["scale"])
        for x, side in ((a, own), (b, other))
    ]
    steps = to_integers(np.rint((parts[0] + parts[1]) / np.float32(result["scale"])), np.int32)
    return np.clip(np.int64(steps) + int(result["zero"]), int(result["low"]), int(result["high"]))


def _by_integers(a, b, found: IntegerSum, bounds: tuple[int, int]) -> np.ndarray:
    """Return the kernel's result; -1 << BITS where an intermediate exceeds 32 bits."""
    first = a * found.own + found.add
    total = first + b * found.other
    held = (np.abs(first) < 1 << BITS) & (np.abs(total) < 1 << BITS)
    return np.where(held, np.clip(total >> found.places, *bounds), -1 << BITS)
