"""Pointwise operators: their definitions for one element, in double and in 64-bit integers."""

from __future__ import annotations

from tvmrt.compiler.sdk.graph import Node

from .code import NodeCode, c_type, prints

# Operands {0}, {1} and {2} are double. A float32 result is rounded once when it is stored: for
# sums, products, quotients and roots of float32 numbers this is the correctly rounded result.
FLOAT = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}",
    "pow": "pow({0}, {1})", "min": "ref_min({0}, {1})", "max": "ref_max({0}, {1})",
    "relu": "ref_max({0}, 0.0)", "prelu": "({0} < 0) ? {0} * {1} : {0}",
    "neg": "-({0})", "abs": "fabs({0})", "reciprocal": "1.0 / {0}", "round": "nearbyint({0})",
    "sign": "({0} > 0) ? 1.0 : ({0} < 0) ? -1.0 : {0}",
    "sigmoid": "1.0 / (1.0 + exp(-({0})))",
    "softplus": "log1p(exp(-fabs({0}))) + ({0} > 0 ? {0} : 0.0)",
} | {
    name: f"{name}({{0}})"
    for name in (
        "sqrt", "exp", "expm1", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
        "tanh", "asinh", "acosh", "atanh", "erf", "floor", "ceil",
    )
}  # fmt: skip

# Operands are int64_t; sums and products wrap around.
INTEGER = {
    "add": "(uint64_t){0} + (uint64_t){1}", "sub": "(uint64_t){0} - (uint64_t){1}",
    "mul": "(uint64_t){0} * (uint64_t){1}", "neg": "0 - (uint64_t){0}",
    "div": "({1} == 0) ? 0 : ({1} == -1) ? (int64_t)(0 - (uint64_t){0}) : {0} / {1}",
    "min": "({0} < {1}) ? {0} : {1}", "max": "({0} > {1}) ? {0} : {1}",
    "abs": "({0} < 0) ? 0 - (uint64_t){0} : (uint64_t){0}", "relu": "({0} > 0) ? {0} : 0",
    "logical_and": "{0} & {1}", "logical_or": "{0} | {1}", "logical_xor": "{0} ^ {1}",
    "logical_not": "{0} ^ 1",
}  # fmt: skip
BOTH = {
    "identity": "{0}", "where": "{0} ? {1} : {2}", "equal": "{0} == {1}", "less": "{0} < {1}",
    "less_equal": "{0} <= {1}", "greater": "{0} > {1}", "greater_equal": "{0} >= {1}",
}  # fmt: skip


def formula(node: Node) -> str | None:
    """Return the definition of a pointwise node for the type of its operands; None if it has
    none."""
    if any(v.dtype.name == "uint64" for v in node.operands()):
        return None
    is_float = node.inputs[0].dtype.is_float
    return BOTH.get(node.op) or (FLOAT if is_float else INTEGER).get(node.op)


@prints(*FLOAT, *INTEGER, *BOTH)
def pointwise(code: NodeCode) -> None:
    text = formula(code.node)
    assert text is not None
    with code.loops(code.y.shape) as places:
        operands = [f"({code.at(i, places)})" for i in range(len(code.node.inputs))]
        code.store(places, text.format(*operands))


@prints("cast")
def cast(code: NodeCode) -> None:
    """Floats lose their fraction and saturate as integers; NaN becomes 0."""
    source, to = code.node.inputs[0].dtype, code.y.dtype
    with code.loops(code.y.shape) as places:
        x = code.at(0, places)
        if to.name == "bool":
            code.store(places, f"{x} != 0")
        elif source.is_float and to.is_int:
            name = f"{'' if to.is_signed else 'U'}INT{to.bits}"
            low = f"{name}_MIN" if to.is_signed else "0"
            code.line(f"const double x = {x};")
            inside = f"x >= {name}_MAX + 1.0 ? {name}_MAX : ({c_type(code.y)})x"
            code.store(places, f"x != x ? 0 : x <= {low} ? {low} : {inside}")
        else:
            code.store(places, x)


@prints("quantize")
def quantize(code: NodeCode) -> None:
    """saturate(round(x / scale) + zero); the quotient is a float32, ties go to even."""
    to = code.y.dtype
    low = -(1 << (to.bits - 1)) if to.is_signed else 0
    with code.loops(code.y.shape) as places:
        x, scale, zero = (code.at(i, places) for i in range(3))
        bounds = f"{low}, {low + (1 << to.bits) - 1}"
        code.store(places, f"ref_saturate((float)({x} / ({scale})), {zero}, {bounds})")


@prints("dequantize")
def dequantize(code: NodeCode) -> None:
    """(q - zero) * scale, rounded once."""
    with code.loops(code.y.shape) as places:
        q, scale, zero = (code.at(i, places) for i in range(3))
        code.store(places, f"({code.y.dtype.c})((double)({q} - {zero}) * {scale})")
