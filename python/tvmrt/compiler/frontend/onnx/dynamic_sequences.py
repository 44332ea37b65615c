"""Sequence operators with run-time positions or sizes."""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.extent import SymInt
from tvmrt.error import UnsupportedError, UnsupportedSizes

from .context import NodeContext
from .select import select
from .sequence_values import DynamicTensorList, OnnxValue, TensorList
from .tensor_expressions import TensorExpr, require

MAX_PARTS = 64  # maximum number of parts of a split by a run-time size


def _position(ctx: NodeContext, index: int, count: int, last: int) -> TensorExpr:
    """Return a non-negative position up to ``last``; others end the run with an error."""
    given = ctx.required(index)
    position = TensorExpr.from_integer(ctx, given).reshape().normalize_negative(count)
    inside = (position >= 0).logical_and(position <= last).cast("int64").reshape(1)
    require(inside, [1], given, "position", f"sequences of {count}")
    return position


def insert_at(ctx: NodeContext, values: Sequence[OnnxValue], new: OnnxValue) -> TensorList:
    """Insert a tensor into a sequence at a run-time position."""
    count = len(values)
    position = _position(ctx, 2, count, count)
    found = []
    for i in range(count + 1):
        old = values[min(i, count - 1)] if count else new
        if 0 < i < count:
            old = select(ctx, (position < i).value, values[i - 1], old)
        found.append(select(ctx, position.equals(i).value, new, old))
    return TensorList(found)


def erase_at(ctx: NodeContext, values: Sequence[OnnxValue]) -> TensorList:
    """Remove the element at a run-time position from a sequence."""
    count = len(values)
    position = _position(ctx, 1, count, count - 1)
    pairs = enumerate(zip(values[1:], values))
    return TensorList([select(ctx, (position <= i).value, *pair) for i, pair in pairs])


def element_at(ctx: NodeContext, values: Sequence[OnnxValue]) -> OnnxValue:
    """Return the element of any shape at a run-time position."""
    position = _position(ctx, 1, len(values), len(values) - 1)
    result = values[-1]
    for i in reversed(range(len(values) - 1)):
        result = select(ctx, position.equals(i).value, values[i], result)
    return result


def split_to_sequence(ctx: NodeContext, x: Value, axis: int) -> OnnxValue:
    """SplitToSequence by run-time sizes, or by one size for all parts."""
    sizes = ctx.required(1)
    if sizes.shape:
        return _split_by_sizes(ctx, x, axis, TensorExpr.from_integer(ctx, sizes))
    extent = x.shape[axis]
    if not isinstance(extent, int) or extent > MAX_PARTS:
        raise UnsupportedSizes(
            f"an axis of {extent!r} is split by a run-time size; at most {MAX_PARTS} elements "
            "are supported, as there may be as many parts"
        )
    size = TensorExpr.from_integer(ctx, sizes)
    require((size > 0).cast("int64").reshape(1), [1], sizes, "split", "parts of 1 element or more")
    size = size.minimum(extent)
    count = (size + (extent - 1)) / size
    parts = []
    for i in range(extent):
        length = (size * -i + extent).minimum(size).maximum(0)
        parts.append(_part(ctx, x, axis, size * i, length, extent // (i + 1)))
    return DynamicTensorList(parts, count.value)


def _split_by_sizes(ctx: NodeContext, x: Value, axis: int, sizes: TensorExpr) -> TensorList:
    (count,), extent = sizes.shape, x.shape[axis]
    if not isinstance(count, int):
        raise UnsupportedError("the number of parts is known only at run time")
    ctx.check_table_size(count, "the sequence")
    least = (sizes >= 0).cast("int64").reduce("reduce_min").reshape(1)
    require(least, [1], sizes.value, "split", "parts of 0 elements or more")
    total = sizes.reduce("reduce_sum").reshape(1)
    require(total, [extent], sizes.value, "split", f"an axis of {extent!r}")
    parts, start = [], sizes.at(0) * 0 if count else None
    for i in range(count):
        parts.append(_part(ctx, x, axis, start, sizes.at(i), extent))
        start = start + sizes.at(i)
    return TensorList(parts)


def _part(
    ctx: NodeContext, x: Value, axis: int, start: TensorExpr, length: TensorExpr, bound: SymInt
) -> Value:
    """Return ``length`` elements (at most ``bound``) of an axis from index ``start`` on."""
    found = ctx.data_dependent_extent(length.value, 0, bound, f"extent of axis {axis}")
    indices = [ctx.iota(n) for n in x.shape]
    indices[axis] = (TensorExpr(ctx, ctx.iota(found)) + start).value
    return ctx.emit("take_at", [x, None, *indices])
