"""Reductions over axes that are made of several operators of the IR."""

from __future__ import annotations

from tvmrt.compiler.ir import Value

from .context import NodeContext
from .plain_operators import reduce_axes
from .registry import onnx_op


def _reduce(ctx: NodeContext, op: str, x: Value, axes: list[int]) -> Value:
    if not axes:  # each result is made of one element, itself
        return x
    return ctx.emit(op, [x], axes=tuple(axes), keepdims=int(ctx.attr("keepdims", 1)))


@onnx_op("ReduceSumSquare")
def reduce_sum_square(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    axes = reduce_axes(ctx, x)
    return _reduce(ctx, "reduce_sum_square", x, axes) if axes else ctx.emit("mul", [x, x])


@onnx_op("ReduceL1")
def reduce_l1(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    return _reduce(ctx, "reduce_sum", ctx.emit("abs", [x]), reduce_axes(ctx, x))


@onnx_op("ReduceL2")
def reduce_l2(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    axes = reduce_axes(ctx, x)
    if not axes:
        return ctx.emit("abs", [x])
    return _apply_in_float(ctx, "sqrt", _reduce(ctx, "reduce_sum_square", x, axes))


@onnx_op("ReduceLogSum")
def reduce_log_sum(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    return _apply_in_float(ctx, "log", _reduce(ctx, "reduce_sum", x, reduce_axes(ctx, x)))


@onnx_op("ReduceLogSumExp")
def reduce_log_sum_exp(ctx: NodeContext) -> Value:
    """Subtract the maximum before the exponentials, so that none overflows."""
    x = ctx.required(0)
    axes = reduce_axes(ctx, x)
    if not axes:
        return x
    keep = int(ctx.attr("keepdims", 1))
    work = x if x.dtype.is_float else ctx.cast(x, "float64")
    top = ctx.emit("reduce_max", [work], axes=tuple(axes), keepdims=1)
    # an infinite maximum would give infinity minus infinity
    finite = ctx.emit("less", [ctx.emit("abs", [top]), ctx.like(float("inf"), top)])
    top = ctx.emit("where", [finite, top, ctx.like(0, top)])
    powers = ctx.emit("exp", [ctx.emit("sub", [work, top])])
    total = ctx.emit("reduce_sum", [powers], axes=tuple(axes), keepdims=1)
    result = ctx.emit("add", [ctx.emit("log", [total]), top])
    if not keep:
        result = ctx.reshape(result, [n for d, n in enumerate(x.shape) if d not in axes])
    return ctx.cast(result, x.dtype.name)


def _apply_in_float(ctx: NodeContext, op: str, x: Value) -> Value:
    """Apply a float function; integers are computed in float64."""
    if x.dtype.is_float:
        return ctx.emit(op, [x])
    return ctx.cast(ctx.emit(op, [ctx.cast(x, "float64")]), x.dtype.name)
