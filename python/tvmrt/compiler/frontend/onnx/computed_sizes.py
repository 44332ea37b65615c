"""Sizes that an ONNX network computes, see ``frontend.size_propagation``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx

from tvmrt.compiler.frontend.size_propagation import to_extent, track_sizes
from tvmrt.compiler.ir.computed_sizes.expression import (
    SizeExpr,
    cast_to,
    combine,
    leaf,
)
from tvmrt.compiler.ir.sizes import SymInt

from .context import NodeContext
from .legalize_types import propagate_types


def track(ctx: NodeContext, outputs: Sequence[Any], start: int) -> Sequence[Any]:
    """Record how the results of a node depend on sizes, as ``track_sizes`` does."""
    graphs = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
    has_body = any(attribute.type in graphs for attribute in ctx.node.attribute)
    if not outputs or ctx.node.domain not in ("", "ai.onnx") or has_body:
        return outputs
    propagate_types(ctx.node, ctx.opset, ctx.inputs, outputs)
    return track_sizes(ctx, outputs, start)


def scale_extent(ctx: NodeContext, extent: SymInt, factor: SizeExpr) -> SymInt | None:
    """Return floor(extent * factor) in float32; None if it is unbounded."""
    product = combine("mul", [cast_to(leaf(extent), "float32"), factor], "float32")
    return to_extent(ctx, cast_to(combine("floor", [product], "float32"), "int64"))


def range_length(ctx: NodeContext) -> SymInt | None:
    """Return the length of a Range whose operands are computed from sizes."""
    sizes = ctx.importer.sizes
    operands = [sizes.elements(v) for v in ctx.inputs]
    if not any(map(sizes.vary, ctx.inputs)) or any(o is None or o.size != 1 for o in operands):
        return None
    start, limit, step = (o.item() for o in operands)  # type: ignore[union-attr]
    difference = cast_to(combine("sub", [limit, start], limit.dtype), "float64")
    steps = combine("div", [difference, cast_to(step, "float64")], "float64")
    steps = combine("max", [combine("ceil", [steps], "float64"), leaf(0.0, "float64")], "float64")
    return to_extent(ctx, cast_to(steps, "int64"))
