"""Causal depthwise convolution whose state is its last inputs, as in Mamba and Gated DeltaNet."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from tvmrt.compiler.sdk.frontend import NodeContext, convolution, emit_swish
from tvmrt.compiler.sdk.graph import SymInt, Value
from tvmrt.plugins.onnx_microsoft.operators.domain import (
    ms_op,
    reject_inputs,
    require_attribute,
)
from tvmrt.plugins.onnx_microsoft.operators.linear_attention import token_owners

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
    for name, value in _DENSE.items():
        require_attribute(ctx, name, value)
    x, w, past = ctx.required(0), ctx.required(1), ctx.input(3)
    shape, last = x.shape, ctx.attr("channels_last", 0)
    length = (w.shape[2] - 1) * ctx.attr("dilation", 1)
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
        raise ValueError(f"past_state has {past.shape[2]} positions, expected {length}")
    whole = ctx.concat([past, x], 2)
    y = _activate(ctx, _convolve(ctx, whole))
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


def _convolve(ctx: NodeContext, x: Value) -> Value:
    """Convolve each channel of [B, C, S] with its weights, without padding."""
    w, dilation = ctx.required(1), ctx.attr("dilation", 1)
    window = {"strides": (1,), "dilations": (dilation,), "pads_before": (0,), "pads_after": (0,)}
    return convolution(ctx, x, w, ctx.input(2), w.shape[0], window)


def _activate(ctx: NodeContext, y: Value) -> Value:
    return y if ctx.attr("activation", "none") == "none" else emit_swish(ctx, y, 1.0)


@ms_op(
    "VarlenCausalConvWithState",
    takes=(
        "x: E=float[T C], w: E[C 1 K], cumulative_sequence_length: int32[_], bias?: E[C], "
        "initial_state: E[_ C _], capture_count?: int32[_], kernel_delta?: E[T _ _], "
        "previous_mask?: E[T 1]"
    ),
    attributes=(
        "activation?: none|silu|swish, delta_offset?: int, dilation?: int 1.., group_size?: int, "
        "state_update_capacity?: int"
    ),
)
def varlen_causal_conv_with_state(ctx: NodeContext) -> list[Value]:
    """Convolve packed sequences: each tap gathers rows of the tokens or of the initial states."""
    require_attribute(ctx, "state_update_capacity", 0)
    reject_inputs(ctx, kernel_delta=6, previous_mask=7)
    x, w, bounds, state = (ctx.required(i) for i in (0, 1, 2, 4))
    dilation, length = ctx.attr("dilation", 1), (w.shape[2] - 1) * ctx.attr("dilation", 1)
    tokens, channels, count = *x.shape, bounds.shape[0] - 1
    if state.shape != (count, channels, length):
        raise ValueError(f"initial_state is {state.type}, expected {(count, channels, length)}")
    owner = token_owners(ctx, bounds, tokens)
    starts, ends = (ctx.slice_axis(ctx.cast(bounds, "int64"), 0, i, count) for i in (0, 1))
    rows = ctx.reshape(ctx.transpose(state, (0, 2, 1)), (count * length, channels))
    source = _Rows(ctx, ctx.concat([x, rows], 0), tokens, length)
    first = ctx.emit("gather", [starts, owner], axis=0)
    y = None if ctx.input(3) is None else ctx.required(3)
    for tap in range(w.shape[2]):
        local = ctx.emit("sub", [ctx.iota(tokens, (tap + 1 - w.shape[2]) * dilation), first])
        weights = ctx.reshape(ctx.slice_axis(w, 2, tap, 1), (channels,))
        y = ctx.add_optional(ctx.emit("mul", [source.at(local, first, owner), weights]), y)
    ends, starts = (ctx.reshape(v, (count, 1)) for v in (ends, starts))
    local = ctx.emit("add", [ctx.emit("sub", [ends, starts]), ctx.iota(length, -length)])
    final = source.at(local, starts, ctx.reshape(ctx.iota(count), (count, 1)))
    return [_activate(ctx, y), ctx.transpose(final, (0, 2, 1))]


@dataclass
class _Rows:
    """Rows of all tokens, followed by those of ``length`` positions before each sequence."""

    ctx: NodeContext
    table: Value
    tokens: SymInt
    length: int

    def at(self, local: Value, first: Value, owner: Value) -> Value:
        """Gather rows at positions in sequences, which start at the tokens ``first``; positions
        before a sequence are negative."""
        ctx = self.ctx
        token = ctx.emit("add", [local, first])
        before = ctx.emit("mul", [owner, ctx.const(self.length, np.int64)])
        base = ctx.integer_tensor(np.asarray(self.tokens + self.length, object))
        before = ctx.emit("add", [ctx.emit("add", [before, local]), base])
        inside = ctx.emit("greater_equal", [local, ctx.const(0, np.int64)])
        return ctx.emit("gather", [self.table, ctx.emit("where", [inside, token, before])], axis=0)
