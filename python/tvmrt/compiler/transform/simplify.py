"""Local simplifications: no-ops, views of views, arithmetic with neutral elements.

Contract: every output keeps its value for all inputs, up to one rounding where a power is
computed as a product or root. Non-goal: patterns of more than a node and its producers.
"""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir import POINTWISE, Builder, Graph, Node, Value

from .rewrite import rewrite

MAX_ITERATIONS = 8


def simplify(graph: Graph) -> None:
    for _ in range(MAX_ITERATIONS):
        if not rewrite(graph, _simplify_node):
            return


def _simplify_node(b: Builder, node: Node) -> Value | None:
    rule = _RULES.get(node.op)
    result = None if rule is None else rule(b, node)
    if result is not None:
        return result
    if node.operator.weights is not None:
        return _empty_matmul(b, node)
    return _drop_expands(b, node) if node.operator.kind == POINTWISE else None


def _drop_expands(b: Builder, node: Node) -> Value | None:
    """Remove an expand before a pointwise operator, which broadcasts itself."""
    inputs = list(node.inputs)
    for i, value in enumerate(inputs):
        if value.producer is None or value.producer.op != "expand":
            continue
        trial = [*inputs[:i], value.producer.inputs[0], *inputs[i + 1 :]]
        types = node.operator.infer([v.type for v in trial], dict(node.attrs))
        if types[0] == node.output.type:
            inputs = trial
    if inputs == node.inputs:
        return None
    return b.emit(node.op, inputs, node.name, **node.attrs)


def _reshape(b: Builder, node: Node) -> Value | None:
    x = node.inputs[0]
    if x.shape == node.output.shape:
        return x
    if x.producer is not None and x.producer.op == node.op:
        return b.emit("reshape", [x.producer.inputs[0]], node.name, shape=node.attrs["shape"])
    return None


def _transpose(b: Builder, node: Node) -> Value | None:
    x, perm = node.inputs[0], node.attrs["perm"]
    if tuple(perm) == tuple(range(len(perm))):
        return x
    if x.producer is not None and x.producer.op == node.op:
        first = x.producer.attrs["perm"]
        joined = tuple(first[p] for p in perm)
        return b.emit("transpose", [x.producer.inputs[0]], node.name, perm=joined)
    moved = [p for p in perm if x.shape[p] != 1]
    if moved == sorted(moved):
        # only axes of extent 1 move: the order of elements in memory does not change
        return b.emit("reshape", [x], node.name, shape=node.output.shape)
    return None


def _expand(b: Builder, node: Node) -> Value | None:
    x = node.inputs[0]
    if x.shape == node.output.shape:
        return x
    if x.type.size == node.output.type.size:
        return b.emit("reshape", [x], node.name, shape=node.output.shape)
    return None


def _slice(b: Builder, node: Node) -> Value | None:
    x = node.inputs[0]
    if x.shape == node.output.shape and all(s == 1 for s in node.attrs["steps"]):
        return x
    return None


def _cast(b: Builder, node: Node) -> Value | None:
    """Remove a cast to the same type, or back to the half precision before a widening cast."""
    x, widening = node.inputs[0], node.inputs[0].producer
    if x.type == node.output.type:
        return x
    if widening is None or widening.op != node.op or x.dtype.name != "float32":
        return None
    source = widening.inputs[0]
    return source if source.dtype.is_half and source.type == node.output.type else None


def _reduce(b: Builder, node: Node) -> Value | None:
    """Replace a reduction over axes of extent 1 by a reshape."""
    x = node.inputs[0]
    if any(x.shape[a] != 1 for a in node.attrs["axes"]):
        return None
    return b.emit("reshape", [x], node.name, shape=node.output.shape)


def _concat(b: Builder, node: Node) -> Value | None:
    """Remove parts without elements."""
    axis = node.attrs["axis"]
    parts = [value for value in node.inputs if value.shape[axis] != 0]
    if len(parts) == 1:
        return parts[0]
    return None if len(parts) == len(node.inputs) else b.emit("concat", parts, node.name, axis=axis)


def _identity_rule(element: float, commutative: bool):
    """Return a rule that replaces ``x op element`` by x, if broadcasting does not enlarge it."""

    def rule(b: Builder, node: Node) -> Value | None:
        sides = (0, 1) if commutative else (1,)
        for i in sides:
            constant, other = node.inputs[i], node.inputs[1 - i]
            if constant.data is None or other.type != node.output.type:
                continue
            if constant.type.size and np.all(constant.data == element):
                return other
        return None

    return rule


def _mul(b: Builder, node: Node) -> Value | None:
    """Remove a factor of 1; fold integers times 0 to 0. In floating point that may be NaN."""
    simplified = _identity_rule(1.0, True)(b, node)
    dtype = node.output.dtype
    if simplified is not None or dtype.is_float:
        return simplified
    if not any(v.data is not None and v.type.size and not v.data.any() for v in node.inputs):
        return None
    zero = b.const(np.zeros((), dtype.numpy))
    return b.emit("expand", [zero], node.name, shape=node.output.shape)


def _empty_matmul(b: Builder, node: Node) -> Value | None:
    """Replace a matmul or convolution without results, or without terms by 0 or its bias."""
    weights, integer = node.operator.weights, bool(node.operator.integer_of)
    empty, terms = 0 in node.output.shape, node.inputs[weights.operand].shape[weights.input_axis]
    if not empty and (terms != 0 or node.attrs.get("to", "int32") != "int32"):
        return None
    zero = b.const(np.zeros((), node.output.dtype.numpy))
    sums = b.emit("expand", [zero], node.name, shape=node.output.shape)
    if empty:
        return sums
    at = 3 if integer else 2
    bias = node.inputs[at] if len(node.inputs) > at else None
    if bias is None:
        return sums
    rank = node.output.type.rank
    ones = [1] * (rank - 1 - node.operator.channel_axis % rank)
    if ones:
        bias = b.emit("reshape", [bias], node.name, shape=(*bias.shape, *ones))
    return b.emit("add", [sums, bias], node.name)


def _scalar(value: Value) -> float | None:
    if value.data is None or value.type.size == 0:
        return None
    flat = value.data.reshape(-1)
    return float(flat[0]) if np.all(flat == flat[0]) else None


def _pow(b: Builder, node: Node) -> Value | None:
    x, exponent = node.inputs[0], _scalar(node.inputs[1])
    if exponent is None or x.type != node.output.type:
        return None
    if exponent == 1.0:
        return x
    if exponent == 2.0:
        return b.emit("mul", [x, x], node.name)
    if exponent == 3.0:
        return b.emit("mul", [b.emit("mul", [x, x], node.name), x], node.name)
    if exponent == 0.5 and x.dtype.is_float:
        return b.emit("sqrt", [x], node.name)
    if exponent == -1.0 and x.dtype.is_float:
        return b.emit("reciprocal", [x], node.name)
    return None


def _div(b: Builder, node: Node) -> Value | None:
    """Replace division by a power of two by multiplication, which is exact."""
    simplified = _identity_rule(1.0, False)(b, node)
    if simplified is not None:
        return simplified
    x, divisor = node.inputs
    value = _scalar(divisor)
    if value is None or not x.dtype.is_float or value == 0.0 or not np.isfinite(value):
        return None
    mantissa, _ = np.frexp(value)
    inverse = divisor.data.dtype.type(1.0 / value)
    if abs(mantissa) != 0.5 or not np.isfinite(inverse) or inverse == 0.0:
        return None
    return b.emit("mul", [x, b.const(np.full(divisor.shape, inverse))], node.name)


def _pad(b: Builder, node: Node) -> Value | None:
    """Remove a pad of zero elements; its value is not used."""
    nothing = all(n == 0 for side in ("before", "after") for n in node.attrs[side])
    return node.inputs[0] if nothing else None


_RULES = {
    "identity": lambda b, node: node.inputs[0],
    "reshape": _reshape,
    "transpose": _transpose,
    "expand": _expand,
    "slice": _slice,
    "pad": _pad,
    "cast": _cast,
    "concat": _concat,
    "add": _identity_rule(0.0, True),
    "sub": _identity_rule(0.0, False),
    "mul": _mul,
    "div": _div,
    "pow": _pow,
    **{f"reduce_{how}": _reduce for how in ("sum", "mean", "max", "min", "prod")},
}
