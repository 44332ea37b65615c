"""Sums of two 8-bit tensors by two multiplications of integers (``tvmrt_fixed_add()``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tvmrt.compiler.ir import Node
from tvmrt.compiler.ir.dtype import DTYPES
from tvmrt.compiler.ir.fixed_point import FixedPair
from tvmrt.compiler.ir.op import get_op
from tvmrt.compiler.ir.quantized import INT8_TYPES, storage_range

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


def is_quantized_sum(node: Node) -> bool:
    """Return whether a node adds two 8-bit tensors, in floats or in fixed point."""
    pair = node.operator.is_integer_pair or isinstance(node.operator, FixedPair)
    if not pair or node.operator.symbol != "+":
        return False
    return {value.dtype.name for value in (*node.inputs, node.output)}.issubset(INT8_TYPES)


def fixed_point_add(
    node: Node, own: int = 0, bounds: tuple[int, int] | None = None
) -> FixedPointAdd | None:
    """Return integers that give the bytes of a sum of two 8-bit tensors, or None.

    ``own``: which operand has the first factor; ``bounds``: the minimum and maximum of its bytes,
    if they are narrower than its type.
    """
    if not is_quantized_sum(node):
        return None
    types = tuple(node.inputs[i].dtype.name for i in (own, 1 - own))
    return _find(node.op, tuple(node.attrs.items()), types, own, bounds)


@lru_cache(maxsize=512)
def _find(op: str, items: tuple, types: tuple[str, str], own: int, bounds) -> FixedPointAdd | None:
    attrs, operator, letters = dict(items), get_op(op), ("ab", "ba")[own]
    if operator.is_integer_pair:
        scales = [attrs[f"{letter}_scale"] for letter in letters + "y"]
    else:  # multipliers of both operands, for a result in steps of 1
        last = attrs["m"] * 2.0 ** (attrs["e"] - 31 + attrs["bits"])
        scales = [attrs[f"{k}_m"] * 2.0 ** (attrs[f"{k}_e"] - 31) * last for k in letters] + [1]
    own_range, other_range = (storage_range(DTYPES[name]) for name in types)
    ranges = [bounds or own_range, other_range, (attrs["low"], attrs["high"])]
    sides = (
        {"scale": scale, "zero": attrs[f"{letter}_zero"], "low": low, "high": high}
        for scale, letter, (low, high) in zip(scales, letters + "y", ranges)
    )

    def sums(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        operands = [x.astype(DTYPES[name].numpy) for x, name in zip((first, second), types)]
        pair = operands if own == 0 else operands[::-1]
        return operator.evaluate(pair, attrs)[0].astype(np.int64)

    return find_fixed_point_add(*sides, sums)


def find_fixed_point_add(
    own: Mapping[str, float],
    other: Mapping[str, float],
    result: Mapping[str, float],
    sums: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> FixedPointAdd | None:
    """Find integers that give the byte of the sum for every two bytes, or None.

    ``own`` and ``other`` have ``scale``, ``zero``, ``low`` and ``high`` of the bytes, ``result``
    those of the sum. ``sums`` returns the sums of own and other bytes.
    """
    scales = [side["scale"] for side in (own, other, result)]
    if not (np.isfinite(scales).all() and min(scales) > 0):
        return None
    a, b = (np.arange(int(side["low"]), int(side["high"]) + 1) for side in (own, other))
    a, b = a[:, None], b[None]
    expected = sums(a, b)
    real = [scale / scales[2] for scale in scales[:2]]
    parts = [(x - side["zero"]) * r for x, side, r in zip((a, b), (own, other), real)]
    exact = parts[0] + parts[1] + result["zero"]
    offset = result["zero"] + 0.5 - own["zero"] * real[0] - other["zero"] * real[1]
    magnitude = max(np.abs(exact).max(), np.abs(offset + a * real[0]).max()) + 1
    shift = int(np.floor(BITS - np.log2(magnitude + 1)))
    # without bytes near 0, the constant term may be greater than all sums
    shift = min(shift, int(np.floor(BITS - np.log2(abs(offset) + 2**-8))))
    if not 8 <= shift < BITS:
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
    from_ = least[expected > bounds[0]].max(initial=near - radius)
    to = most[expected < bounds[1]].min(initial=near + radius)
    return int(to - from_), int(from_ + to) // 2


def _integer_results(a, b, add: FixedPointAdd, bounds: tuple[int, int]) -> np.ndarray:
    """Return the kernel's result; -1 << BITS where an intermediate exceeds 32 bits."""
    first = a * add.own + add.add
    total = first + b * add.other
    fits = (np.abs(first) < 1 << BITS) & (np.abs(total) < 1 << BITS) & (abs(add.add) < 1 << BITS)
    return np.where(fits, np.clip(total >> add.shift, *bounds), -1 << BITS)
