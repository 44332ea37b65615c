"""Pointwise operators as OpenCL C expressions."""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.ir import Node
from tvmrt.plugins.opencl.kernel import CL_TYPES, cl_type
from tvmrt.plugins.opencl.pointwise_templates import template_of


def template(node: Node) -> str | None:
    """Return the node's expression; None if it is not a supported pointwise operator."""
    values = [v for v in node.inputs if v is not None]
    if not values or any(v.dtype.name not in CL_TYPES for v in [*values, *node.outputs]):
        return None
    if node.op == "cast":
        return _cast(node)
    return template_of(node.op, values[-1].dtype)


def _cast(node: Node) -> str:
    to = node.output.dtype.name
    return "({0} != 0)" if to == "bool" else f"({CL_TYPES[to]})({{0}})"


def expression(node: Node, operands: Sequence[str]) -> str:
    """Return the node's value, cast to its result's type."""
    attrs = {k: f"{v!r}f" if isinstance(v, float) else v for k, v in node.attrs.items()}
    text = template(node).format(*operands, **attrs)
    return f"({cl_type(node.output.dtype)})({text})"
