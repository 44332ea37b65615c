"""Resize and Upsample whose factors, sizes or regions a run brings: places and weights along each
axis are computed by the run, as resize.py computes them; how large the result is, is declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from tvmrt.error import UnsupportedError
from tvmrt.ir import Value
from tvmrt.ir.extent import Extent, Whole, least, most, shown, symbols_of

from .arithmetic import Numbers, require
from .context import NodeContext
from .run_places import FAR

MOST_REACH = 32  # elements to either side that are blended, each a step of the network
MOST_TRIED = 1 << 16


@dataclass(frozen=True)
class Mode:
    """How places are found and blended."""

    interpolation: str
    coordinates: str
    nearest: str = "round_prefer_floor"
    cubic_a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False


@dataclass(frozen=True)
class RunAxis:
    """One axis: extents before and after, factor, and the region that is taken, of the run."""

    axis: int
    extent: Whole
    out: Whole
    scale: Numbers
    start: Numbers
    end: Numbers


def factors_of_scales(
    ctx: NodeContext, scales: Value, extents: Sequence[int], out: Sequence[int]
) -> Numbers:
    """Factors that the operand has, held to the extents that they give."""
    factors = Numbers(ctx, ctx.cast(scales, "float32"))
    found = (factors.cast("float64") * list(extents)).apply("floor")
    require(_whole(found), out, scales, "scales", f"extents {list(out)}")
    return factors


def factors_of_sizes(
    ctx: NodeContext, sizes: Value, extents: Sequence[int], out: Sequence[int], policy: str
) -> Numbers:
    """The factor that keeps the aspect ratio, for each axis."""
    ratios = Numbers(ctx, ctx.cast(sizes, "float32")) / list(extents)
    common = ratios.fold("reduce_min" if policy == "not_larger" else "reduce_max")
    found = (common.cast("float64") * list(extents) + 0.5).apply("floor")
    require(_whole(found), out, sizes, "sizes", f"extents {list(out)}")
    return Numbers(ctx, ctx.expand(common.value, (len(extents),)))


def _whole(found: Numbers) -> Numbers:
    return found.most(-1).least(FAR).cast("int64")


def resized(
    ctx: NodeContext, x: Value, rows: Sequence[RunAxis], mode: Mode, outside: float
) -> Value:
    """x resampled along the axes."""
    if any(most(row.extent) == 0 for row in rows):
        raise ValueError(f"{x.type} is not resized by operands of the run")
    positions = [source_positions(row, mode.coordinates) for row in rows]
    if mode.interpolation == "nearest":
        places = {row.axis: nearest_places(p, row, mode) for row, p in zip(rows, positions)}
        y = _taken(ctx, x, places)
    elif mode.interpolation in ("linear", "cubic"):
        y = x if x.dtype.is_float else ctx.cast(x, "float32")
        for row, position in zip(rows, positions):
            y = _blended(ctx, y, row, position, mode)
        y = ctx.cast(y, x.dtype.name)
    else:
        raise ValueError(f"resize mode {mode.interpolation} is not known")
    if mode.coordinates == "tf_crop_and_resize":
        for row, position in zip(rows, positions):
            inside = (position >= 0).both(position <= row.extent - 1)
            kept = ctx.reshape(inside.value, _column(row, len(x.shape)))
            y = ctx.emit("where", [kept, y, ctx.like(outside, y)])
    return y


def _column(row: RunAxis, rank: int) -> list[int]:
    return [row.out if d == row.axis else 1 for d in range(rank)]


def source_positions(row: RunAxis, coordinates: str) -> Numbers:
    """The place in the input of each element of the result, in float32 as runtimes compute it."""
    ctx, scale = row.scale.ctx, row.scale
    ctx.table_size(most(row.out), "a resized axis", 8)
    at = Numbers(ctx, ctx.cast(ctx.counted(row.out), "float32"))
    count = at.like(row.out)
    last = at.like(row.extent) - 1
    steps = (count - 1).most(1)  # of one element the first place is 0
    if coordinates == "asymmetric":
        return at / scale
    if coordinates in ("half_pixel", "pytorch_half_pixel"):
        middle = (at + 0.5) / scale - 0.5
        return middle if coordinates == "half_pixel" else (count <= 1).choose(at, middle)
    if coordinates == "tf_half_pixel_for_nn":
        return (at + 0.5) / scale
    if coordinates == "align_corners":
        return at * last / steps
    if coordinates == "half_pixel_symmetric":
        extent = last + 1
        adjustment = count / (scale * extent)
        return (1 - adjustment) * (extent / 2) + (at + 0.5) / scale - 0.5
    if coordinates == "tf_crop_and_resize":
        start, end = row.start, row.end
        across = start * last + at * ((end - start) * last / steps)
        return (count <= 1).choose((start + end) * (last * 0.5) + at, across)
    raise ValueError(f"coordinate_transformation_mode {coordinates} is not known")


def nearest_places(position: Numbers, row: RunAxis, mode: Mode) -> Numbers:
    """Which element each position takes."""
    rules = {
        "round_prefer_floor": lambda: (position - 0.5).apply("ceil"),
        "round_prefer_ceil": lambda: (position + 0.5).apply("floor"),
        "floor": lambda: position.apply("floor"),
        "ceil": lambda: position.apply("ceil"),
        "simple": lambda: (row.scale < 1).choose(position.apply("ceil"), position.apply("floor")),
    }
    if mode.nearest not in rules:
        raise ValueError(f"nearest_mode {mode.nearest} is not known")
    return rules[mode.nearest]().most(0).least(row.extent - 1).cast("int64")


def _taken(ctx: NodeContext, x: Value, places: dict[int, Numbers]) -> Value:
    tables = [places[d].value if d in places else ctx.counted(n) for d, n in enumerate(x.shape)]
    return ctx.emit("take_at", [x, None, *tables])


def _blended(ctx: NodeContext, x: Value, row: RunAxis, position: Numbers, mode: Mode) -> Value:
    """Weighted sums along one axis."""
    taps = _taps(row, position.cast("float64"), mode)
    total = None
    for place, weight in taps:
        clipped = place.most(0).least(row.extent - 1).cast("int64")
        part = Numbers(ctx, _taken(ctx, x, {row.axis: clipped}))
        part = part * weight.cast(x.dtype.name).reshape(*_column(row, len(x.shape)))
        total = part if total is None else total + part
    return total.value


def _taps(row: RunAxis, position: Numbers, mode: Mode) -> list[tuple[Numbers, Numbers]]:
    """For each tap the places and the weights along the axis, in float64."""
    radius, stretch = (1 if mode.interpolation == "linear" else 2), None
    if mode.antialias:
        radius, stretch = radius / _least_factor(row), row.scale.cast("float64").least(1)
    reach = ceil(radius)
    if reach > MOST_REACH:
        raise UnsupportedError(
            f"antialias along an axis of {shown(row.extent)} that becomes {shown(row.out)} would "
            f"blend up to {2 * reach} elements of it into one; declare closer bounds, at most "
            f"{2 * MOST_REACH} are blended"
        )
    row.scale.ctx.table_size(most(row.out) * 2 * reach, "a resized axis")
    base, taps = position.apply("floor"), []
    for offset in range(1 - reach, reach + 1):
        place = base + offset
        distance = (place - position).apply("abs")
        distance = distance if stretch is None else distance * stretch
        weight = _weight(distance, mode)
        if mode.exclude_outside:
            weight = (place >= 0).both(place <= row.extent - 1).choose(weight, 0)
        taps.append((place, weight))
    if mode.antialias or mode.exclude_outside:
        total = taps[0][1]
        for _, weight in taps[1:]:
            total = total + weight
        total = total.equals(0).choose(total * 0 + 1, total)
        taps = [(place, weight / total) for place, weight in taps]
    return taps


def _least_factor(row: RunAxis) -> float:
    """What no run's factor is below, at most 1: the extents are held to the factor."""
    known = row.scale.value.data
    if known is not None:
        return min(float(known.min()), 1.0)
    symbols = symbols_of(row.extent, row.out)
    extents, outs = np.asarray([most(row.extent)]), np.asarray([least(row.out)])
    if len(symbols) == 1:
        (symbol,) = symbols
        if symbol.high - symbol.low <= MOST_TRIED:
            sizes = {symbol.name: np.arange(symbol.low, symbol.high + 1)}
            extents, outs = (_at(n, sizes) for n in (row.extent, row.out))
    factors = np.maximum(outs - 0.5, 0.5) / np.maximum(extents, 1)
    return min(float(factors.min()), 1.0)


def _at(extent: Whole, sizes: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.asarray(extent.at(sizes) if isinstance(extent, Extent) else extent)


def _weight(distance: Numbers, mode: Mode) -> Numbers:
    if mode.interpolation == "linear":
        return (1 - distance).most(0)
    a = mode.cubic_a
    near = (distance * (a + 2) - (a + 3)) * distance * distance + 1
    far = ((distance - 5) * distance + 8) * distance * a - 4 * a
    return (distance <= 1).choose(near, (distance < 2).choose(far, 0))
