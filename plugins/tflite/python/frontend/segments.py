"""Segment reductions and BUCKETIZE."""

from __future__ import annotations

from math import prod

import numpy as np

from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.registry import tflite_op

_JOINS = {"SUM": "add", "PROD": "mul", "MAX": "max", "MIN": "min"}


@tflite_op(
    UNSORTED_SEGMENT_SUM=1, UNSORTED_SEGMENT_PROD=1, UNSORTED_SEGMENT_MAX=1, UNSORTED_SEGMENT_MIN=1
)
def unsorted_segments(ctx: OpContext) -> Value:
    (count,) = ctx.int_operand(2, "the number of segments")
    return _segments(ctx, count, ctx.op.name.rpartition("_")[2])


@tflite_op(SEGMENT_SUM=1)
def segment_sum(ctx: OpContext) -> Value:
    """Sum rows per segment; the last element of the constant segment ids is the highest."""
    ids = ctx.int_operand(1, "the segments")
    return _segments(ctx, ids[-1] + 1 if ids else 0, "SUM")


def _segments(ctx: OpContext, count: int, kind: str) -> Value:
    """Reduce the rows of operand 0 by the segment ids in operand 1; drop rows with id < 0."""
    x, ids = ctx.required(0), ctx.required(1)
    rank = ids.type.rank
    if count < 0 or x.shape[:rank] != ids.shape:
        raise ValueError(f"segment ids {ids.type} and {count} segments do not fit {x.type}")
    rest = x.shape[rank:]
    first = ctx.like(_first(x, kind), x)
    # an extra row takes the dropped rows
    start = ctx.emit("expand", [first], shape=(count + 1, *rest))
    ids = ctx.reshape(ids, (prod(ids.shape), 1))
    none = ctx.emit("less", [ids, ctx.like(0, ids)])
    ids = ctx.emit("where", [none, ctx.like(count, ids), ids])
    rows = ctx.reshape(x, (ids.shape[0], *rest))
    joined = ctx.emit("scatter_nd", [start, ids, rows], reduction=_JOINS[kind])
    return ctx.slice_axis(joined, 0, 0, count)


def _first(x: Value, kind: str) -> float:
    """Return the value of an empty segment."""
    if kind in ("SUM", "PROD"):
        return 0 if kind == "SUM" else 1
    info = np.finfo(x.dtype.numpy) if x.dtype.is_float else np.iinfo(x.dtype.numpy)
    return info.min if kind == "MAX" else info.max


@tflite_op(BUCKETIZE=1)
def bucketize(ctx: OpContext) -> Value:
    """Count the boundaries that are not above each element; for NaN, all of them."""
    x, bounds = ctx.required(0), np.asarray(ctx.options["boundaries"] or (), np.float32)
    if not np.isfinite(bounds).all() or (np.diff(bounds) < 0).any():
        raise ValueError("its boundaries are not in ascending order")
    x = x if x.dtype.is_float else ctx.cast(x, "float32")
    if not bounds.size:
        raise UnsupportedError("it has no boundaries")
    column = ctx.reshape(x, (*x.shape, 1))
    below = ctx.emit("less", [column, ctx.const(bounds, x.dtype.numpy)])
    below = ctx.emit("reduce_sum", [ctx.cast(below, "int32")], axes=(x.type.rank,), keepdims=False)
    return ctx.emit("sub", [ctx.const(bounds.size, np.int32), below])
