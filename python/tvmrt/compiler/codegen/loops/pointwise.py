"""Pointwise nodes as scalar C statements, one local variable per node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvmrt.compiler.ir import DType, Node, Value, get_op
from tvmrt.compiler.ir.fixed_point import FIXED
from tvmrt.compiler.ir.low_bit_types import bit_codes
from tvmrt.compiler.ir.op import Expression
from tvmrt.compiler.ir.pointwise import PointwiseOp
from tvmrt.compiler.ir.quantized import QUANT

from ..c.formatting import GAP, call, minus
from ..c.initializers import float_literal
from ..c.writer import FunctionWriter, literal
from .fixed_point_add import fixed_point_add
from .quantized_binary_scales import binary_scales


def scalar_literal(value: Value) -> str | None:
    """Return the literal of a constant whose elements are all equal, else None."""
    if value.data is None or value.type.size == 0:
        return None
    flat = value.data.reshape(-1)
    if value.dtype.is_low_bit:
        flat = bit_codes(flat)  # compare codes: NaN has several, and zeros have two signs
    same = value.type.size == 1 or bool(np.all(flat == flat[0]))
    return literal(flat[0], value.dtype) if same else None


def has_moderate_angle_form(node: Node) -> bool:
    """Return whether the node has a faster form, used in vector loops, for all but huge angles."""
    rule = get_op(node.op)
    bounded_angle = isinstance(rule, PointwiseOp) and rule.bounded_angle is not None
    return bounded_angle and node.inputs[0].dtype.name == "float32"


def print_pointwise_chain(
    f: FunctionWriter,
    nodes: Sequence[Node],
    names: dict[Value, str],
    large_angle: str | None = None,
) -> None:
    """Print the nodes in order. ``names`` holds a C expression for every value read from outside
    and receives the variable of every computed value.

    With ``large_angle``, a C variable, functions of angles use their form for moderate angles. The
    variable's highest bit is set if an angle is too large.
    """
    gates_of_products = _silu_gates(nodes)
    for node in nodes:
        if node in gates_of_products.values():
            continue
        gate = gates_of_products.get(node)
        for value in gate.inputs if gate else node.inputs:
            if value not in names:
                text = scalar_literal(value)
                if text is None:
                    raise ValueError(f"{node!r}: no expression for {value!r}")
                names[value] = text
        out = node.output
        if node.operator.is_copy:
            names[out] = names[node.inputs[0]]
            continue
        variable = f.fresh(f"{node.op}_1")
        bounded_angle = large_angle is not None and has_moderate_angle_form(node)
        if bounded_angle:
            f.line(f"{large_angle} |= tvmrt_is_large_angle_f32({names[node.inputs[0]]});")
        value = (
            _silu(gate, names) if gate else expression(node, names, f.common.board, bounded_angle)
        )
        f.include(value.header)
        f.line(f"const {out.dtype.c} {variable} ={GAP}{value.text};")
        names[out] = variable


def _silu_gates(nodes: Sequence[Node]) -> dict[Node, Node]:
    """Map each product of a value with its own sigmoid to that sigmoid if nothing else reads it: a
    combined SiLU function is faster. Only the last node's value is read outside."""
    read = [value for node in nodes for value in node.inputs]
    sigmoids = {
        node.output: node
        for node in nodes
        if node.op == "sigmoid" and node.output.dtype.name == "float32"
    }
    gate_of = {}
    for node in nodes:
        gates = [v for v in node.inputs if v in sigmoids] if node.op == "mul" else []
        if len(gates) == 1 and read.count(gates[0]) == 1:
            gate = sigmoids[gates[0]]
            if gate.inputs[0] in node.inputs:
                gate_of[node] = gate
    return gate_of


def _silu(gate: Node, names: dict[Value, str]) -> Expression:
    """Return the C expression of a value times ``gate``, its sigmoid."""
    header = expression(gate, names).header
    return Expression(call("tvmrt_silu_f32", names[gate.inputs[0]]), header)


def expression(
    node: Node, names: dict[Value, str], board: bool = False, bounded_angle: bool = False
) -> Expression:
    """Return a pointwise node's C expression, or that of a sum or product of two 8-bit tensors.

    ``board``: on a microcontroller, where such a sum takes two multiplications if that gives its
    bytes; ``bounded_angle`` selects the form for moderate angles.
    """
    args = [names[v] for v in node.inputs]
    rule = get_op(node.op)
    add = fixed_point_add(node) if board else None
    if add is not None:
        (a, b), at = args, node.attrs
        numbers = (a, add.own, b, add.other, add.add, add.shift, at["low"], at["high"])
        return Expression(f"({node.output.dtype.c}){call('tvmrt_fixed_add', *numbers)}", FIXED)
    if rule.is_integer_pair:
        return Expression(f"({node.output.dtype.c}){_quantized_pair(node, *args)}", QUANT)
    if not isinstance(rule, PointwiseOp):
        return rule.expression(node, args)
    dtype = node.inputs[rule.bool_operands].dtype
    attrs = {k: _attribute(v, dtype) for k, v in node.attrs.items()}
    return rule.render(dtype, args, attrs, bounded_angle)


def _attribute(value: object, dtype: DType) -> object:
    """Return an attribute in the form used in C."""
    if isinstance(value, float):
        return literal(value, dtype)
    return int(value) if isinstance(value, bool) else value


def _quantized_pair(node: Node, a: str, b: str) -> str:
    """Return the C expression (int32_t) of one element of an int8 sum or product in floats."""
    attrs, sign, scales = node.attrs, node.operator.symbol, binary_scales(node)
    terms = [
        call("tvmrt_dequantize", minus(v, attrs[f"{k}_zero"]), float_literal(scale))
        for k, v, scale in (("a", a, scales.a_scale), ("b", b, scales.b_scale))
    ]
    result = f"{terms[0]}{GAP}{sign} {terms[1]}"
    if scales.scale != 1:
        result = f"({result}){GAP}* {float_literal(scales.scale)}"
    if scales.divisor != 1:
        result = f"({result}){GAP}/ {float_literal(scales.divisor)}"
    bounds = (attrs[k] for k in ("y_zero", "low", "high"))
    return call("tvmrt_round_and_add_zero_point", result, *bounds)
