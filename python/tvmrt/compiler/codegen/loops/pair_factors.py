"""Sums and products of two 8-bit tensors without dividing by the result's scale.

Such an operator has only 65,536 pairs of operands, so each is tried to prove that multiplication
gives the same result as division. The division takes as long as the rest of a sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from tvmrt.compiler.ir import Node
from tvmrt.compiler.ir.quantized import storage_range

NEIGHBOURS = 2  # floats on either side of the nearest factor to try if rounding makes it fail


@dataclass(frozen=True)
class PairFactors:
    """Factors of qadd: ``(a * fa + b * fb) / divisor``, or of qmul: ``(a * fa) * (b * fb) * factor
    / divisor``. Zero points are subtracted from a and b; every step is rounded to float32."""

    fa: float
    fb: float
    factor: float
    divisor: float


def pair_factors(node: Node) -> PairFactors:
    """Return the factors of a qadd or qmul node, with a divisor of 1 if possible."""
    attrs = node.attrs
    operands = [storage_range(node.inputs[i].dtype) for i in (0, -1)]
    names = ("a_scale", "b_scale", "y_scale", "a_zero", "b_zero", "y_zero", "low", "high")
    return _found(node.op, *operands, *(attrs[name] for name in names))


@lru_cache(maxsize=512)
def _found(
    op: str, of_a: tuple[int, int], of_b: tuple[int, int], a_scale: float, b_scale: float,
    y_scale: float, a_zero: int, b_zero: int, y_zero: int, low: int, high: int,
) -> PairFactors:  # fmt: skip
    a = (np.arange(of_a[0], of_a[1] + 1) - a_zero).astype(np.float32)[:, None]
    b = (np.arange(of_b[0], of_b[1] + 1) - b_zero).astype(np.float32)

    def quotients(f: PairFactors) -> np.ndarray:
        u, v = a * np.float32(f.fa), b * np.float32(f.fb)
        both = u + v if op == "qadd" else u * v * np.float32(f.factor)
        return both if f.divisor == 1 else both / np.float32(f.divisor)

    literal = PairFactors(a_scale, b_scale, 1.0, y_scale)
    if y_scale == 1:
        return literal
    with np.errstate(all="ignore"):
        exact = quotients(literal)
        if not np.isfinite(exact).all():
            return literal
        expected = np.clip(np.rint(exact) + y_zero, low, high)
        for tried in _candidates(op, literal):
            if np.array_equal(np.clip(np.rint(quotients(tried)) + y_zero, low, high), expected):
                return tried
    return literal


def _candidates(op: str, literal: PairFactors) -> list[PairFactors]:
    """Return factors without a division, the nearest first."""
    steps = range(-NEIGHBOURS, NEIGHBOURS + 1)
    if op == "qmul":
        inverse = np.float32(1) / np.float32(literal.divisor)
        near = [_neighbour(inverse, i) for i in sorted(steps, key=abs)]
        return [PairFactors(literal.fa, literal.fb, factor, 1.0) for factor in near]
    divisor = np.float32(literal.divisor)
    fa, fb = np.float32(literal.fa) / divisor, np.float32(literal.fb) / divisor
    pairs = sorted(product(steps, steps), key=lambda pair: abs(pair[0]) + abs(pair[1]))
    return [PairFactors(_neighbour(fa, i), _neighbour(fb, j), 1.0, 1.0) for i, j in pairs]


def _neighbour(value: np.float32, steps: int) -> float:
    """Return the float that is this many steps away."""
    return float((np.float32(value).view(np.int32) + np.int32(steps)).view(np.float32))
