"""Convolutions with fused activations, and channels-last convolutions and pools."""

from __future__ import annotations

from tvmrt.compiler.sdk.frontend import (
    NodeContext,
    convolution,
    convolution_window,
    emit_qlinear_conv,
    pool,
    pool_window,
)
from tvmrt.compiler.sdk.graph import Value
from tvmrt.plugins.onnx_microsoft.operators.domain import ms_op
from tvmrt.plugins.onnx_microsoft.operators.matmul import apply_activation

WINDOW = "auto_pad?: text, dilations?: ints, kernel_shape?: ints, pads?: ints, strides?: ints"
_CONV = f"{WINDOW}, group?: int 1.."
_FUSED = "activation?: text, activation_params?: floats"


def channels_first(ctx: NodeContext, x: Value) -> Value:
    rank = len(x.shape)
    return ctx.transpose(x, (0, rank - 1, *range(1, rank - 1)))


def channels_last(ctx: NodeContext, x: Value) -> Value:
    rank = len(x.shape)
    return ctx.transpose(x, (0, *range(2, rank), 1))


def _convolve(ctx: NodeContext, x: Value, w: Value, bias: Value | None) -> Value:
    attrs = convolution_window(ctx, x, w)
    return convolution(ctx, x, w, bias, ctx.attr("group", 1), attrs)


def _apply_activation(ctx: NodeContext, y: Value) -> Value:
    return apply_activation(ctx, y, ctx.attr("activation"), ctx.attr("activation_params", []))


@ms_op(
    "FusedConv",
    takes="x: E=float[*X], w: E[*W], bias?: E[_], z?: E[*Z]",
    attributes=f"{_CONV}, {_FUSED}",
)
def fused_conv(ctx: NodeContext) -> Value:
    y = _convolve(ctx, ctx.required(0), ctx.required(1), ctx.input(2))
    return _apply_activation(ctx, ctx.add_optional(y, ctx.input(3)))


@ms_op("NhwcConv", takes="x: E=float[*X], w: E[*W], bias?: E[_]", attributes=_CONV)
def nhwc_conv(ctx: NodeContext) -> Value:
    """Convolution with channels-last input, output and weights."""
    x, w = (channels_first(ctx, ctx.required(i)) for i in (0, 1))
    return channels_last(ctx, _convolve(ctx, x, w, ctx.input(2)))


@ms_op(
    "NhwcFusedConv",
    takes="x: E=float[*X], w: E[*W], bias?: E[_], z?: E[*Z]",
    attributes=f"{_CONV}, {_FUSED}",
)
def nhwc_fused_conv(ctx: NodeContext) -> Value:
    """Fused convolution with channels-last input and output, and weights in ONNX's layout."""
    x = channels_first(ctx, ctx.required(0))
    y = channels_last(ctx, _convolve(ctx, x, ctx.required(1), ctx.input(2)))
    return _apply_activation(ctx, ctx.add_optional(y, ctx.input(3)))


@ms_op("NhwcMaxPool", takes="x: byte[*X]", attributes=f"{WINDOW}, ceil_mode?: int 0..1")
def nhwc_max_pool(ctx: NodeContext) -> Value:
    x, attrs = pool_window(ctx, channels_first(ctx, ctx.required(0)))
    return channels_last(ctx, pool(ctx, "max_pool", x, attrs)[0])


@ms_op(
    "QLinearConv",
    takes=(
        "x: byte[*X], x_scale: float32[*], x_zero_point: byte[*], w: byte[*W], "
        "w_scale: float32[*], w_zero_point: byte[*], y_scale: float32[*], y_zero_point: byte[*], "
        "bias?: int32[_]"
    ),
    attributes=f"{_CONV}, channels_last?: int 0..1",
)
def qlinear_conv(ctx: NodeContext) -> Value:
    if not ctx.attr("channels_last", 0):
        return emit_qlinear_conv(ctx, ctx.required(0))
    y = emit_qlinear_conv(ctx, channels_first(ctx, ctx.required(0)))
    return channels_last(ctx, y)
