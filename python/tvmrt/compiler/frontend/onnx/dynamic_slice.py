"""Slice, Pad and Range with run-time operands. Source indices are computed at run time, one axis at
a time; the network declares the result's extents or their bounds."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.op import distinct_axes
from tvmrt.compiler.ir.sizes import INT_MAX, SymInt, lower_bound, symbols_of, upper_bound
from tvmrt.error import UnsupportedError

from .context import NodeContext
from .dynamic_sizes import max_value
from .fixed_values import declare_result, unknown_operand
from .tensor_expressions import TensorExpr, require

INT32_MAX = 2**31 - 1  # greater than any extent


def declared_shape(ctx: NodeContext, rank: int, given: Value, operand: str) -> tuple:
    """Return the declared shape of the result. Raises UnsupportedError, which names the operand
    ``given``, if the network does not declare it."""
    shape = ctx.importer.declared(ctx.node.output[0])
    if shape is None:
        raise unknown_operand(ctx, given, operand, declare_result())
    if len(shape) != rank:
        raise ValueError(f"the result is declared with rank {len(shape)}, but has rank {rank}")
    return shape


def result_shape(
    ctx: NodeContext,
    computed: TensorExpr,
    bounds: Sequence[SymInt | None],
    given: Value,
    operand: str,
    kept: Collection[int] = (),
) -> tuple[SymInt, ...]:
    """Return the extents of the result, which are ``computed`` at run time. Declared extents are
    checked by each run. Others are data-dependent, up to the closer one of the declared bound and
    ``bounds`` (None: unbounded). ``kept``: axes whose extents equal their bounds."""
    rank = len(bounds)
    if ctx.importer.declared(ctx.node.output[0]) is not None:
        shape = declared_shape(ctx, rank, given, operand)
        require(computed, shape, given, operand, f"results of shape {list(shape)}")
        return shape
    named = list(ctx.importer.declared_bounds(ctx.node.output[0]) or (None,) * rank)
    limit = None if ctx.importer.request.is_bounded else INT_MAX
    highs = [max_value(ctx, computed.at(d).value) for d in range(rank)]
    tighter = [_tighter_bound(_tighter_bound(*pair), limit) for pair in zip(bounds, highs)]
    if len(named) != rank or any(a is None and b is None for a, b in zip(named, tighter)):
        declared_shape(ctx, rank, given, operand)  # raises the error
        raise UnsupportedError(
            f"the result is declared with rank {len(named)}, but has rank {rank}"
        )
    found = []
    for d, (name, bound) in enumerate(zip(named, tighter)):
        if d in kept:
            found.append(bounds[d])
            continue
        by_name = name is not None and (bound is None or upper_bound(name) < lower_bound(bound))
        high = upper_bound(name) if by_name else bound
        found.append(
            ctx.data_dependent_extent(computed.at(d).value, 0, high, f"extent of axis {d}")
        )
    return tuple(found)


def _tighter_bound(a: SymInt | None, b: int | None) -> SymInt | None:
    """Return the lower one of two bounds; None means unbounded."""
    if a is None or b is None:
        return b if a is None else a
    return b if b < lower_bound(a) else a


def scatter_axes(
    ctx: NodeContext, values: TensorExpr, axes: Value | None, rank: int, default: Sequence
) -> TensorExpr:
    """Spread numbers for some axes to one number per axis; ``default`` for the others.

    ``axes`` may be computed at run time; values outside of the rank are ignored.
    """
    if axes is None:
        axes = ctx.const(np.arange(values.shape[0]), np.int64)
    count = values.shape[0]
    named = TensorExpr.from_integer(ctx, axes).reshape(count).normalize_negative(rank)
    hits = named.reshape(count, 1).equals(np.arange(rank)[None])
    chosen = hits.where(values.reshape(count, 1), 0).reduce("reduce_sum")
    return hits.cast("int64").reduce("reduce_sum").equals(0).where(default, chosen)


def import_slice(ctx: NodeContext) -> Value:
    """Slice with run-time operands."""
    x, axes, steps = ctx.required(0), ctx.input(3), ctx.input(4)
    rank = len(x.shape)
    if axes is not None and axes.is_constant:
        distinct_axes(axes.data.tolist(), rank)
    if steps is not None and steps.is_constant and not steps.data.all():
        raise ValueError(f"steps are {steps.data.tolist()}; none may be 0")
    starts, ends = (TensorExpr.from_integer(ctx, ctx.required(i)) for i in (1, 2))
    extents = np.asarray(x.shape, object)
    first = scatter_axes(ctx, starts, axes, rank, [0] * rank)
    last = scatter_axes(ctx, ends, axes, rank, x.shape)
    step = TensorExpr(ctx, ctx.const([1] * rank, np.int64))
    if steps is not None:
        step = scatter_axes(ctx, TensorExpr.from_integer(ctx, steps), axes, rank, [1] * rank)
    step = step.minimum(INT32_MAX).maximum(-INT32_MAX)
    forward = step > 0
    # with a negative step the last element's lower limit is -1
    low, high = (
        forward.where([0] * rank, step * 0 - 1),
        forward.where(extents, step * 0 + extents),
    )
    high = forward.where(high, high - 1)
    low_first = forward.where(low, step * 0)
    first = first.normalize_negative(extents).minimum(high).maximum(low_first)
    last = last.normalize_negative(extents).minimum(high).maximum(low)
    away = last - first
    count = ((away + forward.where(step - 1, step + 1)) / step).maximum(0).minimum(extents)
    others = _other_axes(axes, starts.shape[0], rank)
    shape = result_shape(ctx, count, x.shape, starts.value, "starts", others)
    indices = [step.at(d) * _iota(ctx, n) + first.at(d) for d, n in enumerate(shape)]
    return ctx.emit("take_at", [x, None, *(p.value for p in indices)])


def restrict(ctx: NodeContext, x: Value, axis: int, extent: SymInt) -> Value:
    """Restrict an axis to an extent; runs with another extent of it end with an error."""
    n = x.shape[axis]
    missing = extent - n
    if not symbols_of(missing) or not lower_bound(missing) <= 0 <= upper_bound(missing):
        return x
    number = TensorExpr(ctx, ctx.integer_tensor(np.asarray([n], object)))
    require(number, [extent], number.value, f"axis {axis}", f"[{extent!r}]")
    if lower_bound(n) == extent:
        return ctx.slice_axis(x, axis, 0, extent)
    shape = [extent if d == axis else m for d, m in enumerate(x.shape)]
    return ctx.emit("take_at", [x, None, *map(ctx.iota, shape)])


def _other_axes(axes: Value | None, count: SymInt, rank: int) -> set[int]:
    """Return the axes not in ``axes``, which are the first ``count`` if omitted."""
    if axes is None or axes.data is None:
        return set(range(int(count), rank)) if axes is None else set()
    return set(range(rank)) - {int(d) % rank for d in axes.data.reshape(-1)}


def _iota(ctx: NodeContext, count: SymInt) -> TensorExpr:
    """Return 0, 1, ..."""
    return TensorExpr(ctx, ctx.iota(count))


def import_pad(ctx: NodeContext, mode: str, value: Value) -> Value:
    """Pad with run-time operands."""
    x, axes = ctx.required(0), ctx.input(3)
    rank = len(x.shape)
    pads = TensorExpr.from_integer(ctx, ctx.required(1))
    both, width = pads.shape[0], pads.shape[0] // 2
    if both % 2 or (axes is None and width != rank) or mode not in _PAD_MODES:
        raise ValueError(f"{both} pads in mode {mode} do not fit {x.type}")
    before, after = (
        scatter_axes(ctx, TensorExpr(ctx, ctx.slice_axis(pads.value, 0, i * width, width)), axes,
                   rank, [0] * rank)
        for i in range(2)
    )  # fmt: skip
    # larger pads are equivalent to this limit
    before, after = (side.minimum(INT32_MAX).maximum(-INT32_MAX) for side in (before, after))
    shape = result_shape(ctx, before + after + list(x.shape), [None] * rank, pads.value, "pads")
    indices = []
    for d, (n, m) in enumerate(zip(x.shape, shape)):
        cut, left = before.at(d).minimum(0) * -1, before.at(d).maximum(0)
        length = after.at(d).minimum(0) + n - cut
        index = _PAD_MODES[mode](left * -1 + _iota(ctx, m), length)
        indices.append(
            index.value if mode == "constant" and n == 0 else _shift_nonnegative(index, cut).value
        )
    fill = ctx.reshape(value, ()) if mode == "constant" else None
    return ctx.emit("take_at", [x, fill, *indices])


def pad_axis(ctx: NodeContext, x: Value, axis: int, before: int, after: int, mode: str) -> Value:
    """Pad an axis of dynamic extent with its own elements."""
    extent = x.shape[axis]
    number = TensorExpr(ctx, ctx.integer_tensor(np.asarray(extent, object)))
    indices = _PAD_MODES[mode](_iota(ctx, extent + before + after) - before, number)
    return ctx.emit("gather", [x, indices.value], axis=axis)


def _shift_nonnegative(index: TensorExpr, cut: TensorExpr) -> TensorExpr:
    return (index < 0).where(index, index + cut)


def _constant(index: TensorExpr, extent: TensorExpr) -> TensorExpr:
    return (index >= 0).logical_and(index < extent).where(index, index * 0 - 1)


def _reflect(index: TensorExpr, extent: TensorExpr) -> TensorExpr:
    """Reflect indices back and forth between the first and the last element."""
    period = ((extent - 1) * 2).maximum(1)
    there = index % period
    return there.minimum(period - there).minimum((extent - 1).maximum(0))


_PAD_MODES = {
    "constant": _constant,
    "edge": lambda index, extent: index.minimum(extent - 1).maximum(0),
    "reflect": _reflect,
    "wrap": lambda index, extent: index % extent,
}


def import_range(ctx: NodeContext, bound: int | None = None) -> Value:
    """Range with run-time operands, of at most ``bound`` elements."""
    start, limit, delta = (ctx.reshape(ctx.required(i), ()) for i in range(3))
    wide = "int64" if start.dtype.is_int else "float64"
    first, last, step = (TensorExpr(ctx, ctx.cast(v, wide)) for v in (start, limit, delta))
    if start.dtype.is_int:
        # a quotient by 0 is 0, so a step of 0 gives no elements
        up = step > 0
        quotient = (last - first + up.where(step - 1, step + 1)) / step
    else:
        quotient = ((last - first) / step).apply("ceil")
    whole = quotient.maximum(0).minimum(INT32_MAX).cast("int64").reshape(1)
    integer = limit if limit.dtype.is_int else ctx.cast(limit, "int64")
    (count,) = result_shape(ctx, whole, [bound], integer, "limit")
    return range_elements(ctx, count)


def range_elements(ctx: NodeContext, count: SymInt) -> Value:
    """Return the first ``count`` elements of a Range."""
    start, _, delta = (ctx.reshape(ctx.required(i), ()) for i in range(3))
    indices = ctx.cast(ctx.iota(count), start.dtype.name)
    return (TensorExpr(ctx, indices) * TensorExpr(ctx, delta) + TensorExpr(ctx, start)).value
