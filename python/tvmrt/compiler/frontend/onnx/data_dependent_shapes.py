"""Operators with data-dependent result sizes: bounded at compile time, counted at run time."""

from __future__ import annotations

from math import prod

import numpy as np

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.op import normalize_axis
from tvmrt.compiler.ir.sizes import SymInt, lower_bound, upper_bound

from .context import NodeContext
from .indexing import take
from .registry import onnx_op


@onnx_op("NonZero")
def nonzero(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    if not x.shape:  # a scalar has no axis: int64[0, count]
        return ctx.slice_axis(_nonzero(ctx, ctx.reshape(x, (1,))), 0, 0, 0)
    return _nonzero(ctx, x)


def _nonzero(ctx: NodeContext, x: Value) -> Value:
    """Return the indices of the non-zero elements, int64[rank, count]."""
    number = ctx.emit("count_nonzero", [x])
    count = ctx.data_dependent_extent(number, 0, prod(x.shape), "count")
    return ctx.emit("nonzero", [x], count=count)


@onnx_op("Compress")
def compress(ctx: NodeContext) -> Value:
    x, condition = ctx.required(0), ctx.required(1)
    axis = ctx.attr("axis")
    if axis is None:
        x, axis = ctx.reshape(x, (prod(x.shape),)), 0
    axis = normalize_axis(axis, len(x.shape))
    if condition.data is not None:
        selected_indices = np.flatnonzero(condition.data[: lower_bound(x.shape[axis])])
        return take(ctx, x, selected_indices, axis)
    positions = _nonzero(ctx, condition)
    indices = ctx.reshape(positions, (positions.shape[1],))
    return ctx.emit("gather", [x, indices], axis=axis)


@onnx_op("Unique")
def unique(ctx: NodeContext) -> list[Value]:
    x, axis = ctx.required(0), ctx.attr("axis")
    if axis is None:
        x, axis = ctx.reshape(x, (prod(x.shape),)), 0
    axis = normalize_axis(axis, len(x.shape))
    return unique_slices(ctx, x, axis, bool(ctx.attr("sorted", 1)))


def unique_slices(ctx: NodeContext, x: Value, axis: int, sorted: bool) -> list[Value]:
    """Return the unique slices of x along an axis, the first index of each, the inverse indices and
    the counts. As in numpy, NaN as an element equals NaN, and a slice of several axes that contains
    NaN equals no other."""
    are_elements = len(x.shape) == 1 and x.dtype.is_float
    op = "unique_equal_nan" if are_elements else "unique"
    first, inverse, counts, number = ctx.emit_many(op, [x], axis=axis, sorted=sorted)
    extent = ctx.data_dependent_extent(
        number, min(1, lower_bound(x.shape[axis])), x.shape[axis], "count"
    )
    first, counts = (ctx.slice_axis(v, 0, 0, extent) for v in (first, counts))
    values = ctx.emit("gather", [x, first], axis=axis)
    return [values, first, inverse, counts]


@onnx_op("NonMaxSuppression")
def non_max_suppression(ctx: NodeContext) -> Value:
    boxes, scores = ctx.required(0), ctx.required(1)
    ctx.require_float32(boxes, scores)
    limit = _scalar(ctx, 2, np.int64(0))
    batch, classes, count = scores.shape
    selected, number = ctx.emit_many(
        "non_max_suppression",
        [
            boxes,
            scores,
            limit,
            _scalar(ctx, 3, np.float32(0)),
            _scalar(ctx, 4, np.float32(-np.inf)),
        ],
        rows=_max_selected(batch * classes, count, limit),
        centred=bool(ctx.attr("center_point_box", 0)),
    )
    extent = ctx.data_dependent_extent(number, 0, selected.shape[0], "count of boxes")
    return ctx.slice_axis(selected, 0, 0, extent)


def _max_selected(classes: SymInt, boxes: SymInt, limit: Value) -> int:
    """Return the maximum number of boxes that all classes of all images may keep together."""
    each = upper_bound(boxes)
    if limit.data is not None:
        each = min(each, max(int(limit.data), 0))
    return upper_bound(classes) * each


def _scalar(ctx: NodeContext, index: int, default: np.generic) -> Value:
    """Return an operand of one element as a scalar."""
    value = ctx.input(index)
    return ctx.const(default) if value is None else ctx.reshape(value, ())
