"""Pointwise operators by their definitions for one element, in double and 64-bit integers."""

from __future__ import annotations

from tvmrt.compiler.sdk.graph import DTYPES, OPS, Node, PointwiseOp

from .code import NodeCode, c_type, prints

# Operands are double or int64_t. A float32 result is rounded once when it is stored: for sums,
# products, quotients and roots of float32 numbers this is the correctly rounded result.
FLOAT = {"min": "ref_min({0}, {1})", "max": "ref_max({0}, {1})", "relu": "ref_max({0}, 0.0)"}
INTEGER = {"div": "({1} == 0) ? 0 : ({1} == -1) ? (int64_t)(0 - (uint64_t){0}) : {0} / {1}"}


def formula(node: Node) -> str | None:
    """Return the definition of a pointwise node for the type of its operands; None if it needs a
    function of a kernel, or attributes."""
    kind = node.inputs[-1].dtype
    if node.attrs or any(v.dtype.name == "uint64" for v in node.operands()):
        return None
    own = (FLOAT if kind.is_float else INTEGER).get(node.op)
    wide = DTYPES["bool" if kind.name == "bool" else "float64" if kind.is_float else "int64"]
    expression = node.operator.template(wide)
    if own is not None or expression is None or expression.header:
        return own
    return node.operator.render(wide, [f"{{{i}}}" for i in range(len(node.inputs))], {}).text


@prints(*(name for name, op in OPS.items() if isinstance(op, PointwiseOp)))
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
