"""Normalisation, composed of reductions and pointwise operators that fuse into 2 or 3 loops."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from onnx import TensorProto

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.op import normalize_axis

from .context import NodeContext
from .elementwise import element_type
from .registry import onnx_op


def mean(ctx: NodeContext, x: Value, axes: Sequence[int]) -> Value:
    return ctx.emit("reduce_mean", [x], axes=tuple(axes), keepdims=1)


def variance(ctx: NodeContext, x: Value, centre: Value, axes: Sequence[int]) -> Value:
    """Return the mean squared distance from ``centre``."""
    away = ctx.emit("sub", [x, centre])
    return mean(ctx, ctx.emit("mul", [away, away]), axes)


def inverse_deviation(ctx: NodeContext, variance: Value, epsilon: float) -> Value:
    """Return 1 / sqrt(variance + epsilon)."""
    shifted = ctx.emit("add", [variance, ctx.like(epsilon, variance)])
    return ctx.emit("reciprocal", [ctx.emit("sqrt", [shifted])])


def standardize(ctx: NodeContext, x: Value, axes: Sequence[int], epsilon: float):
    """Return x with mean 0 and variance 1 over the axes, the mean and the inverse deviation."""
    centre = mean(ctx, x, axes)
    inverse = inverse_deviation(ctx, variance(ctx, x, centre, axes), epsilon)
    # recompute the difference: storing the one of the variance would cost more
    away = ctx.emit("sub", [x, centre])
    return ctx.emit("mul", [away, inverse]), centre, inverse


def affine(ctx: NodeContext, x: Value, scale: Value | None, shift: Value | None) -> Value:
    if scale is not None:
        x = ctx.emit("mul", [x, scale])
    return ctx.add_optional(x, shift)


def reshape_to_channels(ctx: NodeContext, row: Value, rank: int) -> Value:
    """Reshape one number per channel to broadcast along axis 1."""
    return ctx.reshape(row, (row.type.size, *[1] * (rank - 2)))


@onnx_op("BatchNormalization")
def batch_normalization(ctx: NodeContext) -> Value | list[Value]:
    x, scale, shift = (ctx.required(i) for i in range(3))
    centre, var = ctx.required(3), ctx.required(4)
    epsilon, rank = ctx.attr("epsilon", 1e-5), len(x.shape)
    running = None
    if ctx.attr("training_mode", 0):
        axes = [0, *range(2, rank)]
        now = mean(ctx, x, axes)
        flat = x.shape[1:2]
        batch_var = ctx.reshape(variance(ctx, x, now, axes), flat)
        now = ctx.reshape(now, flat)
        keep = ctx.attr("momentum", 0.9)
        running = [
            _moving_average(ctx, old, new, keep) for old, new in ((centre, now), (var, batch_var))
        ]
        centre, var = now, batch_var

    def reshape_parameter(v: Value) -> Value:
        # before opset 9 there could also be a number per element of a channel
        return reshape_to_channels(ctx, v, rank) if len(v.shape) == 1 else v

    factor = ctx.emit("mul", [scale, inverse_deviation(ctx, var, epsilon)])
    offset = ctx.emit("sub", [shift, ctx.emit("mul", [centre, factor])])
    y = affine(ctx, x, reshape_parameter(factor), reshape_parameter(offset))
    return y if running is None else [y, *running]


def _moving_average(ctx: NodeContext, old: Value, new: Value, keep: float) -> Value:
    weighted = ctx.emit("mul", [old, ctx.like(keep, old)])
    return ctx.emit("add", [weighted, ctx.emit("mul", [new, ctx.like(1 - keep, new)])])


@onnx_op("InstanceNormalization")
def instance_normalization(ctx: NodeContext) -> Value:
    x, scale, shift = (ctx.required(i) for i in range(3))
    epsilon, rank = ctx.attr("epsilon", 1e-5), len(x.shape)
    if x.dtype.name == "float32" and x.shape[1] != 0:
        return ctx.emit("group_norm", [x, scale, shift], groups=x.shape[1], epsilon=epsilon)
    y, _, _ = standardize(ctx, x, range(2, rank), epsilon)
    return _affine_by_channel(ctx, y, scale, shift)


@onnx_op("GroupNormalization")
def group_normalization(ctx: NodeContext) -> Value:
    x, groups = ctx.required(0), ctx.attr("num_groups")
    scale, shift = ctx.required(1), ctx.required(2)
    channels, rank = x.shape[1], len(x.shape)
    epsilon = ctx.attr("epsilon", 1e-5)
    if groups < 1 or channels % groups:
        raise ValueError(f"{channels} channels are not divisible into {groups} groups")
    if ctx.opset < 21:
        # one number per group
        scale, shift = (_repeat_elements(ctx, v, channels // groups) for v in (scale, shift))
    if x.dtype.name == "float32":
        return ctx.emit("group_norm", [x, scale, shift], groups=groups, epsilon=epsilon)
    grouped = ctx.reshape(x, (x.shape[0], groups, channels // groups, *x.shape[2:]))
    y, _, _ = standardize(ctx, grouped, range(2, rank + 1), epsilon)
    return _affine_by_channel(ctx, ctx.reshape(y, x.shape), scale, shift)


def _affine_by_channel(ctx: NodeContext, y: Value, scale: Value, shift: Value) -> Value:
    return affine(ctx, y, *(reshape_to_channels(ctx, v, len(y.shape)) for v in (scale, shift)))


def _repeat_elements(ctx: NodeContext, row: Value, count: int) -> Value:
    """Repeat every element ``count`` times."""
    column = ctx.reshape(row, (row.type.size, 1))
    return ctx.reshape(ctx.expand(column, (row.type.size, count)), (row.type.size * count,))


@onnx_op("LayerNormalization")
def layer_normalization(ctx: NodeContext) -> list[Value]:
    x, scale, shift = ctx.required(0), ctx.input(1), ctx.input(2)
    axes, epsilon = _trailing_axes(ctx, x), ctx.attr("epsilon", 1e-5)
    if not _has_output(ctx, 1, 2):
        return [normalize_rows(ctx, x, axes, epsilon, True, scale, shift)]
    y, *statistics = standardize(ctx, x, axes, epsilon)
    stash = element_type(ctx.attr("stash_type", TensorProto.FLOAT))
    return [affine(ctx, y, scale, shift), *(ctx.convert(each, stash) for each in statistics)]


def _has_output(ctx: NodeContext, *outputs: int) -> bool:
    """Return whether one of these outputs is used."""
    return any(i < len(ctx.node.output) and ctx.node.output[i] for i in outputs)


def normalize_rows(
    ctx: NodeContext,
    x: Value,
    axes: Sequence[int],
    epsilon: float,
    centre: bool,
    scale: Value | None,
    shift: Value | None,
) -> Value:
    """Layer norm, or (without ``centre``) RMS norm, over the last axes."""
    width = prod(x.shape[a] for a in axes)
    rows = all(v is None or v.type.size == width for v in (scale, shift))
    if x.dtype.name == "float32" and rows and (scale is not None or shift is None):
        inputs = [x, scale, shift]
        return ctx.emit("layer_norm", inputs, axis=axes[0], epsilon=epsilon, centre=centre)
    if centre:
        y, _, _ = standardize(ctx, x, axes, epsilon)
    else:
        y, _ = rms_normalize(ctx, x, axes, epsilon)
    return affine(ctx, y, scale, shift)


def _trailing_axes(ctx: NodeContext, x: Value) -> list[int]:
    rank = len(x.shape)
    return list(range(normalize_axis(ctx.attr("axis", -1), rank), rank))


def rms_normalize(ctx: NodeContext, x: Value, axes: Sequence[int], epsilon: float):
    """Return x divided by its root mean square, and the inverse of that root."""
    inverse = inverse_deviation(ctx, mean(ctx, ctx.emit("mul", [x, x]), axes), epsilon)
    return ctx.emit("mul", [x, inverse]), inverse


@onnx_op("RMSNormalization", "SimplifiedLayerNormalization")
def rms_normalization(ctx: NodeContext) -> list[Value]:
    x, scale = ctx.required(0), ctx.required(1)
    axes, epsilon = _trailing_axes(ctx, x), ctx.attr("epsilon", 1e-5)
    if not _has_output(ctx, 1):
        return [normalize_rows(ctx, x, axes, epsilon, False, scale, None)]
    y, inverse = rms_normalize(ctx, x, axes, epsilon)
    return [affine(ctx, y, scale, None), inverse]


@onnx_op("LpNormalization")
def lp_normalization(ctx: NodeContext) -> Value:
    x, power = ctx.required(0), ctx.attr("p", 2)
    axis = normalize_axis(ctx.attr("axis", -1), len(x.shape))
    if power not in (1, 2):
        raise ValueError(f"norm p = {power}; it must be 1 or 2")
    norm = ctx.emit(
        "reduce_sum",
        [ctx.emit("mul", [x, x]) if power == 2 else ctx.emit("abs", [x])],
        axes=(axis,),
        keepdims=1,
    )
    if power == 2:
        norm = ctx.emit("sqrt", [norm])
    # a zero vector stays unchanged
    empty = ctx.emit("equal", [norm, ctx.like(0, x)])
    norm = ctx.emit("where", [empty, ctx.like(1, x), norm])
    # a quotient, so that the only element of a vector becomes exactly 1
    return ctx.emit("div", [x, norm])
