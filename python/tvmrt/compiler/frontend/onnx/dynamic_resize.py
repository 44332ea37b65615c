"""Resize and Upsample with run-time scales, sizes or regions. Indices and weights along each axis
are computed at run time, by the formulas of resize.py; the result's size is declared."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import ceil
from operator import add

import numpy as np

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.sizes import (
    SymInt,
    all_sizes,
    extent_text,
    lower_bound,
    symbols_of,
    upper_bound,
    value_at,
)
from tvmrt.error import UnsupportedSizes

from .context import NodeContext
from .dynamic_slice import INT32_MAX
from .resize_coordinates import (
    AxisScale,
    Coordinates,
    ResizeAxis,
    ResizeMode,
    nearest_indices,
    source_coordinates,
)
from .tensor_expressions import TensorExpr, require

MAX_RADIUS = 32  # maximum radius of a blend; each tap is a step of the network


def scales_from_operand(
    ctx: NodeContext, scales: Value, extents: Sequence[SymInt], out: Sequence[SymInt]
) -> list[AxisScale]:
    """Return the scales of an operand; each run checks that they give the declared extents."""
    factors = TensorExpr(ctx, ctx.cast(scales, "float32"))
    sizes = (factors.cast("float64") * list(extents)).apply("floor")
    sizes = sizes.maximum(-1).minimum(INT32_MAX).cast("int64")
    require(sizes, out, scales, "scales", f"extents {list(out)}")
    return [AxisScale(given=factors.at(i)) for i in range(len(extents))]


def aspect_preserving_scale(
    ctx: NodeContext, sizes: Value, extents: Sequence[SymInt], policy: str
) -> tuple[AxisScale, TensorExpr]:
    """Return the scale of all axes that keeps the aspect ratio, one size divided by its extent, and
    the extents of the result, rounded half up."""
    requested = TensorExpr.from_integer(ctx, sizes).maximum(0).minimum(INT32_MAX)
    pairs = [(requested.at(i), requested.at(i).like(n)) for i, n in enumerate(extents)]
    size, extent = pairs[0]
    for other, across in pairs[1:]:
        ours, theirs = size * across, other * extent
        better = theirs < ours if policy == "not_larger" else theirs > ours
        size, extent = better.where(other, size), better.where(across, extent)
    rounded = (size * 2).reshape(1) * list(extents) + extent.reshape(1)
    return AxisScale(size, extent), rounded / (extent * 2).reshape(1)


def resize_axes(
    ctx: NodeContext, x: Value, dims: Sequence[ResizeAxis], mode: ResizeMode, outside: float
) -> Value:
    """Resample x along the axes."""
    if any(upper_bound(dim.extent) == 0 for dim in dims):
        raise ValueError(f"{x.type} cannot be resized by run-time operands")
    coordinates = [source_coordinates(ctx, dim, mode) for dim in dims]
    if mode.interpolation == "nearest":
        indices = {dim.axis: nearest_indices(at, dim, mode) for dim, at in zip(dims, coordinates)}
        y = _take(ctx, x, indices)
    elif mode.interpolation in ("linear", "cubic"):
        y = x if x.dtype.is_float else ctx.cast(x, "float32")
        for dim, at in zip(dims, coordinates):
            y = _interpolate_axis(ctx, y, dim, at, mode)
        y = ctx.cast(y, x.dtype.name)
    else:
        raise ValueError(f"unknown resize mode {mode.interpolation}")
    if mode.coordinates == "tf_crop_and_resize":
        y = fill_outside(ctx, y, dims, coordinates, outside)
    return y


def fill_outside(
    ctx: NodeContext,
    y: Value,
    dims: Sequence[ResizeAxis],
    found: Sequence[Coordinates],
    outside: float,
) -> Value:
    """Replace elements whose source coordinates are outside the input."""
    inside = TensorExpr(ctx, ctx.const(True))
    for dim, at in zip(dims, found):
        along = at.inside(dim.extent).reshape(*_axis_shape(dim, len(y.shape)))
        inside = inside.logical_and(along)
    if inside.value.data is not None and inside.value.data.all():
        return y
    return inside.where(TensorExpr(ctx, y), outside).value


def _axis_shape(dim: ResizeAxis, rank: int) -> list[SymInt]:
    return [dim.out if d == dim.axis else 1 for d in range(rank)]


def _take(ctx: NodeContext, x: Value, indices: dict[int, TensorExpr]) -> Value:
    tables = [indices[d].value if d in indices else ctx.iota(n) for d, n in enumerate(x.shape)]
    return ctx.emit("take_at", [x, None, *tables])


def _interpolate_axis(
    ctx: NodeContext, x: Value, dim: ResizeAxis, at: Coordinates, mode: ResizeMode
) -> Value:
    """Return weighted sums along one axis."""
    reach, total = _reach(dim, mode), None
    if reach > MAX_RADIUS:
        raise UnsupportedSizes(
            f"antialias along an axis of {extent_text(dim.extent)} resized to "
            f"{extent_text(dim.out)} would blend up to {2 * reach} elements into one; "
            f"declare closer bounds (at most {2 * MAX_RADIUS} elements are supported)"
        )
    ctx.check_table_size(dim.out * 2 * reach, "a resized axis")
    for index, weight in taps(ctx, dim, at, mode):
        clipped = index.maximum(0).minimum(index.like(dim.extent) - 1).cast("int64")
        part = TensorExpr(ctx, _take(ctx, x, {dim.axis: clipped}))
        part = part * weight.cast(x.dtype.name).reshape(*_axis_shape(dim, len(x.shape)))
        total = part if total is None else total + part
    return total.value


def _reach(dim: ResizeAxis, mode: ResizeMode) -> int:
    """Return how many elements on either side of a coordinate are blended."""
    radius = 1 if mode.interpolation == "linear" else 2
    return ceil(radius / _min_scale(dim)) if mode.antialias else radius


def taps(
    ctx: NodeContext, dim: ResizeAxis, at: Coordinates, mode: ResizeMode
) -> list[tuple[TensorExpr, TensorExpr]]:
    """Return the indices and the weights along the axis for each tap, in float64."""
    stretch = dim.scale.as_float(ctx, "float64").minimum(1) if mode.antialias else None
    reach = _reach(dim, mode)
    (base, fraction), found = at.split(), []
    for offset in range(1 - reach, reach + 1):
        index = base + offset
        distance = (offset - fraction).apply("abs")
        distance = distance if stretch is None else distance * stretch
        weight = _weight(distance, mode)
        if mode.exclude_outside:
            inside = (index >= 0).logical_and(index <= index.like(dim.extent) - 1)
            weight = inside.where(weight, 0)
        found.append((index, weight))
    if mode.antialias or mode.exclude_outside:
        total = reduce(add, (weight for _, weight in found))
        total = total.equals(0).where(total * 0 + 1, total)
        found = [(index, weight / total) for index, weight in found]
    return found


def _min_scale(dim: ResizeAxis) -> float:
    """Return a lower bound of the scale over all runs, at most 1."""
    factor = dim.scale.given
    if factor is not None and factor.value.data is not None:
        return min(float(factor.value.data.min()), 1.0)
    symbols = symbols_of(dim.extent, dim.out)
    extent, out = upper_bound(dim.extent), lower_bound(dim.out)
    sizes = all_sizes(symbols) if len(symbols) == 1 else None
    if sizes is not None:
        extent, out = (value_at(n, sizes) for n in (dim.extent, dim.out))
    factors = np.maximum(np.subtract(out, 0.5), 0.5) / np.maximum(extent, 1)
    return min(float(factors.min()), 1.0)


def _weight(distance: TensorExpr, mode: ResizeMode) -> TensorExpr:
    if mode.interpolation == "linear":
        return (1 - distance).maximum(0)
    a = mode.cubic_a
    inner = (distance * (a + 2) - (a + 3)) * distance * distance + 1
    outer = ((distance - 5) * distance + 8) * distance * a - 4 * a
    return (distance <= 1).where(inner, (distance < 2).where(outer, 0))
