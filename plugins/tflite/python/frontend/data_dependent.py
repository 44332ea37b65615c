"""Operators with data-dependent result sizes: an upper bound at compile time, a run-time count."""

from __future__ import annotations

from math import prod

from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.registry import tflite_op


@tflite_op(WHERE=1)
def where(ctx: OpContext) -> Value:
    """Return the indices of the non-zero elements, int64[count, rank]."""
    x = ctx.required(0)
    if not x.shape:
        raise UnsupportedError("the operand is a scalar")
    count = ctx.data_dependent_extent(ctx.emit("count_nonzero", [x]), 0, prod(x.shape), "count")
    return ctx.transpose(ctx.emit("nonzero", [x], count=count), (1, 0))


@tflite_op(UNIQUE=1)
def unique(ctx: OpContext) -> list[Value]:
    """Return the distinct elements in order of first occurrence, and each element's index there."""
    x = ctx.required(0)
    if x.type.rank != 1:
        raise ValueError(f"the operand is {x.type}; it must have rank 1")
    first, inverse, _, unique_count = ctx.emit_many("unique", [x], axis=0, sorted=False)
    extent = ctx.data_dependent_extent(unique_count, min(1, x.shape[0]), x.shape[0], "count")
    first = ctx.emit("slice", [first], starts=(0,), steps=(1,), sizes=(extent,))
    values = ctx.emit("gather", [x, first], axis=0)
    return [values, ctx.cast(inverse, ctx.result(1).dtype)]


@tflite_op(SPARSE_TO_DENSE=3)
def sparse_to_dense(ctx: OpContext) -> Value:
    indices, shape = ctx.required(0), tuple(ctx.int_operand(1, "the shape of the result"))
    values, default = ctx.required(2), ctx.required(3)
    rank = indices.type.rank
    if rank < 2:
        indices = ctx.reshape(indices, (indices.type.size, 1))
    if rank > 2 or indices.shape[1] != len(shape) or default.type.size != 1:
        raise ValueError(f"indices {indices.type} do not fit shape {list(shape)}")
    values = ctx.emit("expand", [values], shape=(indices.shape[0],))
    start = ctx.emit("expand", [ctx.reshape(default, ())], shape=shape)
    return ctx.emit("scatter_nd", [start, ctx.cast(indices, "int64"), values], reduction="none")
