"""Requantise in integer arithmetic, for processors without floating point and bit-exact results.

The scale of a quantised matmul, convolution or elementwise pair becomes a fixed-point multiplier,
as in the TensorFlow Lite format.

Contract: results differ by at most one step from the literal computation in floating point.
Non-goal: averages, softmax and other functions between conversions, which stay in floating point.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvmrt.compiler.ir import Builder, Graph, Node, Value, constant
from tvmrt.compiler.ir.quantized_multiplier import multipliers

from .rewrite import rewrite

MATMUL_OPS = ("qconv", "qmatmul", "qmatmul_computed")
INT8_TYPES = ("int8", "uint8")
ACCUMULATOR_BITS = 20  # left shift of the operands of a sum, so that their rounding costs no step


def to_fixed_point(graph: Graph) -> int:
    """Replace nodes and return their number."""
    return rewrite(graph, _requantize)


def _requantize(b: Builder, node: Node) -> Value | None:
    if node.op in MATMUL_OPS and node.attrs["to"] in INT8_TYPES:
        return _matmul(b, node)
    if node.op in ("qadd", "qmul") and len({v.dtype for v in (*node.inputs, node.output)}) == 1:
        return _pair(b, node)
    return None


def _matmul(b: Builder, node: Node) -> Value | None:
    """Emit the exact sums, requantised in integers and clamped."""
    x, w, scale, *rest = node.inputs
    pairs = _multipliers(scale.data.reshape(-1))
    if pairs is None:
        return None
    attrs = {k: v for k, v in node.attrs.items() if k not in ("to", "y_zero", "low", "high")}
    one = constant(np.array(1.0, np.float32), f"{node.name}_one")
    y = b.emit(node.op, [x, w, one, *rest], f"{node.name}_sums", **attrs, to="int32")
    # one number per channel: innermost in a matrix, the second axis in a convolution
    shape = (-1, *(1,) * (y.type.rank - 2)) if node.op == "qconv" else (-1,)
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


def _pair(b: Builder, node: Node) -> Value | None:
    at = node.attrs
    scales = [float(at[f"{side}_scale"]) for side in "ab"]
    if min(scales) <= 0 or at["y_scale"] <= 0:
        return None
    if node.op == "qadd":
        twice = 2 * max(scales)
        name, bits, parts = "fixed_sum", ACCUMULATOR_BITS, [scale / twice for scale in scales]
        real = twice / (at["y_scale"] * (1 << bits))
    else:
        name, bits, parts = "fixed_pair_product", 0, [0.0, 0.0]
        real = scales[0] * scales[1] / at["y_scale"]
    pairs = _multipliers([*parts, real])
    if pairs is None or not -31 <= pairs[1].min() <= pairs[1].max() <= 30:
        return None
    (a_m, b_m, m), (a_e, b_e, e) = (map(int, part) for part in pairs)
    attrs = {key: at[key] for key in ("a_zero", "b_zero", "y_zero", "low", "high")}
    sides = {"a_m": a_m, "a_e": a_e, "b_m": b_m, "b_e": b_e}
    return b.emit(name, node.inputs, node.name, **attrs, **sides, bits=bits, m=m, e=e)
