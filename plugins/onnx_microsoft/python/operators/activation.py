"""Activations with fused biases and gates."""

from __future__ import annotations

from tvmrt.compiler.sdk.frontend import NodeContext, emit_gelu, emit_swish, scale_by, softmax_along
from tvmrt.compiler.sdk.graph import Value, normalize_axis
from tvmrt.plugins.onnx_microsoft.operators.domain import ms_op, require_attributes

_BIASED = "x: E=float[*X], bias?: E[_]"


def _add_bias(ctx: NodeContext) -> Value:
    return ctx.add_optional(ctx.required(0), ctx.input(1))


@ms_op("Gelu", takes="x: float[*X]")
def gelu(ctx: NodeContext) -> Value:
    return emit_gelu(ctx, ctx.required(0))


@ms_op("BiasGelu", takes="x: E=float[*X], bias: E[_]")
def bias_gelu(ctx: NodeContext) -> Value:
    return emit_gelu(ctx, _add_bias(ctx))


@ms_op("FastGelu", takes=_BIASED)
def fast_gelu(ctx: NodeContext) -> Value:
    return emit_gelu(ctx, _add_bias(ctx), tanh=True)


@ms_op("QuickGelu", takes="x: float[*X]", attributes="alpha?: float")
def quick_gelu(ctx: NodeContext) -> Value:
    return emit_swish(ctx, ctx.required(0), ctx.attr("alpha", 1.702))


@ms_op("ScaledSiLU", takes="x: float[*X], scale?: float[*]", attributes="alpha?: float")
def scaled_silu(ctx: NodeContext) -> Value:
    """Compute z * sigmoid(z) of the scaled input z."""
    x, scale = ctx.required(0), ctx.input(1)
    if scale is None:
        x = scale_by(ctx, x, ctx.attr("alpha", 1.0))
    else:
        x = ctx.emit("mul", [x, ctx.reshape(scale, ())])
    return emit_swish(ctx, x, 1.0)


@ms_op("GatedAdd", takes="x: E=float[*X], y: E[*X], gate: E[*]")
def gated_add(ctx: NodeContext) -> Value:
    x, y, gate = (ctx.required(i) for i in range(3))
    return ctx.emit("add", [x, ctx.emit("mul", [y, gate])])


@ms_op("BiasAdd", takes="x: E=float[B S H], bias: E[H], skip: E[B S H]")
def bias_add(ctx: NodeContext) -> Value:
    return ctx.emit("add", [_add_bias(ctx), ctx.required(2)])


@ms_op("BiasSplitGelu", takes="x: E=float[B S H], bias: E[H]")
def bias_split_gelu(ctx: NodeContext) -> Value:
    """Multiply the first half of the features by the GELU of the second half."""
    x = _add_bias(ctx)
    half = x.shape[2] // 2
    first, second = (ctx.slice_axis(x, 2, i * half, half) for i in (0, 1))
    return ctx.emit("mul", [first, emit_gelu(ctx, second)])


@ms_op(
    "BiasSoftmax",
    takes="x: E=float[*X], bias: E[*]",
    attributes="axis?: int, is_inner_broadcast: int 0..1",
)
def bias_softmax(ctx: NodeContext) -> Value:
    require_attributes(ctx, is_inner_broadcast=0)
    x = _add_bias(ctx)
    return softmax_along(ctx, x, normalize_axis(ctx.attr("axis", 1), len(x.shape)))
