"""Normalisation, composed of reductions and pointwise work that fuse into two or three loops."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tvmrt.ir import Value
from tvmrt.ir.op import normalize_axis

from .context import NodeContext
from .registry import onnx_op


def mean(ctx: NodeContext, x: Value, axes: Sequence[int]) -> Value:
    return ctx.emit("reduce_mean", [x], axes=tuple(axes), keepdims=1)


def variance(ctx: NodeContext, x: Value, centre: Value, axes: Sequence[int]) -> Value:
    """The mean squared distance from ``centre``."""
    away = ctx.emit("sub", [x, centre])
    return mean(ctx, ctx.emit("mul", [away, away]), axes)


def inverse_deviation(ctx: NodeContext, variance: Value, epsilon: float) -> Value:
    """1 / sqrt(variance + epsilon)."""
    shifted = ctx.emit("add", [variance, ctx.scalar_like(epsilon, variance)])
    return ctx.emit("reciprocal", [ctx.emit("sqrt", [shifted])])


def standardized(ctx: NodeContext, x: Value, axes: Sequence[int], epsilon: float):
    """x with mean 0 and variance 1 over the axes; also the mean and the inverse deviation."""
    centre = mean(ctx, x, axes)
    inverse = inverse_deviation(ctx, variance(ctx, x, centre, axes), epsilon)
    # the difference is taken again, for storing that of the variance would cost more
    away = ctx.emit("sub", [x, centre])
    return ctx.emit("mul", [away, inverse]), centre, inverse


def affine(ctx: NodeContext, x: Value, scale: Value | None, shift: Value | None) -> Value:
    if scale is not None:
        x = ctx.emit("mul", [x, scale])
    return x if shift is None else ctx.emit("add", [x, shift])


def by_channel(ctx: NodeContext, row: Value, rank: int) -> Value:
    """One number a channel, made to broadcast along axis 1."""
    return ctx.reshape(row, (row.type.size, *[1] * (rank - 2)))


@onnx_op("BatchNormalization")
def batch_normalization(ctx: NodeContext) -> Value | list[Value]:
    x, scale, shift = (ctx.required(i) for i in range(3))
    centre, spread = ctx.required(3), ctx.required(4)
    epsilon, rank = ctx.attr("epsilon", 1e-5), len(x.shape)
    running = None
    if ctx.attr("training_mode", 0):
        axes = [0, *range(2, rank)]
        now = mean(ctx, x, axes)
        flat = x.shape[1:2]
        now_spread = ctx.reshape(variance(ctx, x, now, axes), flat)
        now = ctx.reshape(now, flat)
        keep = ctx.attr("momentum", 0.9)
        running = [
            _blend(ctx, old, new, keep) for old, new in ((centre, now), (spread, now_spread))
        ]
        centre, spread = now, now_spread

    def placed(v: Value) -> Value:
        # before opset 9 there could be a number for every place of a channel, too
        return by_channel(ctx, v, rank) if len(v.shape) == 1 else v

    factor = ctx.emit("mul", [scale, inverse_deviation(ctx, spread, epsilon)])
    offset = ctx.emit("sub", [shift, ctx.emit("mul", [centre, factor])])
    y = affine(ctx, x, placed(factor), placed(offset))
    return y if running is None else [y, *running]


def _blend(ctx: NodeContext, old: Value, new: Value, keep: float) -> Value:
    kept = ctx.emit("mul", [old, ctx.scalar_like(keep, old)])
    return ctx.emit("add", [kept, ctx.emit("mul", [new, ctx.scalar_like(1 - keep, new)])])


@onnx_op("InstanceNormalization")
def instance_normalization(ctx: NodeContext) -> Value:
    x, rank = ctx.required(0), len(ctx.required(0).shape)
    y, _, _ = standardized(ctx, x, range(2, rank), ctx.attr("epsilon", 1e-5))
    scale, shift = (by_channel(ctx, ctx.required(i), rank) for i in (1, 2))
    return affine(ctx, y, scale, shift)


@onnx_op("GroupNormalization")
def group_normalization(ctx: NodeContext) -> Value:
    x, groups = ctx.required(0), ctx.attr("num_groups")
    scale, shift = ctx.required(1), ctx.required(2)
    channels, rank = x.shape[1], len(x.shape)
    if groups < 1 or channels % groups:
        raise ValueError(f"{channels} channels do not fall into {groups} groups")
    grouped = ctx.reshape(x, (x.shape[0], groups, channels // groups, *x.shape[2:]))
    y, _, _ = standardized(ctx, grouped, range(2, rank + 1), ctx.attr("epsilon", 1e-5))
    if ctx.opset < 21:
        # one number a group
        scale, shift = (ctx.reshape(v, (groups, *[1] * (rank - 1))) for v in (scale, shift))
        return ctx.reshape(affine(ctx, y, scale, shift), x.shape)
    y = ctx.reshape(y, x.shape)
    return affine(ctx, y, by_channel(ctx, scale, rank), by_channel(ctx, shift, rank))


@onnx_op("LayerNormalization")
@onnx_op("LayerNormalization", domain="com.microsoft")
def layer_normalization(ctx: NodeContext) -> list[Value]:
    x = ctx.required(0)
    axes = _trailing_axes(ctx, x)
    y, centre, inverse = standardized(ctx, x, axes, ctx.attr("epsilon", 1e-5))
    return [affine(ctx, y, ctx.input(1), ctx.input(2)), centre, inverse]


def _trailing_axes(ctx: NodeContext, x: Value) -> list[int]:
    rank = len(x.shape)
    return list(range(normalize_axis(ctx.attr("axis", -1), rank), rank))


def root_mean_square(ctx: NodeContext, x: Value, axes: Sequence[int], epsilon: float):
    """x over the root of its mean square; also the inverse of that root."""
    inverse = inverse_deviation(ctx, mean(ctx, ctx.emit("mul", [x, x]), axes), epsilon)
    return ctx.emit("mul", [x, inverse]), inverse


@onnx_op("RMSNormalization", "SimplifiedLayerNormalization")
@onnx_op("SimplifiedLayerNormalization", domain="com.microsoft")
def rms_normalization(ctx: NodeContext) -> list[Value]:
    x = ctx.required(0)
    y, inverse = root_mean_square(ctx, x, _trailing_axes(ctx, x), ctx.attr("epsilon", 1e-5))
    return [affine(ctx, y, ctx.required(1), None), inverse]


@onnx_op("SkipLayerNormalization", domain="com.microsoft")
def skip_layer_normalization(ctx: NodeContext) -> list[Value]:
    total = _with_skip(ctx, ctx.input(4))
    axes = [len(total.shape) - 1]
    y, centre, inverse = standardized(ctx, total, axes, ctx.attr("epsilon", 1e-12))
    return [affine(ctx, y, ctx.required(2), ctx.input(3)), centre, inverse, total]


@onnx_op("SkipSimplifiedLayerNormalization", domain="com.microsoft")
def skip_rms_normalization(ctx: NodeContext) -> list[Value]:
    total = _with_skip(ctx, ctx.input(3))
    axes = [len(total.shape) - 1]
    y, inverse = root_mean_square(ctx, total, axes, ctx.attr("epsilon", 1e-12))
    # the second output is never computed by inference
    return [affine(ctx, y, ctx.required(2), None), inverse, inverse, total]


def _with_skip(ctx: NodeContext, bias: Value | None) -> Value:
    total = ctx.emit("add", [ctx.required(0), ctx.required(1)])
    return total if bias is None else ctx.emit("add", [total, bias])


@onnx_op("MeanVarianceNormalization")
def mean_variance_normalization(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    rank = len(x.shape)
    axes = sorted({normalize_axis(a, rank) for a in ctx.attr("axes", [0, 2, 3])})
    centre = mean(ctx, x, axes)
    deviation = ctx.emit("sqrt", [variance(ctx, x, centre, axes)])
    divisor = ctx.emit("add", [deviation, ctx.scalar_like(1e-9, x)])
    return ctx.emit("mul", [ctx.emit("sub", [x, centre]), ctx.emit("reciprocal", [divisor])])


@onnx_op("LpNormalization")
def lp_normalization(ctx: NodeContext) -> Value:
    x, power = ctx.required(0), ctx.attr("p", 2)
    axis = normalize_axis(ctx.attr("axis", -1), len(x.shape))
    if power not in (1, 2):
        raise ValueError(f"norm p = {power}; ONNX knows 1 and 2")
    norm = ctx.emit(
        "reduce_sum",
        [ctx.emit("mul", [x, x]) if power == 2 else ctx.emit("abs", [x])],
        axes=(axis,),
        keepdims=1,
    )
    if power == 2:
        norm = ctx.emit("sqrt", [norm])
    # a zero vector stays one
    empty = ctx.emit("equal", [norm, ctx.scalar_like(0, x)])
    norm = ctx.emit("where", [empty, ctx.scalar_like(1, x), norm])
    return ctx.emit("mul", [x, ctx.emit("reciprocal", [norm])])


@onnx_op("LRN")
def lrn(ctx: NodeContext) -> Value:
    """The sum over neighbouring channels is a 1x1 convolution with a band matrix."""
    x, size = ctx.required(0), ctx.attr("size")
    alpha, beta = ctx.attr("alpha", 1e-4), ctx.attr("beta", 0.75)
    channels, rank = x.shape[1], len(x.shape)
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    distance = np.arange(channels)[None, :] - np.arange(channels)[:, None]
    band = np.where((distance >= -before) & (distance <= after), alpha / size, 0.0)
    flat = ctx.reshape(x, (*x.shape[:2], prod(x.shape[2:])))
    total = ctx.emit(
        "conv",
        [
            ctx.emit("mul", [flat, flat]),
            ctx.const(band[:, :, None], np.float32),
            ctx.const(np.full(channels, ctx.attr("bias", 1.0)), np.float32),
        ],
        groups=1,
        strides=(1,),
        dilations=(1,),
        pads_before=(0,),
        pads_after=(0,),
    )
    if beta == 0.75:
        # 1 / (root * root of root) is cheaper than a power
        root = ctx.emit("sqrt", [total])
        divisor = ctx.emit("mul", [root, ctx.emit("sqrt", [root])])
        factor = ctx.emit("reciprocal", [divisor])
    else:
        factor = ctx.emit("pow", [total, ctx.scalar_like(-beta, x)])
    y = ctx.emit("mul", [flat, factor])
    return ctx.reshape(y, x.shape) if rank != 3 else y
