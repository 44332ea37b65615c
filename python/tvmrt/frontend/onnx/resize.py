"""Resize and Upsample: every mode becomes tables of places and weights, one axis at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

import numpy as np

from tvmrt.error import UnsupportedError
from tvmrt.ir import Value
from tvmrt.ir.extent import Extent, Whole, bounds, exact_quotient, symbols_of
from tvmrt.ir.op import normalize_axis

from . import run_places, run_resize
from .arithmetic import Numbers
from .context import NodeContext
from .registry import onnx_op
from .run_resize import Mode
from .supposed import is_given

MAX_DIVISOR, MAX_TRIED = 1024, 1 << 16  # of factors of open axes
MAX_TAPS = 8  # of the tables by which an element is blended, about


@dataclass(frozen=True)
class Axis:
    """One axis of a resize: extents, factor and the region of the input that is taken."""

    axis: int
    extent: Whole
    out: Whole
    scale: np.float32 | None  # None: out by extent, which the run knows
    start: float = 0.0
    end: float = 1.0


@onnx_op("Resize")
def resize(ctx: NodeContext) -> Value:
    if ctx.opset < 11:
        return upsample(ctx)
    x = ctx.required(0)
    rank = len(x.shape)
    axes = [normalize_axis(a, rank) for a in ctx.attr("axes") or range(rank)]
    mode = Mode(
        ctx.attr("mode", "nearest"),
        ctx.attr("coordinate_transformation_mode", "half_pixel"),
        ctx.attr("nearest_mode", "round_prefer_floor"),
        ctx.attr("cubic_coeff_a", -0.75),
        bool(ctx.attr("exclude_outside", 0)),
        bool(ctx.attr("antialias", 0)),
    )
    if _chosen_by_the_run(ctx, mode):
        return _by_the_run(ctx, x, axes, mode)
    # an empty tensor stands for a missing one
    scales = ctx.constant_of(2, "the scales")
    sizes = ctx.ints_of(3, "the sizes")
    if sizes:
        extents, factors = _by_sizes(ctx, x, axes, sizes)
    elif scales is not None and scales.size == len(axes):
        factors = np.asarray(scales, np.float32).reshape(-1)
        extents = [_scaled(x.shape[a], f) for f, a in zip(factors, axes)]
    else:
        raise ValueError(f"neither scales nor sizes for {len(axes)} axes are given")
    region = _region(ctx, mode, len(axes))
    rows = [
        Axis(axis, x.shape[axis], out, f, float(start), float(end))
        for axis, out, f, start, end in zip(
            axes, extents, factors, region[: len(axes)], region[len(axes) :]
        )
    ]
    return resized(ctx, x, rows, mode, ctx.attr("extrapolation_value", 0.0))


def _chosen_by_the_run(ctx: NodeContext, mode: Mode) -> bool:
    """Whether factors or a region are operands of the run; sizes alone follow from the result's."""
    kept = ctx.attr("keep_aspect_ratio_policy", "stretch") != "stretch"
    crops = mode.coordinates == "tf_crop_and_resize"
    return is_given(ctx, 2) or (kept and is_given(ctx, 3)) or (crops and is_given(ctx, 1))


def _by_the_run(ctx: NodeContext, x: Value, axes: list[int], mode: Mode) -> Value:
    """Resize by factors, sizes or a region of the run."""
    shape = run_places.declared(ctx, len(x.shape), "the size")
    before, after = [x.shape[a] for a in axes], [shape[a] for a in axes]
    scales, sizes = ctx.input(2), ctx.input(3)
    policy = ctx.attr("keep_aspect_ratio_policy", "stretch")
    if scales is not None and scales.type.size == len(axes):
        factors = run_resize.factors_of_scales(ctx, scales, before, after)
    elif sizes is None or sizes.type.size != len(axes):
        raise ValueError(f"neither scales nor sizes for {len(axes)} axes are given")
    elif policy == "stretch":
        ctx.ints_of(3, "the sizes")  # which holds the run to them
        factors = Numbers(ctx, ctx.const(np.float32(after) / np.float32(before)))
    else:
        factors = run_resize.factors_of_sizes(ctx, sizes, before, after, policy)
    region = ctx.input(1)
    if region is None or region.type.size != 2 * len(axes):
        region = ctx.const([0.0] * len(axes) + [1.0] * len(axes), np.float32)
    ends = Numbers(ctx, ctx.cast(region, "float32"))
    rows = [
        run_resize.RunAxis(
            a, x.shape[a], shape[a], factors.at(i), ends.at(i), ends.at(i + len(axes))
        )
        for i, a in enumerate(axes)
    ]
    return run_resize.resized(ctx, x, rows, mode, ctx.attr("extrapolation_value", 0.0))


@onnx_op("Upsample")
def upsample(ctx: NodeContext) -> Value:
    """Opsets 7 to 10: asymmetric coordinates only."""
    x = ctx.required(0)
    name = ctx.attr("mode", "nearest")
    mode = Mode("linear" if name == "bilinear" else name, "asymmetric", "simple")
    if is_given(ctx, 1) and ctx.required(1).type.size == len(x.shape):
        return _upsampled_by_the_run(ctx, x, mode)
    scales = ctx.attr("scales") or ctx.constant_of(1, "the scales")
    if scales is None or len(scales) != len(x.shape):
        raise ValueError(f"one scale for each of {len(x.shape)} axes expected")
    rows = [
        Axis(i, n, _scaled(n, np.float32(s)), np.float32(s))
        for i, (n, s) in enumerate(zip(x.shape, scales))
    ]
    return resized(ctx, x, rows, mode, 0.0)


def _upsampled_by_the_run(ctx: NodeContext, x: Value, mode: Mode) -> Value:
    shape = run_places.declared(ctx, len(x.shape), "the size")
    factors = run_resize.factors_of_scales(ctx, ctx.required(1), x.shape, shape)
    none = Numbers(ctx, ctx.const(0, np.float32))
    rows = [
        run_resize.RunAxis(i, n, m, factors.at(i), none, none)
        for i, (n, m) in enumerate(zip(x.shape, shape))
    ]
    return run_resize.resized(ctx, x, rows, mode, 0.0)


def _scaled(extent: Whole, factor: np.float32) -> Whole:
    """An extent times a factor, rounded down."""
    if not isinstance(extent, Extent):
        return floor(float(factor) * extent)
    share = Fraction(float(factor)).limit_denominator(MAX_DIVISOR)
    low, high = bounds(extent)
    sizes = np.arange(low, high + 1)
    if high - low > MAX_TRIED or np.any(
        sizes * share.numerator // share.denominator != np.floor(float(factor) * sizes)
    ):
        raise UnsupportedError(
            f"the extent {extent!r} is chosen when the network runs, and times {factor} it is no "
            "whole quotient; resize by sizes, or by a factor that is a fraction of small numbers"
        )
    return extent * share.numerator // share.denominator


def _repeated(ctx: NodeContext, x: Value, row: Axis, mode: Mode) -> Value | None:
    """Each element so many times, where that is what an open axis is resized to."""
    times = exact_quotient(row.out, row.extent)
    # in these coordinates each element is the nearest of its own copies
    own = mode.coordinates in ("asymmetric", "half_pixel", "pytorch_half_pixel")
    rule = mode.nearest in (("floor", "simple") if mode.coordinates == "asymmetric" else _ROUND)
    if mode.interpolation != "nearest" or not isinstance(times, int) or not (own and rule):
        return None
    apart = [m for d, n in enumerate(x.shape) for m in ((n, 1) if d == row.axis else (n,))]
    filled = list(apart)
    filled[row.axis + 1] = times
    shape = [row.out if d == row.axis else n for d, n in enumerate(x.shape)]
    return ctx.reshape(ctx.expand(ctx.reshape(x, apart), filled), shape)


def _in_numbers(ctx: NodeContext, row: Axis) -> run_resize.RunAxis:
    """The axis as formulas take it."""

    def number(value: float) -> Numbers:
        return Numbers(ctx, ctx.const(np.float32(value)))

    if row.scale is None:
        scale = number(1) * row.out / (number(1) * row.extent)
    else:
        scale = number(row.scale)
    ends = number(row.start), number(row.end)
    return run_resize.RunAxis(row.axis, row.extent, row.out, scale, *ends)


_ROUND = ("round_prefer_floor", "round_prefer_ceil")


def _by_sizes(ctx: NodeContext, x: Value, axes: Sequence[int], sizes: Sequence[int]):
    """Extents and factors from wanted sizes, aspect ratio kept if asked for."""
    if len(sizes) != len(axes):
        raise ValueError(f"sizes {list(sizes)} do not fit {len(axes)} axes")
    policy = ctx.attr("keep_aspect_ratio_policy", "stretch")
    pairs = [(s, x.shape[a]) for s, a in zip(sizes, axes)]
    if policy == "stretch":
        return list(sizes), [None if symbols_of(*p) else _ratio(*p) for p in pairs]
    if policy not in ("not_larger", "not_smaller"):
        raise ValueError(f"keep_aspect_ratio_policy {policy} is not known")
    ratios = [_ratio(*pair) for pair in pairs]
    common = min(ratios) if policy == "not_larger" else max(ratios)
    return [floor(float(common) * x.shape[a] + 0.5) for a in axes], [common] * len(axes)


def _ratio(size: int, extent: int) -> np.float32:
    return np.float32(size) / np.float32(extent)


def _region(ctx: NodeContext, mode: Mode, count: int) -> np.ndarray:
    """Starts then ends of the region of interest, of each axis, in units of its extent."""
    whole = np.array([0.0] * count + [1.0] * count)
    if mode.coordinates != "tf_crop_and_resize":
        return whole
    region = ctx.constant_of(1, "the region of interest")
    if region is None or region.size == 0:
        return whole
    if region.size != 2 * count:
        raise ValueError(f"the region of interest has {region.size} numbers, not {2 * count}")
    return region.reshape(-1)


def resized(ctx: NodeContext, x: Value, rows: Sequence[Axis], mode: Mode, outside: float) -> Value:
    """Resample the axes whose places are not simply their own."""
    chosen = [row for row in rows if isinstance(row.extent, Extent) or isinstance(row.out, Extent)]
    for row in chosen:
        if row.out != row.extent:
            found = _repeated(ctx, x, row, mode)
            if found is None:
                # the run computes which elements are taken, and with which weights
                found = run_resize.resized(ctx, x, [_in_numbers(ctx, row)], mode, outside)
            x = found
    rows = [row for row in rows if row not in chosen]
    if any(row.out < 0 or (row.out > 0 and row.extent == 0) for row in rows):
        raise ValueError(f"{x.type} cannot be resized to extents {[row.out for row in rows]}")
    # of numbers that are known: what is computed of them is, too
    known = [_in_numbers(ctx, row) for row in rows]
    found = [run_resize.source_positions(row, mode.coordinates) for row in known]
    positions = [each.value.data for each in found]
    if mode.interpolation == "nearest":
        places = [run_resize.nearest_places(p, row, mode) for p, row in zip(found, known)]
        y = _pick(ctx, x, rows, [each.value.data.astype(np.int32) for each in places])
    elif mode.interpolation in ("linear", "cubic"):
        y = _blend(ctx, x, rows, positions, mode)
    else:
        raise ValueError(f"resize mode {mode.interpolation} is not known")
    if mode.coordinates == "tf_crop_and_resize":
        y = _outside(ctx, y, rows, positions, outside)
    return y


def _pick(ctx: NodeContext, x: Value, rows: Sequence[Axis], tables: Sequence[np.ndarray]) -> Value:
    axes, picked = [], []
    for row, places in sorted(zip(rows, tables), key=lambda pair: pair[0].axis):
        if row.out != row.extent or not np.array_equal(places, np.arange(row.extent)):
            axes.append(row.axis)
            picked.append(ctx.const(places))
    return ctx.emit("pick", [x, *picked], axes=tuple(axes)) if axes else x


def _blend(ctx: NodeContext, x: Value, rows, positions, mode: Mode) -> Value:
    """Weighted sums, one axis after the other, those that shrink first."""
    kind = x.dtype
    y = x if kind.is_float else ctx.cast(x, "float32")
    order = sorted(range(len(rows)), key=lambda i: rows[i].out / max(rows[i].extent, 1))
    for i in order:
        row = rows[i]
        places, weights = blend_table(positions[i], row, mode)
        own = np.array_equal(places[:, 0], np.arange(row.extent))
        if places.shape[1] == 1 and own and np.all(weights == 1):
            continue
        tables = [ctx.const(places), ctx.const(weights, y.dtype.numpy)]
        y = ctx.emit("resample", [y, *tables], axis=row.axis)
    return ctx.cast(y, kind.name)


def blend_table(position: np.ndarray, row: Axis, mode: Mode) -> tuple[np.ndarray, np.ndarray]:
    """Places [out, taps] and weights [out, taps] of a linear or cubic blend along one axis."""
    position = position.astype(np.float64)
    # shrinking with antialias widens the window by the factor
    stretch = min(float(row.scale), 1.0) if mode.antialias else 1.0
    radius = (1 if mode.interpolation == "linear" else 2) / stretch
    reach = int(np.ceil(radius))
    base = np.floor(position).astype(np.int64)
    offsets = np.arange(1 - reach, reach + 1)
    places = base[:, None] + offsets[None, :]
    distance = np.abs(places - position[:, None]) * stretch
    if mode.interpolation == "linear":
        weights = np.clip(1 - distance, 0, None)
    else:
        weights = _cubic(distance, mode.cubic_a)
    inside = (places >= 0) & (places < row.extent)
    if mode.exclude_outside:
        weights = np.where(inside, weights, 0)
    if mode.antialias or mode.exclude_outside:
        total = weights.sum(1, keepdims=True)
        weights = weights / np.where(total == 0, 1, total)
    places = np.clip(places, 0, max(row.extent - 1, 0))
    used = np.any(weights != 0, axis=0)
    if not used.any():
        used[0] = True
    return _merged(places[:, used].astype(np.int32), weights[:, used])


def _merged(places: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A single tap where it is the only one with weight everywhere."""
    if weights.size == 0 or np.any((weights != 0).sum(1) > 1):
        return places, weights
    strongest = np.argmax(np.abs(weights), axis=1)[:, None]
    return np.take_along_axis(places, strongest, 1), np.take_along_axis(weights, strongest, 1)


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    """The cubic convolution kernel of Keys with parameter ``a``."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((distance - 5) * distance + 8) * distance * a - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def _outside(ctx: NodeContext, y: Value, rows, positions, number: float) -> Value:
    """Replace what was taken from outside the input."""
    inside = np.ones([1] * len(y.shape), bool)
    for row, position in zip(rows, positions):
        shape = [1] * len(y.shape)
        shape[row.axis] = row.out
        ok = (position >= 0) & (position <= row.extent - 1)
        inside = inside & ok.reshape(shape)
    if inside.all():
        return y
    return ctx.emit("where", [ctx.const(inside), y, ctx.like(number, y)])
