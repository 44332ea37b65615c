"""Fused attention of onnxruntime: projections, masks and caches are operands of one node."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from tvmrt.compiler.sdk.frontend import (
    AttentionHeads,
    NodeContext,
    append_past,
    dequantize_accumulator,
    emit_matmul,
    integer_matmul,
    join_heads,
    key_distances,
    mask_to_bias,
    split_heads,
)
from tvmrt.compiler.sdk.graph import SymInt, Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.onnx_microsoft.operators.domain import ms_op, reject_inputs, require_attributes

_SCORES = "mask_filter_value?: float, num_heads: int 1.., scale?: float"
_PACKED = (
    f"{_SCORES}, do_rotary?: int, past_present_share_buffer?: int, "
    "rotary_embedding_dim?: int, unidirectional?: int 0..1"
)


def scale_of(ctx: NodeContext, query: Value) -> float:
    return ctx.attr("scale") or 1.0 / sqrt(query.shape[3])


@ms_op(
    "Attention",
    takes=(
        "x: E=float[B S C], weights: E[C _], bias?: E[_], mask?: int32[*M], past?: E[2 B _ _ _], "
        "attention_bias?: E[_ _ _ _], past_length?: int32[*]"
    ),
    attributes=f"{_PACKED}, qkv_hidden_sizes?: ints[3]",
)
def packed_attention(ctx: NodeContext) -> list[Value]:
    """Attention that projects its input itself, to concatenated query, key and value."""
    packed = ctx.add_optional(emit_matmul(ctx, ctx.required(0), ctx.required(1)), ctx.input(2))
    return _attend_packed(ctx, packed, ctx.input(3), ctx.input(4), ctx.input(5))


@ms_op(
    "QAttention",
    takes=(
        "x: byte[B S C], weights: byte[C _], bias: E=float[_], x_scale: E[*], "
        "weight_scale: E[*], mask?: int32[*M], x_zero_point?: byte[*], "
        "weight_zero_point?: byte[*], past?: E[2 B _ _ _]"
    ),
    attributes=_PACKED,
)
def q_attention(ctx: NodeContext) -> list[Value]:
    """Attention with an int8 projection; the rest is computed in float32."""
    accumulators = integer_matmul(ctx, ctx.required(0), ctx.required(1), ctx.input(6), ctx.input(7))
    packed = dequantize_accumulator(
        ctx, accumulators, ctx.required(3), ctx.required(4), ctx.required(2)
    )
    return _attend_packed(ctx, packed, ctx.input(5), ctx.input(8), None)


def _attend_packed(ctx: NodeContext, packed: Value, mask, past, attention_bias) -> list[Value]:
    require_attributes(ctx, do_rotary=0, past_present_share_buffer=0)
    count = ctx.attr("num_heads")
    sizes = ctx.attr("qkv_hidden_sizes") or [packed.shape[2] // 3] * 3
    if sum(sizes) != packed.shape[2]:
        raise ValueError(
            f"query, key and value sizes {sizes} do not add up to {packed.shape[2]} features"
        )
    query, key, value = (split_heads(ctx, v, count) for v in split_features(ctx, packed, sizes))
    if past is not None:
        before = [ctx.element(past, 0, i) for i in (0, 1)]
        key, value = append_past(ctx, before[0], key), append_past(ctx, before[1], value)
    y, _ = _attend(ctx, query, key, value, mask, attention_bias, key.shape[2] - query.shape[2])
    if len(ctx.node.output) < 2 or not ctx.node.output[1]:
        return [y]
    if key.type != value.type:
        raise UnsupportedError(f"keys {key.type} and values {value.type} in one tensor")
    both = [ctx.unsqueeze(v, 0) for v in (key, value)]
    return [y, ctx.emit("concat", both, axis=0)]


def split_features(ctx: NodeContext, packed: Value, sizes: Sequence[SymInt]) -> list[Value]:
    """Return query, key and value of concatenated features [B, S, _]."""
    return [ctx.slice_axis(packed, 2, sum(sizes[:i]), size) for i, size in enumerate(sizes)]


def _attend(
    ctx: NodeContext, query: Value, key: Value, value: Value, mask: Value | None,
    attention_bias: Value | None, past: SymInt | None, biases: Sequence[Value] = (),
) -> tuple[Value, Value]:  # fmt: skip
    """Return the result [B, S, heads * D], and the scaled scores. ``past``: the number of keys
    before those of the queries, for attributes that ask for causal order; ``biases``: further
    ones."""
    biases = [*biases, *([] if attention_bias is None else [attention_bias])]
    if mask is not None:
        biases.append(_key_mask(ctx, mask, query, key.shape[2]))
    if past is not None and ctx.attr("unidirectional", 0):
        biases.append(_causal_mask(ctx, query, key.shape[2], past))
    heads = AttentionHeads(query, key, value, scale_of(ctx, query), biases=biases, scaled_last=True)
    y, stages = heads.attend(ctx)
    return join_heads(ctx, y), stages[0]


@ms_op(
    "MultiHeadAttention",
    takes=(
        "query: E=float[*Q{3..5}], key?: E[*K{3..5}], value?: E[*V{3..4}], bias?: E[_], "
        "key_padding_mask?: int32[*M], attention_bias?: E[_ _ _ _], past_key?: E[_ _ _ _], "
        "past_value?: E[_ _ _ _], past_length?: int32[*], cache_indirection?: int32[_ _ _]"
    ),
    attributes=f"{_SCORES}, unidirectional?: int 0..1",
)
def multi_head_attention(ctx: NodeContext) -> list[Value]:
    reject_inputs(ctx, past_sequence_length=8, cache_indirection=9)
    query, key, value = _split_projections(ctx, ctx.attr("num_heads"), ctx.input(3))
    past = 0 if ctx.input(6) is None else ctx.required(6).shape[2]
    key, value = append_past(ctx, ctx.input(6), key), append_past(ctx, ctx.input(7), value)
    y, scores = _attend(ctx, query, key, value, ctx.input(4), ctx.input(5), past)
    return [y, key, value, scores]


@ms_op(
    "DecoderMaskedMultiHeadAttention",
    takes=(
        "query: E=float[B 1 _], key?: E[*K{3..4}], value?: E[*V{3..4}], mask?: int32[B _], "
        "attention_bias?: E[_ _ _ _], past_key?: E[_ _ _ _], past_value?: E[_ _ _ _], "
        "past_length?: int32[*], beam_width?: int32[*], cache_indirection?: int32[_ _ _], "
        "bias?: E[_]"
    ),
    attributes=f"{_SCORES}, output_qk?: int, past_present_share_buffer?: int",
)
def decoder_masked_multi_head_attention(ctx: NodeContext) -> list[Value]:
    """Attention with one query per sequence; a shared buffer has space for future keys."""
    reject_inputs(ctx, beam_width=8, cache_indirection=9)
    query, key, value = _split_projections(ctx, ctx.attr("num_heads"), ctx.input(10))
    attention_bias, mask = ctx.input(4), ctx.input(3)
    biases: list[Value] = []
    across = ctx.input(1) is not None and len(ctx.required(1).shape) == 4
    if ctx.attr("past_present_share_buffer", 0) and not across:
        at = ctx.input(7)
        if at is None or ctx.input(5) is None:
            raise ValueError("a shared buffer needs past_key and past_sequence_length")
        at = ctx.reshape(ctx.cast(at, "int64"), (1, 1, 1, 1))
        key = write_cache_row(ctx, ctx.required(5), key, at)
        value = write_cache_row(ctx, ctx.required(6), value, at)
        positions = ctx.reshape(ctx.iota(key.shape[2]), (1, 1, 1, key.shape[2]))
        there = ctx.emit("less_equal", [positions, at])
        biases.append(mask_to_bias(ctx, there, query))
        attention_bias, mask = (
            None if v is None else pad_to_length(ctx, v, key.shape[2])
            for v in (attention_bias, mask)
        )
    else:
        key, value = append_past(ctx, ctx.input(5), key), append_past(ctx, ctx.input(6), value)
    mask = None if across else mask
    y, scores = _attend(ctx, query, key, value, mask, attention_bias, None, biases)
    return [y, key, value, scores]


def pad_to_length(ctx: NodeContext, x: Value, length: SymInt) -> Value:
    """Zero-pad a tensor over keys to the length of a cache with unused space."""
    missing = length - x.shape[-1]
    if missing == 0:
        return x
    if missing < 0:
        raise ValueError(f"{x.type} has more keys than the maximum, {length}")
    return ctx.pad_end(x, -1, missing, ctx.like(0, x))


def write_cache_row(ctx: NodeContext, buffer: Value, now: Value, at: Value) -> Value:
    """Return the buffer [B, heads, T, D] with row ``at`` replaced by ``now`` [B, heads, 1, D]."""
    length = buffer.shape[2]
    positions = ctx.reshape(ctx.iota(length), (1, 1, length, 1))
    return ctx.emit("where", [ctx.emit("equal", [positions, at]), now, buffer])


def _split_projections(
    ctx: NodeContext, count: int, bias: Value | None
) -> tuple[Value, Value, Value]:
    """Return query, key and value as [B, heads, S, D] from any packing that nodes may use."""
    query, key = ctx.required(0), ctx.input(1)
    if key is None and len(query.shape) == 5:
        # [B, S, heads, 3, D]
        parts = [_unpack_heads(ctx, query, i) for i in range(3)]
    elif key is None:
        # [B, S, 3 * heads * D]
        thirds = split_features(ctx, query, [query.shape[2] // 3] * 3)
        parts = [split_heads(ctx, v, count) for v in thirds]
    elif len(key.shape) == 5:
        # [B, S, heads, 2, D]
        parts = [split_heads(ctx, query, count), *(_unpack_heads(ctx, key, i) for i in range(2))]
    elif len(key.shape) == 4:
        parts = [split_heads(ctx, query, count), key, ctx.required(2)]
    else:
        parts = [split_heads(ctx, v, count) for v in (query, key, ctx.required(2))]
    if bias is not None:
        across = key is not None and len(key.shape) == 4
        sizes = [v.shape[1] * v.shape[3] for v in parts]
        # cached keys and values already include their bias
        for i, part in enumerate(parts[:1] if across else parts):
            row = ctx.slice_axis(bias, 0, sum(sizes[:i]), sizes[i])
            row = ctx.reshape(row, (part.shape[1], 1, part.shape[3]))
            parts[i] = ctx.emit("add", [part, row])
    return tuple(parts)


def _unpack_heads(ctx: NodeContext, x: Value, index: int) -> Value:
    return ctx.transpose(ctx.element(x, 3, index), (0, 2, 1, 3))


def _causal_mask(ctx: NodeContext, query: Value, length: SymInt, past: SymInt) -> Value:
    distance = key_distances(ctx, query.shape[2], length, past)
    return mask_to_bias(ctx, ctx.emit("greater_equal", [distance, ctx.const(0, np.int64)]), query)


def _key_mask(ctx: NodeContext, mask: Value, query: Value, length: SymInt) -> Value:
    """Return a bias from a mask of keys [B, T] or [B, S, T], from the end of the valid keys [B], or
    from their end and start [2 * B]."""
    batch = query.shape[0]
    if mask.shape in ((batch,), (2 * batch,)):
        positions = ctx.reshape(ctx.cast(ctx.iota(length), "int32"), (1, 1, 1, length))
        ends = ctx.reshape(ctx.slice_axis(mask, 0, 0, batch), (batch, 1, 1, 1))
        allowed = ctx.emit("less", [positions, ends])
        if mask.shape != (batch,):
            starts = ctx.reshape(ctx.slice_axis(mask, 0, batch, batch), (batch, 1, 1, 1))
            allowed = ctx.emit(
                "logical_and", [allowed, ctx.emit("greater_equal", [positions, starts])]
            )
    elif len(mask.shape) in (2, 3) and mask.shape[-1] == length:
        middle = (1, 1) if len(mask.shape) == 2 else (1, mask.shape[1])
        allowed = ctx.reshape(mask, (mask.shape[0], *middle, length))
        allowed = ctx.emit("greater", [allowed, ctx.const(0, np.int32)])
    else:
        raise UnsupportedError(f"a key mask of shape {list(mask.shape)}")
    return mask_to_bias(ctx, allowed, query, ctx.attr("mask_filter_value", -10000.0))
