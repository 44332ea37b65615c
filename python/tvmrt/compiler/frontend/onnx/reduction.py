"""Reductions over axes, and cumulative sums and products along one."""

from __future__ import annotations

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.op import distinct_axes, normalize_axis

from .context import NodeContext
from .registry import onnx_op

_REDUCTIONS = {
    "ReduceMax": "reduce_max",
    "ReduceMean": "reduce_mean",
    "ReduceMin": "reduce_min",
    "ReduceProd": "reduce_prod",
    "ReduceSum": "reduce_sum",
    "ReduceSumSquare": "reduce_sum_square",
}


def reduce_axes(ctx: NodeContext, x: Value) -> list[int]:
    """Return the sorted axes to reduce: without ``axes`` all, or none if the node says so."""
    axes = ctx.attr_or_input("axes", 1)
    rank = len(x.shape)
    if not axes:
        return [] if ctx.attr("noop_with_empty_axes", 0) else list(range(rank))
    found = distinct_axes(axes, rank)
    return sorted(found)


def _reduce(ctx: NodeContext, op: str, x: Value, axes: list[int]) -> Value:
    if not axes and op != "reduce_sum_square":  # each result is made of one element, itself
        return x
    return ctx.emit(op, [x], axes=tuple(axes), keepdims=int(ctx.attr("keepdims", 1)))


@onnx_op(*_REDUCTIONS)
def reduce(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    axes = reduce_axes(ctx, x)
    if not axes and ctx.op == "ReduceSumSquare":
        return ctx.emit("mul", [x, x])
    return _reduce(ctx, _REDUCTIONS[ctx.op], x, axes)


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


@onnx_op("ArgMax", "ArgMin")
def arg_reduce(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    return ctx.emit(
        ctx.op.lower(),
        [x],
        axis=normalize_axis(ctx.attr("axis", 0), len(x.shape)),
        keepdims=int(ctx.attr("keepdims", 1)),
        select_last=int(ctx.attr("select_last_index", 0)),
    )


@onnx_op("CumSum", "CumProd")
def cumulative(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    (axis,) = ctx.int_operand(1, "the axis")
    return ctx.emit(
        "cumulative_sum" if ctx.op == "CumSum" else "cumulative_product",
        [x],
        axis=normalize_axis(axis, len(x.shape)),
        exclusive=int(ctx.attr("exclusive", 0)),
        reverse=int(ctx.attr("reverse", 0)),
    )
