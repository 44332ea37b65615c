"""Selection and update by index, sorting, one-hot encoding, and operators with data-dependent
result sizes: bounded at compile time, counted at run time."""

from __future__ import annotations

from math import prod
from operator import le

import numpy as np

from tvmrt.compiler.ir import VIEW, Value, get_op
from tvmrt.compiler.ir.data_movement import concat_of
from tvmrt.compiler.ir.limits import MAX_ELEMENTS
from tvmrt.compiler.ir.op import normalize_axis
from tvmrt.compiler.ir.sizes import (
    SymInt,
    data_dependent_symbols,
    extent_text,
    is_unbounded,
    lower_bound,
    sym_min,
    symbols_of,
    upper_bound,
)
from tvmrt.compiler.ir.sizes.assumptions import are_equal, is_at_least
from tvmrt.compiler.ir.sizes.undecided import statically_known_true

from .context import NodeContext
from .dynamic_sizes import strip_cast
from .registry import onnx_op


def checked_indices(ctx: NodeContext, value: Value, extent: int | np.ndarray) -> Value:
    """Return indices; constant ones are checked and made non-negative. Those computed from sizes
    are checked at the start of a run, even if it needs no more of the result than its shape.

    ``extent``: the extent of the indexed axis, or of each axis that a tuple indexes.
    """
    if not value.dtype.is_int:
        raise ValueError(f"indices must be integers, not {value.dtype}")
    indices = ctx.extents.get(value) if value.data is None else value.data.astype(object)
    extents = np.asarray(extent, object)
    if indices is not None and not data_dependent_symbols(*indices.flat):
        _require_inside(indices, extents, value.data is None)
    if value.data is None:
        return value if value.dtype.name in ("int32", "int64") else ctx.cast(value, "int64")
    return ctx.integer_tensor(np.where(indices < 0, indices + extents, indices))


def _require_inside(indices: np.ndarray, extents: np.ndarray, are_computed: bool) -> None:
    """Record the conditions that indices are in range. Raises ValueError if one is outside; of
    those computed from sizes, if it is so at all sizes."""
    for index, limit in np.broadcast(indices, extents):
        if are_computed:
            inside = is_at_least(limit - index, 1) or upper_bound(limit - index) >= 1
        else:
            inside = is_at_least(limit, index + 1 if index >= 0 else -index)
        if not inside:
            raise ValueError(f"index {extent_text(index)} is outside an extent of {limit!r}")


def gather_rows(ctx: NodeContext, table: Value, indices: Value) -> Value:
    """Gather rows of a table; constant indices are checked."""
    return ctx.emit("gather", [table, checked_indices(ctx, indices, table.shape[0])], axis=0)


def _index_tuples(ctx: NodeContext, x: Value, batch: int) -> Value:
    """Return the second operand: index tuples for the axes of ``x`` after the batch axes."""
    value = ctx.required(1)
    extents = x.shape[batch : batch + value.shape[-1]]
    if len(extents) != value.shape[-1]:  # reported by the operator's contract
        return value
    return checked_indices(ctx, value, np.asarray(extents))


@onnx_op("Gather")
def gather(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    axis = normalize_axis(ctx.attr("axis", 0), len(x.shape))
    counts = _edge_counts(ctx.required(1), x.shape[axis])
    if counts is not None:
        # the first and the last elements only, so that all indices are constant
        first, last = counts
        parts = [ctx.slice_axis(x, axis, x.shape[axis] - last, last)]
        if first:
            parts.insert(0, ctx.slice_axis(x, axis, 0, first))
        x = ctx.concat(parts, axis)
        indices = ctx.required(1).data
        return take(ctx, x, np.where(indices < 0, indices + first + last, indices), axis)
    indices = checked_indices(ctx, ctx.required(1), x.shape[axis])
    if indices.data is None:
        return ctx.emit("gather", [x, indices], axis=axis)
    return take(ctx, x, indices.data, axis)


def _edge_counts(indices: Value, extent: SymInt) -> tuple[int, int] | None:
    """Return how many first and last elements of a dynamic axis contain all constant indices, if
    some are negative and the axis is always long enough; else None."""
    if indices.data is None or not indices.dtype.is_int or not symbols_of(extent):
        return None
    if not indices.data.size or indices.data.min() >= 0:
        return None
    first, last = 1 + max(-1, int(indices.data.max())), -int(indices.data.min())
    return (first, last) if max(first, last) <= lower_bound(extent) else None


def take(ctx: NodeContext, x: Value, indices: np.ndarray, axis: int) -> Value:
    """Select elements at constant non-negative indices: a slice if they are evenly spaced."""
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    flat = indices.reshape(-1)
    steps = np.unique(np.diff(flat))
    if flat.size == 0 or steps.size > 1:
        out = ctx.emit("gather", [x, ctx.const(flat, np.int64)], axis=axis)
        return ctx.reshape(out, shape)
    step = int(steps[0]) if steps.size else 1
    if step == 0:
        x = ctx.slice_axis(x, axis, int(flat[0]), 1)
        x = ctx.expand(x, [flat.size if d == axis else n for d, n in enumerate(x.shape)])
    else:
        x = ctx.slice_axis(x, axis, int(flat[0]), flat.size, step)
    return ctx.reshape(x, shape)


@onnx_op("GatherElements")
def gather_elements(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    axis = normalize_axis(ctx.attr("axis", 0), len(x.shape))
    return ctx.emit(
        "gather_elements", [x, checked_indices(ctx, ctx.required(1), x.shape[axis])], axis=axis
    )


@onnx_op("GatherND")
def gather_nd(ctx: NodeContext) -> Value:
    x, indices, batch = ctx.required(0), ctx.required(1), ctx.attr("batch_dims", 0)
    slices = x.shape[batch + indices.shape[-1] :] if isinstance(indices.shape[-1], int) else ()
    if 0 in slices:  # onnxruntime checks no index, since it reads no element
        return ctx.expand(ctx.like(0, x), (*indices.shape[:-1], *slices))
    return ctx.emit("gather_nd", [x, _index_tuples(ctx, x, batch)], batch=batch)


@onnx_op("Scatter", "ScatterElements")
def scatter_elements(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    axis = normalize_axis(ctx.attr("axis", 0), len(x.shape))
    inputs = [x, checked_indices(ctx, ctx.required(1), x.shape[axis]), ctx.required(2)]
    return ctx.emit("scatter_elements", inputs, axis=axis, reduction=ctx.attr("reduction", "none"))


@onnx_op("ScatterND")
def scatter_nd(ctx: NodeContext) -> Value:
    x, updates = ctx.required(0), ctx.required(2)
    indices = _index_tuples(ctx, x, 0)
    reduction = ctx.attr("reduction", "none")
    covered = _covered_range(x, indices) if reduction == "none" else None
    if covered is not None:
        axis, start, extents = covered
        return splice(ctx, x, axis, start, ctx.reshape(updates, extents))
    return ctx.emit("scatter_nd", [x, indices, updates], reduction=reduction)


def _covered_range(x: Value, indices: Value) -> tuple[int, int, tuple[int, ...]] | None:
    """Return (axis, start, shape) if constant indices cover x except for a range of one axis.

    Exporters write x[:, a:b] = updates like this. If x may be overwritten, a scatter of the updates
    is cheaper than a concat, so only values that must be copied anyway count.
    """
    if indices.data is None or indices.data.size == 0 or not _must_be_copied(x):
        return None
    depth = indices.shape[-1]
    named = np.asarray(x.shape[:depth])
    tuples = indices.data.reshape(-1, depth)
    tuples = np.where(tuples < 0, tuples + named, tuples)
    first = tuples.min(0)
    extents = tuples.max(0) - first + 1
    if prod(extents) != len(tuples) or (first < 0).any() or (first + extents > named).any():
        return None
    box = np.indices(extents).reshape(depth, -1).T + first
    partial = np.flatnonzero(extents != named)
    if partial.size > 1 or not np.array_equal(box, tuples):
        return None
    axis = int(partial[0]) if partial.size else 0
    return axis, int(first[axis]), (*(int(n) for n in extents), *x.shape[depth:])


def _must_be_copied(x: Value) -> bool:
    """Return whether x is an input of the network, a constant, or a concat."""
    while x.producer is not None and get_op(x.producer.op).kind == VIEW:
        x = x.producer.inputs[0]
    return x.producer is None or concat_of(x) is not None


def splice(ctx: NodeContext, x: Value, axis: int, start: int, new: Value) -> Value:
    """Replace a range of x along one axis. Parts of a concat that are replaced vanish."""
    joined = concat_of(x)
    parts = joined.inputs if joined is not None and joined.attrs["axis"] == axis else [x]
    end = start + new.shape[axis]
    before, after, position = [], [], 0
    for part in parts:
        last = position + part.shape[axis]
        if position < start:
            before.append(ctx.slice_axis(part, axis, 0, min(start, last) - position))
        if not statically_known_true(le, last, end):
            count = last - max(end, position)
            after.append(ctx.slice_axis(part, axis, part.shape[axis] - count, count))
        position = last
    return ctx.concat([*before, new, *after], axis)


@onnx_op("TensorScatter")
def tensor_scatter(ctx: NodeContext) -> Value:
    """Write ``update`` into a cache at one position per sample."""
    cache, update = ctx.required(0), ctx.required(1)
    where = ctx.input(2)
    if where is None:
        where = ctx.const(np.zeros(cache.shape[0]), np.int64)
    return ctx.emit(
        "tensor_scatter",
        [cache, update, ctx.cast(where, "int64")],
        axis=normalize_axis(ctx.attr("axis", -2), len(cache.shape)),
        circular=ctx.attr("mode", "linear") == "circular",
    )


@onnx_op("OneHot")
def one_hot(ctx: NodeContext) -> Value:
    """Write ``on`` where an index equals the position along the new axis, else ``off``."""
    indices = ctx.cast(ctx.required(0), "int64")
    ctx.inputs[1] = strip_cast(ctx.required(1))
    (depth,) = ctx.int_operand(1, "the depth")
    values = ctx.required(2)
    rank = len(indices.shape) + 1
    axis = normalize_axis(ctx.attr("axis", -1), rank)
    negative = ctx.emit("less", [indices, ctx.const(0, np.int64)])
    lifted = ctx.emit("add", [indices, ctx.integer_tensor(np.asarray(depth, object))])
    indices = ctx.emit("where", [negative, lifted, indices])
    indices = ctx.unsqueeze(indices, axis)
    places = ctx.iota(depth, what="the depth")
    places = ctx.reshape(places, [depth if d == axis else 1 for d in range(rank)])
    hit = ctx.emit("equal", [indices, places])
    off, on = (ctx.element(values, 0, i) for i in (0, 1))
    return ctx.emit("where", [hit, on, off])


@onnx_op("TopK")
def top_k(ctx: NodeContext) -> list[Value]:
    x = ctx.required(0)
    axis = normalize_axis(ctx.attr("axis", -1), len(x.shape))
    if ctx.opset >= 10 and ctx.is_computed(1):
        number = ctx.reshape(ctx.required(1), ())
        k = ctx.data_dependent_extent(number, 0, x.shape[axis], "k")
    else:
        (k,) = ctx.attr_or_input("k", 1)
    return ctx.emit_many("topk", [x], k=k, axis=axis, largest=int(ctx.attr("largest", 1)))


@onnx_op("Col2Im")
def col2im(ctx: NodeContext) -> Value:
    """Sum overlapping blocks into an image by a constant table of targets."""
    x = ctx.required(0)
    image, block = ctx.int_operand(1, "the image's shape"), ctx.int_operand(2, "the block's shape")
    rank = len(image)
    pads = ctx.attr("pads", [0] * 2 * rank)
    targets = block_targets(
        ctx, image, block, ctx.attr("strides", [1] * rank), ctx.attr("dilations", [1] * rank), pads
    )
    channels, spots = x.shape[1] // prod(block), prod(targets.shape[-rank:])
    if x.shape[1] % prod(block) or not are_equal(x.shape[2], spots):
        raise ValueError(f"{x.type} does not hold blocks of {block} for an image of {image}")
    rows = ctx.reshape(x, (x.shape[0] * channels, targets.size))
    out = ctx.emit("sum_into", [rows, ctx.const(targets.reshape(-1), np.int32)], size=prod(image))
    return ctx.reshape(out, (x.shape[0], channels, *image))


def block_targets(ctx: NodeContext, image, block, strides, dilations, pads) -> np.ndarray:
    """Return the flat image index of element [*block][*position], -1 in the padding."""
    rank = len(image)
    ctx.check_table_size(prod(block) * prod(max(n, 1) for n in image), "the table of blocks")
    places, inside = np.zeros([1] * 2 * rank, np.int64), np.ones([1] * 2 * rank, bool)
    for d in range(rank):
        reach = dilations[d] * (block[d] - 1) + 1
        positions = (image[d] + pads[d] + pads[rank + d] - reach) // strides[d] + 1
        along = (
            dilations[d] * np.arange(block[d])[:, None]
            + strides[d] * np.arange(positions)[None, :]
            - pads[d]
        )
        shape = [1] * 2 * rank
        shape[d], shape[rank + d] = along.shape
        along = along.reshape(shape)
        places = places * image[d] + along
        inside = inside & (along >= 0) & (along < image[d])
    return np.where(inside, places, -1)


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


def _max_selected(classes: SymInt, boxes: SymInt, limit: Value) -> SymInt:
    """Return the maximum number of boxes that all classes of all images may keep together."""
    each, classes = (n if is_unbounded(n) else upper_bound(n) for n in (boxes, classes))
    if limit.data is not None:
        each = sym_min(each, min(max(int(limit.data), 0), MAX_ELEMENTS))
    return classes * each


def _scalar(ctx: NodeContext, index: int, default: np.generic) -> Value:
    """Return an operand of one element as a scalar."""
    value = ctx.input(index)
    return ctx.const(default) if value is None else ctx.reshape(value, ())
