"""Pointwise nodes as C statements on scalars, one local variable a node."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from tvmrt.ir import DType, Node, Value, get_op
from tvmrt.ir.pointwise import PointwiseOp

from .writer import FunctionWriter, literal

_INTEGER_HELPER = re.compile(r"tvmrt_\w+_(u?int\d+|bits_as_\w+)\(")

_RARE_FLOAT = re.compile(
    r"_f64\(|tvmrt_(isnan|round_even|floor_mod|tan|asin|acos|atan|a?sinh|a?cosh|atanh)_f32\("
)


def headers_of(text: str) -> list[str]:
    """The kernel headers that an expression needs."""
    found = []
    if "float16" in text:
        found.append("scalar_half.h")
    if _INTEGER_HELPER.search(text):
        found.append("scalar_int.h")
    if re.search(r"tvmrt_\w+_f(32|64)\(", text):
        found.append("scalar_inverse.h" if _RARE_FLOAT.search(text) else "scalar_math.h")
    if "quantize" in text:
        found.append("scalar_quant.h")
    return found


def scalar_literal(value: Value) -> str | None:
    """The literal of a constant whose elements are all equal; None for anything else."""
    if value.data is None or value.type.size == 0:
        return None
    flat = value.data.reshape(-1)
    same = value.type.size == 1 or bool(np.all(flat == flat[0]))
    return literal(flat[0], value.dtype) if same else None


def print_chain(f: FunctionWriter, nodes: Sequence[Node], names: dict[Value, str]) -> None:
    """Print the nodes in order. ``names`` holds a C expression for every value read from
    outside and receives the variable of every value computed.
    """
    for node in nodes:
        for value in node.inputs:
            if value not in names:
                text = scalar_literal(value)
                if text is None:
                    raise ValueError(f"{node!r}: no expression for {value!r}")
                names[value] = text
        out = node.output
        if node.op == "identity":
            names[out] = names[node.inputs[0]]
            continue
        variable = f.fresh(f"{node.op}_1")
        text = expression(node, names)
        f.include(*headers_of(text))
        f.line(f"const {out.dtype.c} {variable} = {text};")
        names[out] = variable


def expression(node: Node, names: dict[Value, str]) -> str:
    """The C expression of one pointwise node."""
    args = [names[v] for v in node.inputs]
    rule = get_op(node.op)
    if node.op == "cast":
        return cast_expression(args[0], node.inputs[0].dtype, node.output.dtype)
    if not isinstance(rule, PointwiseOp):
        return rule.expression(node, args)
    dtype = node.inputs[rule.data_from].dtype
    template = rule.template(dtype)
    unsigned = "uint64_t" if dtype.bits == 64 else "uint32_t"
    attrs = {k: literal(v, dtype) if isinstance(v, float) else v for k, v in node.attrs.items()}
    return template.format(*args, t=dtype.c, u=unsigned, n=dtype.name, bits=dtype.bits, **attrs)


def cast_expression(x: str, source: DType, to: DType) -> str:
    """Conversion with ONNX's meaning; out-of-range floats saturate rather than being undefined."""
    if source == to:
        return x
    if source.is_half:
        return f"tvmrt_{source}_to_f32({x})"
    if to.is_half:
        return f"tvmrt_f32_to_{to}({x})"
    if to.name == "bool":
        return f"({x} != 0)"
    if source.is_float and to.is_int:
        return f"tvmrt_{'f32' if source.bits == 32 else 'f64'}_to_{to.name}({x})"
    return f"({to.c}){x}"
