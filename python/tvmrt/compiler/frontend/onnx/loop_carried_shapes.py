"""Loops with a loop-carried tensor whose shape changes, such as one that grows by appending."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from tvmrt.compiler.ir import TensorType, Value
from tvmrt.compiler.ir.loop import Growth
from tvmrt.compiler.ir.sizes import SymInt, extent_text, lower_bound, symbols_of, upper_bound
from tvmrt.compiler.ir.sizes.extent import is_unbounded, sym_max
from tvmrt.compiler.ir.sizes.forms import allocation_extent
from tvmrt.error import UnsupportedError
from tvmrt.option_syntax import option

from .context import NodeContext

MAX_GROWN_EXTENT = 1 << 20  # limit of an extent whose bound follows from the growth per iteration


def changing_axes(
    ctx: NodeContext,
    carried: Sequence[Value],
    made: Sequence[Value],
    known: Sequence[Growth],
    bound: SymInt | None,
    outputs: Sequence[str],
) -> list[Growth]:
    """Return the axes whose extent changes in an iteration, including those of ``known``.

    ``made``: the loop-carried values after an iteration; ``bound``: the maximum trip count, None if
    unknown; ``outputs``: the names of the loop's results. Raises UnsupportedError if anything but
    extents changes, or if an extent is unbounded.
    """
    result = []
    for i, (before, after) in enumerate(zip(carried, made)):
        if (len(before.shape), before.dtype) != (len(after.shape), after.dtype):
            raise UnsupportedError(
                f"a loop-carried value is {before.type} before an iteration and {after.type} "
                "after it"
            )
        for axis, (first, now) in enumerate(zip(before.shape, after.shape)):
            old = next((c for c in known if (c.carried, c.axis) == (i, axis)), None)
            if old is not None or first != now:
                where = _Axis(ctx, i, axis, bound, outputs[i])
                result.append(_changing_axis(where, first, now, old))
    return result


class _Axis(NamedTuple):
    """Axis of a loop-carried value. ``bound``: the maximum trip count, None if unknown;
    ``output``: the name of the loop's result."""

    ctx: NodeContext
    carried: int
    axis: int
    bound: SymInt | None
    output: str


def _changing_axis(where: _Axis, first: SymInt, now: SymInt, old: Growth | None) -> Growth:
    ctx, index, axis, bound, _ = where
    before = first if old is None else old.symbol.extent
    step = now - before
    is_own_growth = old is None or bool(symbols_of(before) & symbols_of(now))
    if is_own_growth and isinstance(step, int) and bound is not None:
        last = maximum = first + step * bound
        low, high = lower_bound(first), sym_max(limit(last - step), lower_bound(first))
        if step < 0:
            low, high, maximum = max(lower_bound(last) - step, 0), limit(first), first
    elif not is_own_growth or (isinstance(step, int) and step < 0):
        step, low = None, min(lower_bound(first), max(lower_bound(now), 0))
        high = maximum = sym_max(limit(first), limit(allocation_extent(now)))
    else:
        low = min(lower_bound(before), max(lower_bound(now), 0))
        high = maximum = _maximum(where, first, now, step)
        step = None
    if old is not None and (_constant_step(old), old.upper_bound) == (step, maximum):
        return replace(old, after=now)
    name = ctx.importer.dims.unique_name(f"{ctx.name}_extent")
    (symbol,) = symbols_of(ctx.importer.dims.declare_symbol(name, max(low, 0), high, None))
    after = now if step is None else symbol.extent + step
    return Growth(index, axis, symbol, first, after, maximum)


def _constant_step(growth: Growth) -> int | None:
    """Return the growth per iteration if it is constant, else None."""
    step = growth.after - growth.symbol.extent
    return step if isinstance(step, int) else None


def _maximum(where: _Axis, first: SymInt, now: SymInt, step: SymInt) -> SymInt:
    """Return the maximum of an extent that grows by at most ``step`` per iteration. A shape that
    the model declares is a closer bound than the growth in all iterations."""
    ctx, _, axis, bound, output = where
    if upper_bound(step) <= 0:
        return limit(first)
    if bound is not None and is_unbounded(first, step):
        return first + min(upper_bound(step), allocation_extent(step), key=upper_bound) * bound
    shape = ctx.importer.declared_bounds(output)
    if shape is not None and len(shape) > axis:
        return max(upper_bound(shape[axis]), upper_bound(first))
    grown = None if bound is None else upper_bound(first) + upper_bound(step) * upper_bound(bound)
    if shape is None and grown is not None and grown <= MAX_GROWN_EXTENT:
        return grown
    name = output or "a loop-carried value"
    raise UnsupportedError(
        f"axis {axis} of {name} is {extent_text(first)} before an iteration and {extent_text(now)} "
        f"after it, so it is unbounded; declare the shape of {output or 'the result'} in the "
        f"model, or bound its dimension with {option('dims')}"
    )


def limit(extent: SymInt) -> SymInt:
    """Return the maximum of an extent: an expression if a dimension has no bound."""
    return extent if is_unbounded(extent) else upper_bound(extent)


def body_types(carried: Sequence[Value], changing: Sequence[Growth]) -> list[TensorType]:
    """Return the types of the loop-carried values inside the body."""
    shapes = [list(v.shape) for v in carried]
    for each in changing:
        shapes[each.carried][each.axis] = each.symbol.extent
    return [v.type.with_shape(shape) for shape, v in zip(shapes, carried)]


def reshape_results(
    ctx: NodeContext,
    results: list[Value],
    extents: Sequence[Value],
    changing: Sequence[Growth],
    types: Sequence[TensorType],
    known_trip_count: SymInt | None,
) -> None:
    """Reshape loop-carried results, which are stored contiguously, to their shape after the last
    iteration. ``known_trip_count``: the trip count if it is known."""
    shapes = {each.carried: list(types[each.carried].shape) for each in changing}
    for each, extent in zip(changing, extents):
        step = _constant_step(each)
        if known_trip_count is not None and step is not None:
            last: SymInt = each.first + step * known_trip_count
        else:
            last = ctx.data_dependent_extent(
                extent, 0, each.upper_bound, f"extent of axis {each.axis}"
            )
        shapes[each.carried][each.axis] = last
    for index, shape in shapes.items():
        flat = ctx.slice_axis(results[index], 0, 0, prod(shape))
        results[index] = ctx.reshape(flat, shape)
