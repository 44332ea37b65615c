"""Routing of tokens to experts, mixing of residual streams, and n-grams of tokens."""

from __future__ import annotations

from math import sqrt

import numpy as np

from tvmrt.compiler.sdk.frontend import (
    NodeContext,
    emit_matmul,
    retype,
    rms_normalize,
    scale_by,
)
from tvmrt.compiler.sdk.graph import SourceType, Value
from tvmrt.plugins.onnx_microsoft.operators.domain import ms_op


@ms_op(
    "MoEGroupRouter",
    takes="logits: E=float[*X], expert_bias: float32[N], projection_weight?: E[N _]",
    attributes=(
        "group_topk?: int 1.., n_group?: int 1.., router_sentinel?: float, top_k: int 1.., "
        "topk_group?: int 1.."
    ),
)
def moe_group_router(ctx: NodeContext) -> list[Value]:
    """Choose experts from the groups with the largest sums; others get the sentinel."""
    logits, bias = ctx.required(0), ctx.required(1)
    experts, groups, k = bias.shape[0], ctx.attr("n_group", 1), ctx.attr("top_k")
    active = ctx.attr("topk_group", 1)
    if ctx.input(2) is not None:
        logits = emit_matmul(ctx, logits, ctx.swap_last_axes(ctx.required(2)))
    if experts % groups or active > groups or k > experts // groups * active:
        raise ValueError(
            f"top_k={k} of {experts} experts in {active} (topk_group) of {groups} groups (n_group)"
        )
    scores = ctx.emit("sigmoid", [ctx.cast(logits, "float32")])
    scores = ctx.reshape(scores, (logits.type.size // experts, experts))
    biased = ctx.emit("add", [scores, bias])
    candidates = biased
    if active < groups:
        by_group = ctx.reshape(biased, (scores.shape[0], groups, experts // groups))
        best = min(ctx.attr("group_topk", 2), experts // groups)
        values, _ = ctx.emit_many("topk", [by_group], k=best, axis=2, largest=1)
        sums = ctx.emit("reduce_sum", [values], axes=(2,), keepdims=0)
        chosen = ctx.unsqueeze(_mask_of_largest(ctx, sums, active), 2)
        by_group = ctx.emit("where", [chosen, by_group, ctx.like(-np.inf, by_group)])
        candidates = ctx.reshape(by_group, biased.shape)
    chosen = _mask_of_largest(ctx, candidates, k)
    logarithm = ctx.emit("log", [ctx.clamp(scores, 1e-20, None)])
    sentinel = ctx.like(ctx.attr("router_sentinel", -10000.0), scores)
    routed = ctx.emit("where", [chosen, logarithm, sentinel])
    return [ctx.cast(routed, logits.dtype.name), *(_float32(v) for v in (biased, scores))]


def _float32(x: Value) -> Value:
    """Give a result the type float32 also in a node of half precision."""
    return retype(x, SourceType("float32"))


def _mask_of_largest(ctx: NodeContext, x: Value, k: int) -> Value:
    """Return whether each element is one of the k largest of its row."""
    _, indices = ctx.emit_many("topk", [x], k=k, axis=1, largest=1)
    columns = ctx.reshape(ctx.iota(x.shape[1]), (1, 1, x.shape[1]))
    chosen = ctx.emit("equal", [ctx.unsqueeze(indices, 2), columns])
    return ctx.cast(
        ctx.emit("reduce_max", [ctx.cast(chosen, "int32")], axes=(1,), keepdims=0), "bool"
    )


@ms_op(
    "HyperConnectionPreMix",
    takes="streams: E=float[*X], pre_mix: float[*]",
    attributes="num_branches?: int 0.., reduction_scale?: float",
)
def hyper_connection_pre_mix(ctx: NodeContext) -> Value:
    streams = _streams(ctx)
    terms = ctx.emit("mul", [streams, _gate(ctx, 1, streams)])
    axis = len(streams.shape) - 2
    y = ctx.emit("reduce_sum", [terms], axes=(axis,), keepdims=0)
    return scale_by(ctx, y, ctx.attr("reduction_scale", 1.0))


@ms_op(
    "HyperConnectionPostMix",
    takes="streams: E=float[*X], block_output: E[*], post_mix: float[*], stream_mix?: float[*]",
    attributes="num_branches?: int 0..",
)
def hyper_connection_post_mix(ctx: NodeContext) -> Value:
    streams, block, mix = _streams(ctx), ctx.required(1), ctx.input(3)
    axis = len(streams.shape) - 2
    added = ctx.emit("mul", [ctx.unsqueeze(block, axis), _gate(ctx, 2, streams)])
    if mix is not None:
        mix = ctx.swap_last_axes(ctx.cast(mix, streams.dtype.name))
        streams = emit_matmul(ctx, mix, streams)
    return ctx.reshape(ctx.emit("add", [streams, added]), ctx.required(0).shape)


def _streams(ctx: NodeContext) -> Value:
    """Return the streams [..., C, H]."""
    x, branches = ctx.required(0), ctx.attr("num_branches", 0)
    if not branches:
        return x
    if x.shape[-1] % branches:
        raise ValueError(f"{x.shape[-1]} features are not divisible into {branches} streams")
    return ctx.reshape(x, (*x.shape[:-1], branches, x.shape[-1] // branches))


def _gate(ctx: NodeContext, index: int, streams: Value) -> Value:
    """Return an input with one number for each stream or feature, as [..., C, 1 or H]."""
    gate = ctx.cast(ctx.required(index), streams.dtype.name)
    *lead, count, width = streams.shape
    shapes = [(*lead, count), (*lead, count, 1), streams.shape, (*lead, count * width)]
    if gate.shape not in shapes:
        raise ValueError(f"input {index} is {gate.type} for streams of {tuple(streams.shape)}")
    each = 1 if gate.shape in shapes[:2] else width
    return ctx.reshape(gate, (*lead, count, each))


@ms_op(
    "EngramGate",
    takes=(
        "key: E=float[*X C H], query: E[*X C H], value: E[*X H], key_norm_scale: E[C H], "
        "query_norm_scale: E[C H], conv_norm_scale?: E[C H]"
    ),
    attributes="epsilon?: float 0..",
)
def engram_gate(ctx: NodeContext) -> list[Value | None]:
    key, query, value, scale = ctx.required(0), ctx.required(1), ctx.required(2), ctx.input(5)
    last = len(key.shape) - 1

    def normalize(x: Value, scale: Value) -> Value:
        return ctx.emit("mul", [rms_normalize(ctx, x, [last], ctx.attr("epsilon", 1e-5))[0], scale])

    terms = ctx.emit("mul", [normalize(key, ctx.required(3)), normalize(query, ctx.required(4))])
    dot = ctx.emit("reduce_sum", [terms], axes=(last,), keepdims=1)
    dot = scale_by(ctx, dot, 1.0 / sqrt(key.shape[last]))
    root = ctx.emit("sqrt", [ctx.clamp(ctx.emit("abs", [dot]), 1e-6, None)])
    gate = ctx.emit("sigmoid", [ctx.emit("mul", [ctx.emit("sign", [dot]), root])])
    y = ctx.emit("mul", [gate, ctx.unsqueeze(value, last - 1)])
    return [y, None if scale is None else normalize(y, scale)]


@ms_op(
    "NGramHashMapping",
    takes=(
        "input_ids: M=int32|int64[B S], multipliers: M[_], vocab_sizes: M[V], past_ids?: M[B _], "
        "head_offsets?: M[V], eos_token_id?: M[*], segment_ids?: int32[B S]"
    ),
    attributes=(
        "max_ngram_size: int 2.., n_head_per_ngram: int 1.., pad_id: int, reset_on_eos?: int"
    ),
)
def ngram_hash_mapping(ctx: NodeContext) -> list[Value]:
    """Return a hash for each head of each n-gram order, and the last tokens for the next call."""
    ids, past, size = ctx.required(0), ctx.input(3), ctx.attr("max_ngram_size")
    batch, steps, heads = *ids.shape, ctx.attr("n_head_per_ngram")
    if ctx.required(2).shape[0] != (size - 1) * heads or ctx.required(1).shape[0] < size:
        raise ValueError(f"max_ngram_size={size} does not fit vocab_sizes or multipliers")
    end = ctx.input(5)
    filler = ctx.like(ctx.attr("pad_id"), ids) if end is None else ctx.reshape(end, ())
    if past is None:
        past = ctx.expand(ctx.reshape(filler, (1, 1)), (batch, size - 1))
    tokens = ctx.concat([past, ids], 1)
    shifted = [ctx.slice_axis(tokens, 1, size - 1 - i, steps) for i in range(size)]
    resets = _resets(ctx, shifted, end)
    parts, total, blocked = [], None, None
    for i in range(size):
        token = shifted[i]
        if i and resets[i] is not None:
            blocked = resets[i] if blocked is None else ctx.emit("logical_or", [blocked, resets[i]])
            token = ctx.emit("where", [blocked, filler, token])
        term = ctx.emit("mul", [token, ctx.element(ctx.required(1), 0, i)])
        total = term if total is None else ctx.emit("bit_xor", [total, term])
        if i:
            parts.append(_hashes(ctx, total, (i - 1) * heads, heads))
    present = ctx.slice_axis(tokens, 1, steps, size - 1)
    return [ctx.concat(parts, 2), present]


def _hashes(ctx: NodeContext, total: Value, start: int, heads: int) -> Value:
    """Return the number modulo the vocabulary size of each head, plus the offset of the head."""
    sizes = ctx.slice_axis(ctx.required(2), 0, start, heads)
    hashes = ctx.emit("floor_mod", [ctx.unsqueeze(total, 2), sizes])
    offsets = ctx.input(4)
    return ctx.add_optional(hashes, offsets and ctx.slice_axis(offsets, 0, start, heads))


def _resets(ctx: NodeContext, shifted: list[Value], end: Value | None) -> list[Value | None]:
    """Return for each shift where a text ends at that token, or a segment starts after it."""
    segments, resets = ctx.input(6), [None] * len(shifted)
    if end is not None and ctx.attr("reset_on_eos", 0):
        resets = [ctx.emit("equal", [token, ctx.reshape(end, ())]) for token in shifted]
    if segments is None:
        return resets
    batch, steps = segments.shape
    first = ctx.expand(ctx.slice_axis(segments, 1, 0, 1), (batch, len(shifted)))
    padded = ctx.concat([first, segments], 1)
    for i in range(1, len(shifted)):
        ends = [ctx.slice_axis(padded, 1, len(shifted) - i + k, steps) for k in (0, 1)]
        same = ctx.emit("equal", ends)
        starts = ctx.emit("logical_not", [same])
        resets[i] = starts if resets[i] is None else ctx.emit("logical_or", [resets[i], starts])
    return resets
