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

from ..c.initializers import float_literal, range_initializer

NEIGHBOURS = 2  # floats on either side of the nearest factor to try if rounding makes it fail


@dataclass(frozen=True)
class BinaryScales:
    """Factors of qadd: ``(a * a_scale + b * b_scale) / divisor``, or of qmul: ``(a * a_scale) * (b
    * b_scale) * scale / divisor``. Zero points are subtracted from a and b; every step is rounded
    to float32."""

    a_scale: float
    b_scale: float
    scale: float
    divisor: float


def binary_scales(node: Node) -> BinaryScales:
    """Return the factors of a qadd or qmul node, with a divisor of 1 if possible."""
    attrs = node.attrs
    operands = [storage_range(node.inputs[i].dtype) for i in (0, -1)]
    names = ("a_scale", "b_scale", "y_scale", "a_zero", "b_zero", "y_zero", "low", "high")
    return _find_scales(node.operator.symbol, *operands, *(attrs[name] for name in names))


@lru_cache(maxsize=512)
def _find_scales(
    symbol: str, of_a: tuple[int, int], of_b: tuple[int, int], a_scale: float, b_scale: float,
    y_scale: float, a_zero: int, b_zero: int, y_zero: int, low: int, high: int,
) -> BinaryScales:  # fmt: skip
    a = (np.arange(of_a[0], of_a[1] + 1) - a_zero).astype(np.float32)[:, None]
    b = (np.arange(of_b[0], of_b[1] + 1) - b_zero).astype(np.float32)

    def quotients(f: BinaryScales) -> np.ndarray:
        u, v = a * np.float32(f.a_scale), b * np.float32(f.b_scale)
        combined = u + v if symbol == "+" else u * v * np.float32(f.scale)
        return combined if f.divisor == 1 else combined / np.float32(f.divisor)

    literal = BinaryScales(a_scale, b_scale, 1.0, y_scale)
    if y_scale == 1:
        return literal
    with np.errstate(all="ignore"):
        exact = quotients(literal)
        if not np.isfinite(exact).all():
            return literal
        expected = np.clip(np.rint(exact) + y_zero, low, high)
        for candidate in _candidates(symbol, literal):
            if np.array_equal(np.clip(np.rint(quotients(candidate)) + y_zero, low, high), expected):
                return candidate
    return literal


def _candidates(symbol: str, literal: BinaryScales) -> list[BinaryScales]:
    """Return factors without a division, the nearest first."""
    steps = range(-NEIGHBOURS, NEIGHBOURS + 1)
    if symbol == "*":
        inverse = np.float32(1) / np.float32(literal.divisor)
        nearest = [_neighbour(inverse, i) for i in sorted(steps, key=abs)]
        return [BinaryScales(literal.a_scale, literal.b_scale, scale, 1.0) for scale in nearest]
    divisor = np.float32(literal.divisor)
    a_scale, b_scale = np.float32(literal.a_scale) / divisor, np.float32(literal.b_scale) / divisor
    pairs = sorted(product(steps, steps), key=lambda pair: abs(pair[0]) + abs(pair[1]))
    return [
        BinaryScales(_neighbour(a_scale, i), _neighbour(b_scale, j), 1.0, 1.0) for i, j in pairs
    ]


def _neighbour(value: np.float32, steps: int) -> float:
    """Return the float that is this many steps away."""
    return float((np.float32(value).view(np.int32) + np.int32(steps)).view(np.float32))


def pair_members(node: Node, own: int = 0) -> dict[str, object]:
    """Return the members of the ``tvmrt_add_i8`` or ``tvmrt_mul_i8`` of a qadd or qmul node, whose
    operand a is the input ``own`` of the node."""
    attrs, scales, (a, b) = node.attrs, binary_scales(node), ("ab", "ba")[own]
    of = {"a": scales.a_scale, "b": scales.b_scale}
    signed = {side: int(value.dtype.is_signed) for side, value in zip("ab", node.inputs)}
    return {
        "fa": float_literal(of[a]), "fb": float_literal(of[b]),
        **({"factor": float_literal(scales.scale)} if node.op == "qmul" else {}),
        "divisor": float_literal(scales.divisor),
        "a_zero": attrs[f"{a}_zero"], "a_signed": signed[a],
        "b_zero": attrs[f"{b}_zero"], "b_signed": signed[b],
        "range": range_initializer(attrs),
    }  # fmt: skip
