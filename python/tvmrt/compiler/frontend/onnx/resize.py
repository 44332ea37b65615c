"""Resize and Upsample: each mode becomes tables of indices and weights, one axis at a time."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor

import numpy as np

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.computed_sizes.expression import constant_value, leaf
from tvmrt.compiler.ir.op import normalize_axis
from tvmrt.compiler.ir.sizes import Extent, SymInt, exact_quotient, lower_bound
from tvmrt.compiler.ir.sizes.undecided import UndecidedExtent, deciding_by
from tvmrt.error import UnsupportedError, UnsupportedSizes

from . import computed_sizes, dynamic_resize, dynamic_slice
from .context import NodeContext
from .dynamic_sizes import evaluate_extents, has_runtime_operand
from .registry import onnx_op
from .resize_coordinates import (
    AxisScale,
    Coordinates,
    CropRegion,
    ResizeAxis,
    ResizeMode,
    nearest_indices,
    source_coordinates,
)
from .tensor_expressions import TensorExpr, require


@onnx_op("Resize")
def resize(ctx: NodeContext) -> Value:
    if ctx.opset < 11:
        return upsample(ctx)
    rank = len(ctx.required(0).shape)
    axes = [normalize_axis(a, rank) for a in ctx.attr("axes") or range(rank)]
    mode = ResizeMode(
        ctx.attr("mode", "nearest"),
        ctx.attr("coordinate_transformation_mode", "half_pixel"),
        ctx.attr("nearest_mode", "round_prefer_floor"),
        ctx.attr("cubic_coeff_a", -0.75),
        bool(ctx.attr("exclude_outside", 0)),
        bool(ctx.attr("antialias", 0)),
    )
    return _resize(ctx, axes, mode)


def _resize(ctx: NodeContext, axes: list[int], mode: ResizeMode) -> Value:
    """Resize axes of the first input by scales, sizes and a region in the inputs of Resize-11."""
    x = ctx.required(0)
    if ctx.input(2) in ctx.importer.sizes.expressions and mode.coordinates != "tf_crop_and_resize":
        result = _resize_by_symbolic_scales(ctx, x, axes, mode)
        if result is not None:
            return result
    if _is_dynamic(ctx, mode):
        return _resize_dynamic(ctx, x, axes, mode)
    # an empty tensor means an omitted one
    scales = ctx.constant_operand(2, "the scales")
    sizes = ctx.int_operand(3, "the sizes")
    if sizes:
        extents, result = _extents_and_scales(ctx, x, axes, sizes)
    elif scales is not None and scales.size == len(axes):
        factors = np.asarray(scales, np.float32).reshape(-1)
        extents = [_scaled_extent(ctx, x.shape[a], f) for f, a in zip(factors, axes)]
        result = [_constant_scale(ctx, f) for f in factors]
    else:
        raise ValueError(f"give scales or sizes for {len(axes)} axes")
    regions = _regions(ctx, mode, len(axes))
    dims = [
        ResizeAxis(a, x.shape[a], out, scale, region)
        for a, out, scale, region in zip(axes, extents, result, regions)
    ]
    return resize_axes(ctx, x, dims, mode, ctx.attr("extrapolation_value", 0.0))


def _constant_scale(ctx: NodeContext, scale: float) -> AxisScale:
    return AxisScale(given=TensorExpr(ctx, ctx.const(np.float32(scale))))


def _is_dynamic(ctx: NodeContext, mode: ResizeMode) -> bool:
    """Whether scales or a region are run-time operands; sizes follow from the result's shape."""
    keeps_aspect = ctx.attr("keep_aspect_ratio_policy", "stretch") != "stretch"
    crops = mode.coordinates == "tf_crop_and_resize"
    return (
        has_runtime_operand(ctx, 2)
        or (keeps_aspect and has_runtime_operand(ctx, 3))
        or (crops and has_runtime_operand(ctx, 1))
    )


def _resize_by_symbolic_scales(
    ctx: NodeContext, x: Value, axes: Sequence[int], mode: ResizeMode
) -> Value | None:
    """Resize by scales that are computed from dynamic sizes; None if they do not determine the size
    of the result."""
    operand = TensorExpr(ctx, ctx.cast(ctx.required(2), "float32"))
    factors = ctx.importer.sizes.expressions[ctx.required(2)].reshape(-1)
    if len(factors) != len(axes) or any(f.dtype != "float32" for f in factors):
        return None
    out = [computed_sizes.scale_extent(ctx, x.shape[a], f) for f, a in zip(factors, axes)]
    if any(n is None for n in out):
        return None
    for i, (axis, factor) in enumerate(zip(axes, factors)):
        fixed = constant_value(factor)
        scale = AxisScale(given=operand.at(i)) if fixed is None else _constant_scale(ctx, fixed)
        resample = dynamic_resize.resize_axes if fixed is None else resize_axes
        x = resample(ctx, x, [ResizeAxis(axis, x.shape[axis], out[i], scale)], mode, 0.0)
    return x


def _size_operand(ctx: NodeContext) -> Value:
    """Return the operand that determines the size of the result: sizes, scales or the region."""
    given = (ctx.input(i) for i in (3, 2, 1))
    return next(v for v in given if v is not None and v.type.size)


def _resize_dynamic(ctx: NodeContext, x: Value, axes: list[int], mode: ResizeMode) -> Value:
    """Resize by run-time scales, sizes or region."""
    shape = dynamic_slice.declared_shape(ctx, len(x.shape), _size_operand(ctx), "the size")
    before, after = [x.shape[a] for a in axes], [shape[a] for a in axes]
    scales, sizes = ctx.input(2), ctx.input(3)
    policy = ctx.attr("keep_aspect_ratio_policy", "stretch")
    if scales is not None and scales.type.size == len(axes):
        found = dynamic_resize.scales_from_operand(ctx, scales, before, after)
    elif sizes is None or sizes.type.size != len(axes):
        raise ValueError(f"give scales or sizes for {len(axes)} axes")
    elif policy == "stretch":
        ctx.int_operand(3, "the sizes")  # each run checks the sizes
        found = [AxisScale(m, n) for n, m in zip(before, after)]
    else:
        scale, ratio = dynamic_resize.aspect_preserving_scale(ctx, sizes, before, policy)
        require(ratio, after, sizes, "sizes", f"extents {after}")
        found = [scale] * len(axes)
    dims = [
        ResizeAxis(a, n, m, scale, region)
        for a, n, m, scale, region in zip(
            axes, before, after, found, _regions(ctx, mode, len(axes))
        )
    ]
    return dynamic_resize.resize_axes(ctx, x, dims, mode, ctx.attr("extrapolation_value", 0.0))


@onnx_op("Upsample")
def upsample(ctx: NodeContext) -> Value:
    """Upsample, and Resize of opset 10: asymmetric coordinates and scales only."""
    x, scales = ctx.required(0), ctx.attr("scales")
    given = ctx.input(1) if scales is None else ctx.const(scales, np.float32)
    ctx.inputs = [x, None, given]
    name = ctx.attr("mode", "nearest")
    mode = ResizeMode("linear" if name == "bilinear" else name, "asymmetric", "simple")
    return _resize(ctx, list(range(len(x.shape))), mode)


def _scaled_extent(ctx: NodeContext, extent: SymInt, factor: np.float32) -> SymInt:
    """Return floor(extent * scale), computed in float32 like onnxruntime and onnx."""
    if not isinstance(extent, Extent):
        return floor(float(np.float32(factor) * np.float32(extent)))
    result = computed_sizes.scale_extent(ctx, extent, leaf(float(factor), "float32"))
    if result is None:
        raise UnsupportedError(
            f"the dynamic extent {extent!r} times {factor} is unbounded; resize by a finite "
            "scale above 0"
        )
    return result


def _repeat_elements(ctx: NodeContext, x: Value, dim: ResizeAxis, mode: ResizeMode) -> Value | None:
    """Repeat each element, if a dynamic axis is resized by an integer with equal results."""
    times = exact_quotient(dim.out, dim.extent)
    # in these coordinates each element is the nearest of its own copies
    own = mode.coordinates in ("asymmetric", "half_pixel", "pytorch_half_pixel")
    rule = mode.nearest in (
        ("floor", "simple") if mode.coordinates == "asymmetric" else _ROUNDING_MODES
    )
    if mode.interpolation != "nearest" or not isinstance(times, int) or not (own and rule):
        return None
    split_shape = [m for d, n in enumerate(x.shape) for m in ((n, 1) if d == dim.axis else (n,))]
    filled = list(split_shape)
    filled[dim.axis + 1] = times
    shape = [dim.out if d == dim.axis else n for d, n in enumerate(x.shape)]
    return ctx.reshape(ctx.expand(ctx.reshape(x, split_shape), filled), shape)


_ROUNDING_MODES = ("round_prefer_floor", "round_prefer_ceil")


def _extents_and_scales(ctx: NodeContext, x: Value, axes: Sequence[int], sizes: Sequence[int]):
    """Return extents and scales for the requested sizes, with the aspect ratio kept on request."""
    if len(sizes) != len(axes):
        raise ValueError(f"sizes {list(sizes)} do not fit {len(axes)} axes")
    policy = ctx.attr("keep_aspect_ratio_policy", "stretch")
    pairs = [(s, x.shape[a]) for s, a in zip(sizes, axes)]
    if policy == "stretch":
        return list(sizes), [AxisScale(*pair) for pair in pairs]
    if policy not in ("not_larger", "not_smaller"):
        raise ValueError(f"unknown keep_aspect_ratio_policy {policy}")
    if any(lower_bound(n) == 0 for _, n in pairs):
        raise ValueError(f"{x.type} has no aspect ratio to keep where an extent is 0")
    try:
        with deciding_by(None):
            size, extent = pairs[0]
            for other, across in pairs[1:]:
                ours, theirs = size * across, other * extent
                if theirs < ours if policy == "not_larger" else theirs > ours:
                    size, extent = other, across
    except UndecidedExtent:
        return _dynamic_extents_and_scales(ctx, pairs, policy)
    out = [(2 * size * n + extent) // (2 * extent) for _, n in pairs]  # rounded half up
    return out, [AxisScale(size, extent)] * len(axes)


def _dynamic_extents_and_scales(
    ctx: NodeContext, pairs: Sequence[tuple[SymInt, SymInt]], policy: str
) -> tuple[list[SymInt], list[AxisScale]]:
    """Return extents and scales if dynamic sizes decide which axis has the extreme scale."""
    elements = ctx.integer_tensor(np.asarray([size for size, _ in pairs], object))
    extents = [n for _, n in pairs]
    scale, ratio = dynamic_resize.aspect_preserving_scale(ctx, elements, extents, policy)
    out = evaluate_extents(ctx, ratio.value)
    if out is None:
        raise UnsupportedSizes(
            "the sizes that keep the aspect ratio are unbounded; declare closer bounds"
        )
    return list(out), [scale] * len(pairs)


def _regions(ctx: NodeContext, mode: ResizeMode, count: int) -> list[CropRegion]:
    """Return the region of interest of each axis, in units of its extent."""
    if mode.coordinates != "tf_crop_and_resize":
        return [CropRegion()] * count
    region = ctx.input(1)
    if region is None or region.type.size == 0:
        return [CropRegion()] * count
    if region.type.size != 2 * count:
        raise ValueError(f"the region of interest has {region.type.size} numbers, not {2 * count}")
    if region.data is None:
        places = TensorExpr(ctx, ctx.cast(region, "float32"))
        return [CropRegion(places.at(i), places.at(i + count)) for i in range(count)]
    numbers = region.data.reshape(-1).tolist()
    if not np.isfinite(numbers).all():
        raise ValueError(f"the region of interest {numbers} is not finite")
    ends = [Fraction(each) for each in numbers]
    return [CropRegion(*pair) for pair in zip(ends[:count], ends[count:])]


def resize_axes(
    ctx: NodeContext, x: Value, dims: Sequence[ResizeAxis], mode: ResizeMode, outside: float
) -> Value:
    """Resample all axes except for identity axes."""
    chosen = [dim for dim in dims if isinstance(dim.extent, Extent) or isinstance(dim.out, Extent)]
    for dim in chosen:
        if dim.out != dim.extent:
            found = _repeat_elements(ctx, x, dim, mode)
            if found is None:
                # indices and weights are computed at run time
                found = dynamic_resize.resize_axes(ctx, x, [dim], mode, outside)
            x = found
    dims = [dim for dim in dims if dim not in chosen]
    if any(dim.out < 0 or (dim.out > 0 and dim.extent == 0) for dim in dims):
        raise ValueError(f"{x.type} cannot be resized to extents {[dim.out for dim in dims]}")
    # coordinates are constants here, as their operands are
    found = [source_coordinates(ctx, dim, mode) for dim in dims]
    if mode.interpolation == "nearest":
        indices = [nearest_indices(at, dim, mode) for at, dim in zip(found, dims)]
        y = _pick_nearest(ctx, x, dims, [each.value.data.astype(np.int32) for each in indices])
    elif mode.interpolation in ("linear", "cubic"):
        y = _interpolate(ctx, x, dims, found, mode)
    else:
        raise ValueError(f"unknown resize mode {mode.interpolation}")
    if mode.coordinates == "tf_crop_and_resize":
        y = dynamic_resize.fill_outside(ctx, y, dims, found, outside)
    return y


def _pick_nearest(
    ctx: NodeContext, x: Value, dims: Sequence[ResizeAxis], tables: Sequence[np.ndarray]
) -> Value:
    axes, picked = [], []
    for dim, indices in sorted(zip(dims, tables), key=lambda pair: pair[0].axis):
        if dim.out != dim.extent or not np.array_equal(indices, np.arange(dim.extent)):
            axes.append(dim.axis)
            picked.append(ctx.const(indices))
    return ctx.emit("pick", [x, *picked], axes=tuple(axes)) if axes else x


def _interpolate(
    ctx: NodeContext,
    x: Value,
    dims: Sequence[ResizeAxis],
    found: Sequence[Coordinates],
    mode: ResizeMode,
) -> Value:
    """Emit weighted sums, one axis after the other, those that shrink first."""
    kind = x.dtype
    y = x if kind.is_float else ctx.cast(x, "float32")
    order = sorted(range(len(dims)), key=lambda i: dims[i].out / max(dims[i].extent, 1))
    for i in order:
        dim = dims[i]
        indices, weights = _interpolation_table(ctx, dim, found[i], mode)
        own = np.array_equal(indices[:, 0], np.arange(dim.extent))
        if indices.shape[1] == 1 and own and np.all(weights == 1):
            continue
        tables = [ctx.const(indices), ctx.const(weights, y.dtype.numpy)]
        y = ctx.emit("resample", [y, *tables], axis=dim.axis)
    if mode.antialias and not kind.is_float:
        y = ctx.emit("round", [y])
    return ctx.cast(y, kind.name)


def _interpolation_table(
    ctx: NodeContext, dim: ResizeAxis, at: Coordinates, mode: ResizeMode
) -> tuple[np.ndarray, np.ndarray]:
    """Return indices [out, taps] and weights [out, taps] of a linear or cubic blend along an axis
    of fixed extents."""
    taps = dynamic_resize.taps(ctx, dim, at, mode)
    indices, weights = (np.stack([part.value.data for part in parts], 1) for parts in zip(*taps))
    indices = np.clip(indices, 0, max(dim.extent - 1, 0)).astype(np.int32)
    used = np.any(weights != 0, axis=0)
    if not used.any():
        used[0] = True
    return _merge_taps(indices[:, used], weights[:, used])


def _merge_taps(indices: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reduce the taps to one if no element has several weights."""
    if weights.size == 0 or np.any((weights != 0).sum(1) > 1):
        return indices, weights
    strongest = np.argmax(np.abs(weights), axis=1)[:, None]
    return np.take_along_axis(indices, strongest, 1), np.take_along_axis(weights, strongest, 1)
