"""Causal depthwise convolution whose state is its last inputs, as in Mamba and Gated DeltaNet."""

from __future__ import annotations

from math import prod

from tvmrt.compiler.sdk.frontend import NodeContext, convolution, emit_swish
from tvmrt.compiler.sdk.graph import Value
from tvmrt.plugins.onnx_microsoft.operators.domain import ms_op, require_attributes

_DENSE = {
    "ndim": 1,
    "state_window": 0,
    "state_update_capacity": 0,
    "state_length": 0,
    "state_channels_last": -1,
    "input_channels": 0,
    "input_channel_offset": 0,
}


@ms_op(
    "CausalConvWithState",
    takes="x: E=float[B *X], w: E[C 1 _], bias?: E[C], past_state?: E[B *P]",
    attributes=(
        "activation?: none|silu|swish, channels_last?: int 0..1, dilation?: int 1.., "
        "input_channel_offset?: int, input_channels?: int, ndim?: int, state_channels_last?: int, "
        "state_length?: int, state_update_capacity?: int, state_window?: int"
    ),
)
def causal_conv_with_state(ctx: NodeContext) -> list[Value]:
    require_attributes(ctx, **_DENSE)
    x, w, past = ctx.required(0), ctx.required(1), ctx.input(3)
    shape, last, dilation = x.shape, ctx.attr("channels_last", 0), ctx.attr("dilation", 1)
    length = (w.shape[2] - 1) * dilation
    x = _channels_first(ctx, x, last)
    if x.shape[1] != w.shape[0]:
        raise ValueError(f"{x.shape[1]} channels in the input and {w.shape[0]} in the weights")
    if past is None:
        past = ctx.expand(ctx.like(0, x), (*x.shape[:2], length))
    elif past.type.rank != len(shape):
        raise ValueError(f"past_state is {past.type} for an input of {len(shape)} axes")
    else:
        past = _channels_first(ctx, past, last)
    if past.shape != (*x.shape[:2], length):
        raise ValueError(f"past_state is {past.type}, expected {length} positions of each channel")
    whole = ctx.concat([past, x], 2)
    window = {"strides": (1,), "dilations": (dilation,), "pads_before": (0,), "pads_after": (0,)}
    y = convolution(ctx, whole, w, ctx.input(2), w.shape[0], window)
    if ctx.attr("activation", "none") != "none":
        y = emit_swish(ctx, y, 1.0)
    present = ctx.slice_axis(whole, 2, x.shape[2], length)
    if not last:
        return [y, present]
    back = (ctx.transpose(v, (0, 2, 1)) for v in (y, present))
    return [ctx.reshape(v, (*v.shape[:2], *shape[2:])) for v in back]


def _channels_first(ctx: NodeContext, x: Value, last: int) -> Value:
    """Return [B, C, S]."""
    if not last:
        return x
    return ctx.transpose(ctx.reshape(x, (*x.shape[:2], prod(x.shape[2:]))), (0, 2, 1))
