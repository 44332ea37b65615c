"""Pointwise operators as expressions of OpenCL C."""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.ir import Node

from .kernel import CL_TYPES, cl_type

# {0}, {1}, ... stand for the operands, {name} for attributes.
_FLOAT = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "trunc_mod": "fmod({0}, {1})",
    "pow": "pow({0}, {1})",
    "min": "({0} < {1} || {0} != {0} ? {0} : {1})",
    "max": "({0} > {1} || {0} != {0} ? {0} : {1})",
    "neg": "-{0}",
    "abs": "fabs({0})",
    "sign": "(float)(({0} > 0) - ({0} < 0))",
    "sqrt": "sqrt({0})",
    "reciprocal": "1.0f / {0}",
    "exp": "exp({0})",
    "log": "log({0})",
    "sin": "sin({0})",
    "cos": "cos({0})",
    "tan": "tan({0})",
    "asin": "asin({0})",
    "acos": "acos({0})",
    "atan": "atan({0})",
    "sinh": "sinh({0})",
    "cosh": "cosh({0})",
    "tanh": "tanh({0})",
    "asinh": "asinh({0})",
    "acosh": "acosh({0})",
    "atanh": "atanh({0})",
    "erf": "erf({0})",
    "floor": "floor({0})",
    "ceil": "ceil({0})",
    "round": "rint({0})",
    "sigmoid": "1.0f / (1.0f + exp(-{0}))",
    "softplus": "log1p(exp(-fabs({0}))) + fmax({0}, 0.0f)",
    "prelu": "({0} < 0 ? {0} * {1} : {0})",
    "relu": "({0} > 0 || {0} != {0} ? {0} : 0.0f)",
    "is_nan": "({0} != {0})",
}
_INTEGER = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "min": "({0} < {1} ? {0} : {1})",
    "max": "({0} > {1} ? {0} : {1})",
    "neg": "-{0}",
    "relu": "({0} > 0 ? {0} : 0)",
    "bit_and": "({0} & {1})",
    "bit_or": "({0} | {1})",
    "bit_xor": "({0} ^ {1})",
    "bit_not": "~{0}",
}
_TRUTH = {
    "logical_and": "({0} & {1})",
    "logical_or": "({0} | {1})",
    "logical_xor": "({0} ^ {1})",
    "logical_not": "({0} ^ 1)",
}
_ANY = {
    "identity": "{0}",
    "where": "({0} ? {1} : {2})",
    "equal": "({0} == {1})",
    "less": "({0} < {1})",
    "less_equal": "({0} <= {1})",
    "greater": "({0} > {1})",
    "greater_equal": "({0} >= {1})",
}


def template(node: Node) -> str | None:
    """The node's expression; None if it is no pointwise operator that OpenCL C has."""
    values = [v for v in node.inputs if v is not None]
    if any(v.dtype.name not in CL_TYPES for v in [*values, *node.outputs]):
        return None
    if node.op == "cast":
        return _cast(node)
    dtype = values[-1].dtype
    if node.op in _ANY:
        return _ANY[node.op]
    if dtype.name == "float32":
        return _FLOAT.get(node.op)
    if dtype.name == "bool":
        return _TRUTH.get(node.op)
    # arithmetic in wider integers, then cut, wraps as two's complement
    return _INTEGER.get(node.op)


def _cast(node: Node) -> str:
    to = node.attrs["to"]
    return "({0} != 0)" if to == "bool" else f"({CL_TYPES[to]})({{0}})"


def expression(node: Node, operands: Sequence[str]) -> str:
    """The node's value as its result's type."""
    text = template(node).format(*operands)
    return f"({cl_type(node.output.dtype)})({text})"
