"""Operators that concatenate, slice, reorder and gather elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvmrt.compiler.sdk.arithmetic import to_integers
from tvmrt.compiler.sdk.frontend import slice_range
from tvmrt.compiler.sdk.graph import SymInt, Value, normalize_axis, symbols_of, upper_bound
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.activation import apply_activation
from tvmrt.plugins.tflite.frontend.arithmetic import is_quantized
from tvmrt.plugins.tflite.frontend.context import QUANTIZED, OpContext
from tvmrt.plugins.tflite.frontend.multipliers import activation_name, f32, ratio
from tvmrt.plugins.tflite.frontend.registry import tflite_op


@tflite_op(CONCATENATION=7)
def concatenation(ctx: OpContext) -> Value:
    parts = [ctx.required(i) for i in range(len(ctx.inputs))]
    if not parts:
        raise ValueError("it has no operands")
    axis = normalize_axis(ctx.options["axis"], parts[0].type.rank)
    if is_quantized(ctx, *QUANTIZED):
        if activation_name(ctx.options["act"]) != "NONE":
            raise UnsupportedError("a fused activation of an integer concatenation")
        parts = [_harmonize(ctx, i, part) for i, part in enumerate(parts)]
        return ctx.emit("concat", parts, axis=axis)
    return apply_activation(ctx, ctx.emit("concat", parts, axis=axis))


def _harmonize(ctx: OpContext, index: int, part: Value) -> Value:
    """Requantise an operand to the quantisation of the result."""
    (scale, zero), (to, to_zero) = ctx.per_tensor(ctx.tensor(index)), ctx.per_tensor(ctx.result())
    if scale == to and zero == to_zero:
        return part
    if part.dtype.name != "uint8":
        raise ValueError(
            "the scales of its operands and its result differ; quantise the model again"
        )
    factor = f32(scale * ratio(f32(1), to))
    q = np.arange(256).astype(np.float32)
    steps = np.rint(q * factor + f32(-zero) * factor) + to_zero
    entries = to_integers(steps, np.uint8)
    return ctx.emit("table", [part, ctx.const(entries)], to="uint8")


@tflite_op(PACK=5)
def pack(ctx: OpContext) -> Value:
    parts = [ctx.required(i) for i in range(len(ctx.inputs))]
    axis = normalize_axis(ctx.options["axis"], parts[0].type.rank + 1)
    return ctx.emit("concat", [ctx.unsqueeze(part, axis) for part in parts], axis=axis)


@tflite_op(UNPACK=6)
def unpack(ctx: OpContext) -> list[Value]:
    x = ctx.required(0)
    axis = normalize_axis(ctx.options["axis"], x.type.rank)
    return [ctx.element(x, axis, i) for i in range(x.shape[axis])]


@tflite_op(SPLIT=5)
def split(ctx: OpContext) -> list[Value]:
    (axis,), x, count = ctx.int_operand(0, "the axis"), ctx.required(1), ctx.options["num_splits"]
    axis = normalize_axis(axis, x.type.rank)
    if count < 1 or x.shape[axis] % count:
        raise ValueError(f"{x.type} cannot be split into {count} parts along axis {axis}")
    size = x.shape[axis] // count
    return [ctx.slice_axis(x, axis, i * size, size) for i in range(count)]


@tflite_op(SPLIT_V=3)
def split_v(ctx: OpContext) -> list[Value]:
    x, sizes, (axis,) = (
        ctx.required(0),
        ctx.int_operand(1, "the sizes"),
        ctx.int_operand(2, "the axis"),
    )
    axis = normalize_axis(axis, x.type.rank)
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = x.shape[axis] - sum(sizes) - 1
    if any(n < 0 for n in sizes) or sum(sizes) != x.shape[axis]:
        raise ValueError(f"{x.type} cannot be split into {sizes} along axis {axis}")
    starts = np.cumsum([0, *sizes[:-1]])
    return [ctx.slice_axis(x, axis, int(a), n) for a, n in zip(starts, sizes)]


@tflite_op(TRANSPOSE=8)
def transpose(ctx: OpContext) -> Value:
    x, perm = ctx.required(0), ctx.int_operand(1, "the order")
    perm = [normalize_axis(p, x.type.rank) for p in perm]
    if sorted(perm) != list(range(x.type.rank)):
        raise ValueError(f"{perm} is not a permutation of the axes of {x.type}")
    return ctx.transpose(x, perm)


@tflite_op(REVERSE_V2=4)
def reverse(ctx: OpContext) -> Value:
    x = ctx.required(0)
    axes = {normalize_axis(a, x.type.rank) for a in ctx.int_operand(1, "the axes")}
    starts = [n - 1 if d in axes and n else 0 for d, n in enumerate(x.shape)]
    steps = [-1 if d in axes else 1 for d in range(x.type.rank)]
    return ctx.emit("slice", [x], starts=tuple(starts), steps=tuple(steps), sizes=x.shape)


@tflite_op(SLICE=8)
def slice_(ctx: OpContext) -> Value:
    x = ctx.required(0)
    starts, sizes = ctx.int_operand(1, "the starts"), ctx.int_operand(2, "the sizes")
    if len(starts) != x.type.rank or len(sizes) != x.type.rank:
        raise ValueError(f"starts {starts} and sizes {sizes} do not fit {x.type}")
    sizes = [n - a if s == -1 else s for n, a, s in zip(x.shape, starts, sizes)]
    return _slice(ctx, x, starts, [1] * x.type.rank, sizes)


def _slice(ctx: OpContext, x: Value, starts: Sequence[int], steps, sizes) -> Value:
    if tuple(sizes) == x.shape and all(step == 1 for step in steps):
        return x
    return ctx.emit("slice", [x], starts=tuple(starts), steps=tuple(steps), sizes=tuple(sizes))


@tflite_op(STRIDED_SLICE=8)
def strided_slice(ctx: OpContext) -> Value:
    x, o = ctx.required(0), ctx.options
    begin, end, step = (ctx.int_operand(i, "the slice") for i in (1, 2, 3))
    if not len(begin) == len(end) == len(step) or 0 in step:
        raise ValueError(f"begin {begin}, end {end} and steps {step} do not define a slice")
    starts, steps, sizes, shape = [], [], [], []
    axis = 0
    added = [i for i in range(len(begin)) if o["new_axis_mask"] >> i & 1]
    for i in range(len(begin)):
        if o["ellipsis_mask"] >> i & 1:
            later = [k for k in range(i + 1, len(begin)) if k not in added]
            for n in x.shape[axis : x.type.rank - len(later)]:
                starts, steps, sizes = [*starts, 0], [*steps, 1], [*sizes, n]
                shape.append(n)
                axis += 1
            continue
        if i in added:
            shape.append(1)
            continue
        if axis >= x.type.rank:
            raise ValueError(f"a slice of {len(begin)} axes does not fit {x.type}")
        start, size = _range(o, i, begin[i], end[i], step[i], x.shape[axis])
        starts, steps, sizes = [*starts, start], [*steps, step[i]], [*sizes, size]
        if not o["shrink_axis_mask"] >> i & 1:
            shape.append(size)
        axis += 1
    rest = x.shape[axis:]
    starts, steps = [*starts, *[0] * len(rest)], [*steps, *[1] * len(rest)]
    steps = [s if upper_bound(n) > 1 else 1 for s, n in zip(steps, [*sizes, *rest])]
    return ctx.reshape(_slice(ctx, x, starts, steps, [*sizes, *rest]), [*shape, *rest])


def _range(o: dict, i: int, begin: int, end: int, step: int, n: int) -> tuple[int, int]:
    """Return (start, size) of a slice of an axis with n elements."""
    end = begin + end if o["offset"] else end
    if symbols_of(n, begin, end):
        return _range_of_extents(o, i, begin, end, step, n)
    if o["shrink_axis_mask"] >> i & 1:
        first = begin + n if begin < 0 else begin
        if not 0 <= first < n:
            raise ValueError(f"element {begin} is outside of an axis of {n}")
        return first, 1
    least, upper_bound = (0, n) if step > 0 else (-1, n - 1)
    first = min(max(begin + n if begin < 0 else begin, least), upper_bound)
    last = min(max(end + n if end < 0 else end, least), upper_bound)
    if o["begin_mask"] >> i & 1:
        first = least if step > 0 else upper_bound
    if o["end_mask"] >> i & 1:
        last = upper_bound if step > 0 else least
    size = max(0, -(-(last - first) // step))
    return (first if size else 0), size


def _range_of_extents(
    o: dict, i: int, begin: SymInt, end: SymInt, step: int, n: SymInt
) -> tuple[SymInt, SymInt]:
    """Return (start, size) of a slice whose axis or bounds are symbolic."""
    if o["shrink_axis_mask"] >> i & 1:
        first = begin + n if begin < 0 else begin
        if not 0 <= first < n:
            raise ValueError(f"element {begin!r} is outside of an axis of {n!r}")
        return first, 1
    if o["begin_mask"] >> i & 1:
        begin = 0 if step > 0 else n - 1
    if o["end_mask"] >> i & 1:
        end = n if step > 0 else -n - 1
    return slice_range(n, begin, end, step)


@tflite_op(GATHER=8)
def gather(ctx: OpContext) -> Value:
    x, indices = ctx.required(0), ctx.required(1)
    axis = normalize_axis(ctx.options["axis"], x.type.rank)
    if ctx.options["batch_dims"]:
        return _gather_in_batches(ctx, x, indices, axis)
    if indices.dtype.name not in ("int32", "int64"):
        indices = ctx.cast(indices, "int32")
    return ctx.emit("gather", [x, indices], axis=axis)


def _gather_in_batches(ctx: OpContext, x: Value, indices: Value, axis: int) -> Value:
    """Gather along ``axis`` with separate indices for each element of the batch dimensions."""
    rank = x.type.rank
    batch = ctx.options["batch_dims"]
    batch += indices.type.rank if batch < 0 else 0
    if axis < batch or indices.shape[:batch] != x.shape[:batch]:
        raise ValueError(f"{batch} leading dimensions of {x.type} and {indices.type} do not match")
    order = (*range(batch), axis, *(d for d in range(batch, rank) if d != axis))
    moved = ctx.transpose(x, order)
    positions = ctx.reshape(indices, (*indices.shape, 1))
    y = ctx.emit("gather_nd", [moved, positions], batch=batch)
    # order of y: batch, axes of the indices, axes of x before ``axis``, remaining axes of x
    own, before = indices.type.rank - batch, axis - batch
    back = (
        *range(batch),
        *range(batch + own, batch + own + before),
        *range(batch, batch + own),
        *range(batch + own + before, y.type.rank),
    )
    return ctx.transpose(y, back)


@tflite_op(SCATTER_ND=1)
def scatter_nd(ctx: OpContext) -> Value:
    updates, shape = ctx.required(1), tuple(ctx.int_operand(2, "the shape"))
    start = ctx.emit("expand", [ctx.like(0, updates)], shape=shape)
    return ctx.emit("scatter_nd", [start, ctx.required(0), updates], reduction="add")


@tflite_op(TOPK_V2=3)
def topk(ctx: OpContext) -> list[Value]:
    x, (k,) = ctx.required(0), ctx.int_operand(1, "k")
    attrs = {"k": k, "axis": x.type.rank - 1, "largest": 1}
    values, positions = ctx.emit_many("topk", [x], **attrs)
    return [values, ctx.cast(positions, ctx.result(1).dtype)]


@tflite_op(ONE_HOT=1)
def one_hot(ctx: OpContext) -> Value:
    indices, (depth,) = ctx.required(0), ctx.int_operand(1, "the depth")
    on, off = ctx.required(2), ctx.required(3)
    axis = normalize_axis(ctx.options["axis"], indices.type.rank + 1)
    raised = ctx.unsqueeze(indices, axis)
    shape = [1] * (indices.type.rank + 1)
    shape[axis] = depth
    positions = ctx.const(np.arange(depth).reshape(shape), indices.dtype.numpy)
    return ctx.emit("where", [ctx.emit("equal", [raised, positions]), on, off])


@tflite_op(REVERSE_SEQUENCE=1)
def reverse_sequence(ctx: OpContext) -> Value:
    x, lengths = ctx.required(0), ctx.cast(ctx.required(1), "int64")
    axes = {"batch_axis": ctx.options["batch_dim"], "time_axis": ctx.options["seq_dim"]}
    if set(axes.values()) != {0, 1}:
        raise UnsupportedError(f"a sequence along axis {axes['time_axis']}")
    return ctx.emit("reverse_sequence", [x, lengths], **axes)


@tflite_op(DYNAMIC_UPDATE_SLICE=6)
def dynamic_update_slice(ctx: OpContext) -> Value:
    """Select x or the update per axis by index; the start indices may be computed at run time."""
    x, update, starts = ctx.required(0), ctx.required(1), ctx.cast(ctx.required(2), "int32")
    rank = x.type.rank
    room = ctx.const([n - m for n, m in zip(x.shape, update.shape)], np.int32)
    starts = ctx.emit("max", [ctx.emit("min", [starts, room]), ctx.const(0, np.int32)])
    inside = None
    for axis in range(rank):
        spread = [n if d == axis else 1 for d, n in enumerate(x.shape)]
        positions = ctx.const(np.arange(x.shape[axis]), np.int32)
        at = ctx.emit("sub", [positions, ctx.element(starts, 0, axis)])
        last = ctx.const(update.shape[axis] - 1, np.int32)
        zero = ctx.const(0, np.int32)
        within = ctx.emit("logical_and", [
            ctx.emit("greater_equal", [at, zero]), ctx.emit("less_equal", [at, last])
        ])  # fmt: skip
        within = ctx.reshape(within, spread)
        inside = within if inside is None else ctx.emit("logical_and", [inside, within])
        clamped = ctx.emit("max", [ctx.emit("min", [at, last]), zero])
        update = ctx.emit("gather", [update, clamped], axis=axis)
    return ctx.emit("where", [ctx.const(True) if inside is None else inside, update, x])


@tflite_op(EMBEDDING_LOOKUP=5)
def embedding_lookup(ctx: OpContext) -> Value:
    if ctx.tensor(1).dtype != ctx.result().dtype:
        raise UnsupportedError(f"a table of {ctx.tensor(1).dtype}")
    return ctx.emit("gather", [ctx.required(1), ctx.required(0)], axis=0)


@tflite_op(GATHER_ND=6)
def gather_nd(ctx: OpContext) -> Value:
    return ctx.emit("gather_nd", [ctx.required(0), ctx.required(1)], batch=0)


def padding(ctx: OpContext, x: Value) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the padding before and after each axis."""
    pads = np.asarray(ctx.constant_operand(1, "the padding"), np.int64)
    if pads.shape != (x.type.rank, 2) or pads.min(initial=0) < 0:
        raise ValueError(f"padding {pads.tolist()} does not fit {x.type}")
    return tuple(int(n) for n in pads[:, 0]), tuple(int(n) for n in pads[:, 1])


@tflite_op(PAD=6, PADV2=6)
def pad(ctx: OpContext) -> Value:
    x = ctx.required(0)
    before, after = padding(ctx, x)
    value = ctx.input(2)
    if value is None:
        zero = ctx.per_tensor(ctx.result())[1] if is_quantized(ctx, *QUANTIZED) else 0
        value = ctx.like(zero, x)
    return _pad(ctx, x, value, before, after, "constant")


def _pad(ctx: OpContext, x: Value, value: Value | None, before, after, mode: str) -> Value:
    """Pad images with channels second, so that a following convolution can absorb the padding."""
    operands = [] if value is None else [ctx.reshape(value, ())]
    if x.type.rank != 4:
        return ctx.emit("pad", [x, *operands], before=before, after=after, mode=mode)
    order = (0, 3, 1, 2)
    before, after = tuple(before[d] for d in order), tuple(after[d] for d in order)
    y = ctx.emit("pad", [ctx.channels_second(x), *operands], before=before, after=after, mode=mode)
    return ctx.channels_last(y)


@tflite_op(MIRROR_PAD=3)
def mirror_pad(ctx: OpContext) -> Value:
    x = ctx.required(0)
    before, after = padding(ctx, x)
    if ctx.options["mode"] == 0:
        return _pad(ctx, x, None, before, after, "reflect")
    for axis, (b, a) in enumerate(zip(before, after)):
        n = x.shape[axis]
        if max(b, a) > n:
            raise ValueError(f"padding of {b} and {a} is more than {x.type} has along axis {axis}")
        if b or a:
            positions = [*range(b - 1, -1, -1), *range(n), *range(n - 1, n - 1 - a, -1)]
            x = ctx.emit("pick", [x, ctx.const(positions, np.int32)], axes=(axis,))
    return x
