"""Sizes that an ONNX network computes, see ``frontend.size_propagation``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from tvmrt.compiler.frontend.size_propagation import to_extent, track_sizes
from tvmrt.compiler.ir.computed_sizes.expression import (
    FLOATS,
    SizeExpr,
    UndefinedSize,
    bounds,
    cast_to,
    combine,
    inexact_error,
    leaf,
    require_defined,
)
from tvmrt.compiler.ir.sizes import SymInt

from .context import NodeContext
from .legalize_types import propagate_types

MAX_ROOT = 1 << 22  # smaller integers have an integer float32 root only if it is exact


def track(ctx: NodeContext, outputs: Sequence[Any], start: int) -> Sequence[Any]:
    """Record how the results of a node depend on sizes, as ``track_sizes`` does."""
    graphs = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
    has_body = any(attribute.type in graphs for attribute in ctx.node.attribute)
    if not outputs or ctx.node.domain not in ("", "ai.onnx") or has_body:
        return outputs
    propagate_types(ctx.node, ctx.opset, ctx.inputs, outputs)
    if ctx.op == "Pow":
        try:
            _require_exact_power(ctx)
        except UndefinedSize as problem:
            ctx.importer.sizes.undefined[outputs[0]] = str(problem)
    return track_sizes(ctx, outputs, start)


def _require_exact_power(ctx: NodeContext) -> None:
    """Raise UndefinedSize for a power of sizes that overflows, or that C libraries round
    differently. They agree for 1, 2, and for roots of integers below MAX_ROOT, where only exact
    roots round to an integer."""
    x, times = (ctx.importer.sizes.elements(ctx.input(i)) for i in range(2))
    if x is None or times is None:
        return
    for base, power in np.broadcast(x, times):
        if base.dtype not in FLOATS:
            require_defined(combine("pow_whole", [base, power], base.dtype))
        elif (
            power.op
            or power.value not in (1, 2, 0.5)
            or (power.value == 0.5 and not _is_near_root(base))
        ):
            raise inexact_error("pow", base)


def _is_near_root(expr: SizeExpr) -> bool:
    exact, ends = expr.exact, bounds(expr)
    is_integer = exact is not None and exact.is_exact and exact.is_whole
    return is_integer and ends is not None and 0 <= ends[0] and ends[1] < MAX_ROOT


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
