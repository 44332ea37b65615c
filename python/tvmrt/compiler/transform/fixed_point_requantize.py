"""Requantise in integer arithmetic, for processors without floating point and bit-exact results.

The scale of a quantised matmul, convolution or elementwise pair becomes a fixed-point multiplier,
as in the TensorFlow Lite format.

Contract: results differ by at most one step from the literal computation in floating point.
Non-goal: averages, softmax and other functions between conversions, which stay in floating point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tvmrt.compiler.ir import Builder, Graph, Node, Value, constant
from tvmrt.compiler.ir.quantized import INT8_TYPES
from tvmrt.compiler.ir.requantization import multipliers

from .rewrite import rewrite

ACCUMULATOR_BITS = 20  # left shift of the operands of a sum, so that their rounding costs no step


def to_fixed_point(graph: Graph) -> int:
    """Replace nodes and return their number."""
    return rewrite(graph, _requantize)


def _requantize(b: Builder, node: Node) -> Value | None:
    if node.operator.is_integer_product and node.attrs["to"] in INT8_TYPES:
        return _matmul(b, node)
    rule = _PAIRS.get(node.operator.integer_of)
    if rule is None or len({v.dtype for v in (*node.inputs, node.output)}) != 1:
        return None
    return _pair(b, node, rule)


def _matmul(b: Builder, node: Node) -> Value | None:
    """Emit the exact sums, requantised in integers and clamped."""
    x, w, scale, *rest = node.inputs
    pairs = _multipliers(scale.data.reshape(-1))
    if pairs is None:
        return None
    attrs = {k: v for k, v in node.attrs.items() if k not in ("to", "y_zero", "low", "high")}
    one = constant(np.array(1.0, np.float32), f"{node.name}_one")
    y = b.emit(node.op, [x, w, one, *rest], f"{node.name}_sums", **attrs, to="int32")
    after_channels = y.type.rank - 1 - node.operator.channel_axis % y.type.rank
    shape = (-1, *(1,) * after_channels)  # one number per channel
    m, e = (
        constant(part.reshape(shape if part.size > 1 else ()), f"{node.name}_{letter}")
        for part, letter in zip(pairs, "me")
    )
    y = b.emit("fixed_scale", [y, m, e], f"{node.name}_scaled")
    for op, key in (("add", "y_zero"), ("max", "low"), ("min", "high")):
        bound = constant(np.array(node.attrs[key], np.int32), f"{node.name}_{key}")
        y = b.emit(op, [y, bound], f"{node.name}_{op}")
    return b.emit("cast", [y], node.name, to=node.attrs["to"])


def _multipliers(reals: Sequence[float]) -> tuple[np.ndarray, np.ndarray] | None:
    """Return integer multipliers; None if a scale cannot be represented."""
    try:
        return multipliers(reals)
    except ValueError:
        return None


def _sum(scales: Sequence[float], y_scale: float) -> tuple[str, int, list[float]]:
    twice = 2 * max(scales)
    parts = [scale / twice for scale in scales]
    return "fixed_sum", ACCUMULATOR_BITS, [*parts, twice / (y_scale * (1 << ACCUMULATOR_BITS))]


def _product(scales: Sequence[float], y_scale: float) -> tuple[str, int, list[float]]:
    return "fixed_pair_product", 0, [0.0, 0.0, scales[0] * scales[1] / y_scale]


_PairRule = Callable[[Sequence[float], float], "tuple[str, int, list[float]]"]
# By the operator on floating-point numbers: the operator in fixed point, the left shift of its
# operands, and the scales of both operands and of the result.
_PAIRS: dict[str, _PairRule] = {"add": _sum, "mul": _product}


def _pair(b: Builder, node: Node, rule: _PairRule) -> Value | None:
    at = node.attrs
    scales = [float(at[f"{side}_scale"]) for side in "ab"]
    if min(scales) <= 0 or at["y_scale"] <= 0:
        return None
    name, bits, reals = rule(scales, at["y_scale"])
    pairs = _multipliers(reals)
    if pairs is None or not -31 <= pairs[1].min() <= pairs[1].max() <= 30:
        return None
    (a_m, b_m, m), (a_e, b_e, e) = (map(int, part) for part in pairs)
    attrs = {key: at[key] for key in ("a_zero", "b_zero", "y_zero", "low", "high")}
    sides = {"a_m": a_m, "a_e": a_e, "b_m": b_m, "b_e": b_e}
    return b.emit(name, node.inputs, node.name, **attrs, **sides, bits=bits, m=m, e=e)
