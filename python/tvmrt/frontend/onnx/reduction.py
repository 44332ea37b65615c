"""Reductions over axes."""

from __future__ import annotations

from tvmrt.ir import Value

from .context import NodeContext
from .registry import onnx_op

_PLAIN = {
    "ReduceL1": "reduce_l1",
    "ReduceMax": "reduce_max",
    "ReduceMean": "reduce_mean",
    "ReduceMin": "reduce_min",
    "ReduceProd": "reduce_prod",
    "ReduceSum": "reduce_sum",
    "ReduceSumSquare": "reduce_sum_square",
}


def reduce_axes(ctx: NodeContext, x: Value) -> list[int] | None:
    """Sorted axes; None when the node asks for nothing at all (noop_with_empty_axes)."""
    axes = ctx.attr_or_input("axes", 1)
    if not axes:
        return None if ctx.attr("noop_with_empty_axes", 0) else list(range(len(x.shape)))
    rank = len(x.shape)
    return sorted({a + rank if a < 0 else a for a in axes})


@onnx_op(*_PLAIN)
def reduce(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    axes = reduce_axes(ctx, x)
    if axes is None:
        return x
    return ctx.emit(_PLAIN[ctx.op], [x], axes=tuple(axes), keepdims=ctx.attr("keepdims", 1))
