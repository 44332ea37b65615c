"""Pointwise operators as OpenCL C expressions, by families of element types, like the operators'
table for C. An operator without a row has no kernel."""

from __future__ import annotations

from collections.abc import Mapping

from tvmrt.compiler.sdk.graph import Node, PointwiseOp, entry_for_dtype, get_op
from tvmrt.plugins.opencl.kernel import CL_TYPES, Kernel

# OpenCL C functions with the operators' names.
_FUNCTIONS = (
    "acos acosh asin asinh atan atanh ceil cos cosh erf exp expm1 floor log sin sinh sqrt tan tanh"
).split()
# Operators with equal expressions in C and OpenCL C.
_ALIKE = frozenset(
    "equal less less_equal greater greater_equal logical_and logical_or logical_xor logical_not "
    "where identity".split()
)

TEMPLATES: dict[str, Mapping[str, str]] = {
    **{name: {"f32": f"{name}({{0}})"} for name in _FUNCTIONS},
    # integers are computed in wider types and truncated, so they wrap
    "add": {"number": "{0} + {1}"},
    "sub": {"number": "{0} - {1}"},
    "mul": {"number": "{0} * {1}"},
    "neg": {"number": "-{0}"},
    "div": {"f32": "{0} / {1}"},
    "trunc_mod": {"f32": "fmod({0}, {1})"},
    "pow": {"f32": "pow({0}, {1})"},
    "min": {
        "f32": "({0} < {1} || {0} != {0} ? {0} : {1})",
        "integer": "({0} < {1} ? {0} : {1})",
    },
    "max": {
        "f32": "({0} > {1} || {0} != {0} ? {0} : {1})",
        "integer": "({0} > {1} ? {0} : {1})",
    },
    "bit_and": {"integer": "({0} & {1})"},
    "bit_or": {"integer": "({0} | {1})"},
    "bit_xor": {"integer": "({0} ^ {1})"},
    "bit_not": {"integer": "~{0}"},
    "is_nan": {"f32": "({0} != {0})"},
    "abs": {"f32": "fabs({0})"},
    "sign": {"f32": "({0} != {0} ? {0} : (float)(({0} > 0) - ({0} < 0)))"},
    "reciprocal": {"f32": "1.0f / {0}"},
    "round": {"f32": "rint({0})"},
    "sigmoid": {"f32": "1.0f / (1.0f + exp(-{0}))"},
    "softplus": {"f32": "log1p(exp(-fabs({0}))) + fmax({0}, 0.0f)"},
    "prelu": {"f32": "({0} < 0 ? {0} * {1} : {0})"},
    "relu": {"f32": "({0} > 0 || {0} != {0} ? {0} : 0.0f)", "integer": "({0} > 0 ? {0} : 0)"},
}


def template(node: Node) -> str | None:
    """Return the node's expression; None if it is not a supported pointwise operator."""
    if node.op == "cast":
        to = node.output.dtype.name
        return "({0} != 0)" if to == "bool" else f"({CL_TYPES[to]})({{0}})"
    rule = get_op(node.op)
    if not isinstance(rule, PointwiseOp):
        return None
    dtype = node.inputs[-1].dtype
    if node.op in _ALIKE:
        found = rule.template(dtype)
        return found and found.text
    return entry_for_dtype(TEMPLATES.get(node.op, {}), dtype)


def pointwise(k: Kernel, node: Node) -> None:
    """Write the kernel of a node that has a template; operands of other extents repeat."""
    shape = node.output.shape
    is_broadcast = any(v.shape != shape for v in node.inputs)
    index = k.split(shape) if is_broadcast else []
    operands = [
        f"in{k.buffers.index(v)}[i]" if v.shape == shape else k.load(v, index) for v in node.inputs
    ]
    attrs = {key: f"{v!r}f" if isinstance(v, float) else v for key, v in node.attrs.items()}
    text = template(node).format(*operands, **attrs)
    k.line(f"out[i] = ({CL_TYPES[node.output.dtype.name]})({text});")
