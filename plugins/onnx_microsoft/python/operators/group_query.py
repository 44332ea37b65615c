"""GroupQueryAttention: attention of language models over a cache of keys and values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvmrt.compiler.sdk.frontend import (
    AttentionHeads,
    NodeContext,
    gather_rows,
    join_heads,
    mask_to_bias,
    rotate_features,
    softmax_along,
    split_heads,
)
from tvmrt.compiler.sdk.graph import SymInt, Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.onnx_microsoft.operators.attention import (
    pad_to_length,
    scale_of,
    split_features,
    write_cache_row,
)
from tvmrt.plugins.onnx_microsoft.operators.block_quantized import emit_unpack
from tvmrt.plugins.onnx_microsoft.operators.domain import ms_op, reject_inputs, require_attributes


@dataclass
class _SinkHeads(AttentionHeads):
    """Softmax with an attention sink: exp(``sink``), [heads] or [], is added to the sum."""

    sink: Value | None = None

    def _softmax(self, ctx: NodeContext, scores: Value) -> Value:
        if self.sink is None:
            return super()._softmax(ctx, scores)
        batch, heads, steps, length = scores.shape
        column = ctx.reshape(self.sink, (1, self.sink.type.size, 1, 1))
        column = ctx.expand(column, (batch, heads, steps, 1))
        with_sink = ctx.emit("concat", [column, scores], axis=3)
        return ctx.slice_axis(softmax_along(ctx, with_sink, 3), 3, 1, length)


@dataclass
class _CacheFormat:
    """Quantisation of the cached keys or values [B, heads, T, D]: ``scale`` broadcasts, None stores
    them as they are. Integers of 4 bits are pairs in bytes, the first in the low bits."""

    scale: Value | None
    bits: int

    @staticmethod
    def of(ctx: NodeContext, which: str, index: int) -> _CacheFormat:
        """Return the format of the keys ("k") or values, whose scale is input ``index``."""
        kind, bits = ctx.attr(f"{which}_quant_type", "NONE"), ctx.attr("kv_cache_bit_width", 8)
        if kind == "NONE":
            if ctx.input(index) is not None:
                raise ValueError(f"input {index} is given, but {which}_quant_type is NONE")
            return _CacheFormat(None, bits)
        if bits not in (4, 8):
            raise UnsupportedError(f"attribute kv_cache_bit_width is {bits}; 4 and 8 are supported")
        scale, heads = ctx.required(index), ctx.attr("kv_num_heads")
        heads = 1 if kind == "PER_TENSOR" else heads
        if (scale.type.size == 1) != (kind == "PER_TENSOR") or scale.type.size % heads:
            raise ValueError(f"input {index} is {scale.type} for {which}_quant_type={kind}")
        return _CacheFormat(ctx.reshape(scale, (1, heads, 1, scale.type.size // heads)), bits)

    def quantize(self, ctx: NodeContext, x: Value) -> Value:
        if self.scale is None:
            return x
        limit = 1 << (self.bits - 1)
        whole = ctx.emit("round", [ctx.emit("div", [x, self.scale])])
        whole = ctx.clamp(whole, -limit, limit - 1)
        if self.bits == 8:
            return ctx.cast(whole, "int8")
        bytes = ctx.cast(ctx.emit("add", [whole, ctx.like(limit, whole)]), "uint8")
        low, high = (ctx.slice_axis(bytes, 3, i, x.shape[3] // 2, 2) for i in (0, 1))
        return ctx.emit("bit_or", [low, ctx.emit("shift_left", [high, ctx.like(4, high)])])

    def dequantize(self, ctx: NodeContext, cache: Value) -> Value:
        if self.scale is None:
            return cache
        numbers = cache if self.bits == 8 else emit_unpack(ctx, cache, 4)
        numbers = ctx.cast(numbers, "float32")
        if self.bits == 4:
            numbers = ctx.emit("sub", [numbers, ctx.like(8, numbers)])
        return ctx.emit("mul", [numbers, self.scale])


@ms_op(
    "GroupQueryAttention",
    takes=(
        "query: E=float[B S _], key?: E[B _ _], value?: E[B _ _], past_key?: any[B _ _ _], "
        "past_value?: any[B _ _ _], seqlens_k: int32[*], total_sequence_length: int32[*], "
        "cos_cache?: E[M W], sin_cache?: E[M W], position_ids?: int64[*], "
        "attention_bias?: E[_ _ _ _], head_sink?: E[_], k_scale?: float[*], v_scale?: float[*], "
        "q_norm_weight?: E[_], k_norm_weight?: E[_]"
    ),
    attributes=(
        "causal?: int 0..1, do_rotary?: int 0..1, k_quant_type?: NONE|PER_TENSOR|PER_CHANNEL, "
        "kv_cache_bit_width?: int, "
        "kv_num_heads: int 1.., local_window_size?: int -1.., num_heads: int 1.., "
        "qk_norm_epsilon?: float, qk_output?: int 0..2, rotary_interleaved?: int 0..1, "
        "scale?: float, sliding_window_cache?: int 0..1, smooth_softmax?: int -1..1, "
        "softcap?: float, v_quant_type?: NONE|PER_TENSOR|PER_CHANNEL"
    ),
)
def group_query_attention(ctx: NodeContext) -> list[Value]:
    require_attributes(ctx, sliding_window_cache=0, qk_output=0)
    reject_inputs(ctx, q_norm_weight=14, k_norm_weight=15)
    query, key, value = _parts(ctx)
    batch, _, steps, _ = query.shape
    if ctx.required(5).type.size != batch:
        raise ValueError(f"{ctx.required(5).type.size} lengths for a batch of {batch}")
    ends = ctx.reshape(ctx.cast(ctx.required(5), "int64"), (batch, 1))
    ends = ctx.emit("add", [ends, ctx.const(1, np.int64)])
    length, fresh = _cache_length(ctx, steps)
    start = None if fresh else _starts(ctx, ends, steps)
    # position of each query, [B or 1, S]
    positions = ctx.reshape(ctx.iota(steps), (1, steps))
    positions = positions if start is None else ctx.emit("add", [positions, start])
    if ctx.attr("do_rotary", 0):
        query, key = (_rotate(ctx, v, positions) for v in (query, key))
    stores = [_CacheFormat.of(ctx, which, i) for which, i in (("k", 12), ("v", 13))]
    caches = [
        _update_cache(ctx, ctx.input(i), store.quantize(ctx, now), start, length)
        for i, store, now in zip((3, 4), stores, (key, value))
    ]
    key, value = (store.dequantize(ctx, cache) for store, cache in zip(stores, caches))
    heads = _SinkHeads(
        query,
        key,
        value,
        scale_of(ctx, query),
        ctx.attr("softcap", 0.0),
        _biases(ctx, query, positions, ends, length),
        scaled_last=True,
        sink=_sink(ctx, query),
    )
    y, _ = heads.attend(ctx)
    return [join_heads(ctx, y), *caches]


def _parts(ctx: NodeContext) -> tuple[Value, Value, Value]:
    """Return query, key and value as [B, heads, S, D], from one packed or three tensors."""
    query, key, value = ctx.required(0), ctx.input(1), ctx.input(2)
    count, shared = ctx.attr("num_heads"), ctx.attr("kv_num_heads")
    if count % shared:
        raise ValueError(f"{count} query heads do not share {shared} key heads")
    if key is None:
        width = query.shape[2] // (count + 2 * shared)
        sizes = [count * width, shared * width, shared * width]
        if sum(sizes) != query.shape[2]:
            raise ValueError(
                f"{query.shape[2]} features are not divisible into {count + 2 * shared} heads"
            )
        query, key, value = split_features(ctx, query, sizes)
    elif value is None:
        raise ValueError("input 2 (value) is missing")
    if key.shape[1] != query.shape[1]:
        raise UnsupportedError(f"{key.shape[1]} new keys for {query.shape[1]} queries")
    return (
        split_heads(ctx, query, count),
        split_heads(ctx, key, shared),
        split_heads(ctx, value, shared),
    )


def _cache_length(ctx: NodeContext, steps: SymInt) -> tuple[SymInt, bool]:
    """Return the length of the resulting cache, and whether no previous keys exist."""
    past = 0 if ctx.input(3) is None else ctx.required(3).shape[2]
    if ctx.is_computed(6):
        declared = _declared_length(ctx)
        if declared is None and past != 0:
            raise UnsupportedError(
                "total_sequence_length is computed at run time; it must be a constant or a "
                "dimension, or the shape of present_key be declared"
            )
        return (steps if declared is None else declared), past == 0
    total = ctx.int_operand(6, "total_sequence_length")[0]
    return (total if total >= past else past), bool(total == steps)


def _declared_length(ctx: NodeContext) -> SymInt | None:
    for name in ctx.node.output[1:3]:
        shape = ctx.importer.declared(name) if name else None
        if shape is not None and len(shape) == 4:
            return shape[2]
    return None


def _starts(ctx: NodeContext, ends: Value, steps: SymInt) -> Value:
    """Return the index of each sequence's first new key, [B, 1]: after the past, or 0 in a first
    prompt, where sequences may be shorter than the batch."""
    count = ctx.reshape(ctx.integer_tensor(np.array([steps], object)), (1, 1))
    starts = ctx.emit("sub", [ends, count])
    return ctx.emit("max", [starts, ctx.const(0, np.int64)])


def _rotate(ctx: NodeContext, x: Value, positions: Value) -> Value:
    given = ctx.input(9)
    if given is not None and given.type.size != 1:
        positions = ctx.reshape(given, (x.shape[0], x.shape[2]))
    elif given is not None:
        positions = ctx.emit("add", [ctx.reshape(given, (1, 1)), ctx.iota(x.shape[2])])
    cos, sin = (gather_rows(ctx, ctx.required(i), positions) for i in (7, 8))
    by_step = ctx.transpose(x, (0, 2, 1, 3))
    interleaved = bool(ctx.attr("rotary_interleaved", 0))
    y = rotate_features(ctx, by_step, cos, sin, 2 * cos.shape[-1], interleaved)
    return ctx.transpose(y, (0, 2, 1, 3))


def _update_cache(
    ctx: NodeContext, past: Value | None, now: Value, start: Value | None, length: SymInt
) -> Value:
    """Return the cache [B, heads, length, D]: the past with the new rows at their index."""
    batch, heads, steps, width = now.shape
    if past is not None and past.dtype != now.dtype:
        raise UnsupportedError(f"a cache of {past.dtype}; only {now.dtype} is supported")
    if start is None and length == steps:
        return now
    cache = _extend_cache(ctx, past, now, length)
    if start is None:
        padding = ctx.slice_axis(cache, 2, steps, length - steps)
        return ctx.emit("concat", [now, padding], axis=2)
    start = ctx.reshape(start, (batch, 1, 1, 1))
    if steps == 1:
        return write_cache_row(ctx, cache, now, start)
    positions = ctx.reshape(ctx.iota(length), (1, 1, length, 1))
    offset = ctx.emit("sub", [positions, start])
    last = ctx.reshape(ctx.integer_tensor(np.array([steps - 1], object)), (1, 1, 1, 1))
    zero = ctx.const(0, np.int64)
    inside = ctx.emit("min", [ctx.emit("max", [offset, zero]), last])
    new = ctx.emit("equal", [inside, offset])
    if batch == 1:
        taken = ctx.emit("gather", [now, ctx.reshape(inside, (length,))], axis=2)
    else:
        with_sink = ctx.expand(inside, (batch, heads, length, width))
        taken = ctx.emit("gather_elements", [now, with_sink], axis=2)
    return ctx.emit("where", [new, taken, cache])


def _extend_cache(ctx: NodeContext, past: Value | None, now: Value, length: SymInt) -> Value:
    """Zero-pad the past to the length of the cache."""
    batch, heads, _, width = now.shape
    past_length = 0 if past is None else past.shape[2]
    if past is not None and past_length == length:
        return past
    zero = ctx.const(np.zeros((1, 1, 1, 1)), now.dtype.numpy)
    padding = ctx.expand(zero, (batch, heads, length - past_length, width))
    return (
        padding if past is None or past_length == 0 else ctx.emit("concat", [past, padding], axis=2)
    )


def _biases(
    ctx: NodeContext, query: Value, positions: Value, ends: Value, length: SymInt
) -> list[Value]:
    """Return the biases of scores [B, heads, S, T]: the given one, and a mask of valid keys."""
    found = [] if ctx.input(10) is None else [pad_to_length(ctx, ctx.required(10), length)]
    keys = ctx.reshape(ctx.iota(length), (1, 1, 1, length))
    window = ctx.attr("local_window_size", -1)
    if not ctx.attr("causal", 1):
        if window != -1:
            raise UnsupportedError("a window of keys without causal order")
        last = ctx.reshape(ends, (ends.shape[0], 1, 1, 1))
        return [*found, mask_to_bias(ctx, ctx.emit("less", [keys, last]), query)]
    at = ctx.reshape(positions, (positions.shape[0], 1, positions.shape[1], 1))
    distance = ctx.emit("sub", [at, keys])
    allowed = ctx.emit("greater_equal", [distance, ctx.const(0, np.int64)])
    if window > 0:
        in_window = ctx.emit("less", [distance, ctx.const(window, np.int64)])
        allowed = ctx.emit("logical_and", [allowed, in_window])
    return [*found, mask_to_bias(ctx, allowed, query)]


def _sink(ctx: NodeContext, query: Value) -> Value | None:
    if ctx.input(11) is not None:
        return ctx.required(11)
    return ctx.like(0, query) if ctx.attr("smooth_softmax", 0) > 0 else None
