"""Attention and related operators of language models, composed of matmul, masks and softmax."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from math import sqrt

import numpy as np

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.sizes import SymInt

from .activation import softmax_along
from .context import NodeContext
from .indexing import checked_indices
from .matmul import emit_matmul, emit_scaled_matmul, scale_by
from .registry import onnx_op


@dataclass
class AttentionHeads:
    """Scaled dot-product attention over [B, heads, S, D]. With fewer key heads, consecutive query
    heads share one. ``biases`` are added to the scores [B, heads, S, T] and broadcast.
    ``scaled_last``: scale the scores with their product, not its smaller operand first.
    """

    query: Value
    key: Value
    value: Value
    scale: float
    softcap: float = 0.0
    biases: list[Value] = field(default_factory=list)
    precision: str | None = None
    scaled_last: bool = False

    def attend(self, ctx: NodeContext) -> tuple[Value, list[Value]]:
        """Return the result [B, heads, S, D] and the scores: raw, capped, biased, after softmax."""
        batch, heads, steps, _ = self.query.shape
        shared = self.key.shape[1]
        if heads % shared or self.value.shape[1] != shared:
            raise ValueError(f"{heads} query heads do not share {shared} key heads")
        # the query heads of a key head are further rows of one matmul
        rows = (batch, shared, heads // shared * steps)
        query = ctx.reshape(self.query, (*rows, self.query.shape[3]))
        key = ctx.swap_last_axes(self.key)
        if self.scaled_last:
            raw = scale_by(ctx, emit_matmul(ctx, query, key), self.scale)
        else:
            raw = emit_scaled_matmul(ctx, query, key, self.scale)
        raw = ctx.reshape(raw, (batch, heads, steps, self.key.shape[2]))
        capped = raw
        if self.softcap:
            squashed = ctx.emit("tanh", [scale_by(ctx, raw, 1.0 / self.softcap)])
            capped = scale_by(ctx, squashed, self.softcap)
        biased = reduce(ctx.add_optional, self.biases, capped)
        probabilities = self._softmax(ctx, biased)
        mixed = emit_matmul(ctx, ctx.reshape(probabilities, (*rows, self.key.shape[2])), self.value)
        y = ctx.reshape(mixed, (batch, heads, steps, self.value.shape[3]))
        return y, [raw, capped, biased, probabilities]

    def _softmax(self, ctx: NodeContext, scores: Value) -> Value:
        kind = scores.dtype.name
        as_float = ctx.cast(scores, self.precision or kind)
        probabilities = ctx.cast(softmax_along(ctx, as_float, 3), kind)
        blocked = self._blocked_rows(ctx)
        if blocked is None:
            return probabilities
        return ctx.emit("where", [blocked, ctx.like(0, probabilities), probabilities])

    def _blocked_rows(self, ctx: NodeContext) -> Value | None:
        """Return a mask of the queries that may attend to no key; None if there cannot be any."""
        if not self.biases:
            return None
        total = reduce(ctx.add_optional, self.biases)
        best = ctx.emit("reduce_max", [total], axes=(len(total.shape) - 1,), keepdims=1)
        blocked = ctx.emit("equal", [best, ctx.like(-np.inf, best)])
        return None if blocked.data is not None and not blocked.data.any() else blocked


def mask_to_bias(ctx: NodeContext, allowed: Value, kind: Value, blocked: float = -np.inf) -> Value:
    """Return 0 where the mask allows attention, else ``blocked``."""
    zero = ctx.like(0, kind)
    return ctx.emit("where", [allowed, zero, ctx.like(blocked, kind)])


def split_heads(ctx: NodeContext, x: Value, heads: int) -> Value:
    """Reshape [B, S, heads * D] to [B, heads, S, D]."""
    batch, steps, width = x.shape
    if heads < 1 or width % heads:
        raise ValueError(f"{width} features are not divisible into {heads} heads")
    return ctx.transpose(ctx.reshape(x, (batch, steps, heads, width // heads)), (0, 2, 1, 3))


def join_heads(ctx: NodeContext, x: Value) -> Value:
    """Reshape [B, heads, S, D] to [B, S, heads * D]."""
    batch, heads, steps, width = x.shape
    return ctx.reshape(ctx.transpose(x, (0, 2, 1, 3)), (batch, steps, heads * width))


def append_past(ctx: NodeContext, past: Value | None, now: Value) -> Value:
    return now if past is None else ctx.emit("concat", [past, now], axis=2)


@onnx_op("Attention")
def attention(ctx: NodeContext) -> list[Value]:
    query, key, value = (ctx.required(i) for i in range(3))
    flat = len(query.shape) == 3
    if flat:
        query = split_heads(ctx, query, ctx.attr("q_num_heads", 0))
        key, value = (split_heads(ctx, v, ctx.attr("kv_num_heads", 0)) for v in (key, value))
    past_length = 0 if ctx.input(4) is None else ctx.required(4).shape[2]
    key, value = append_past(ctx, ctx.input(4), key), append_past(ctx, ctx.input(5), value)
    heads = AttentionHeads(
        query,
        key,
        value,
        ctx.attr("scale") or 1.0 / sqrt(query.shape[3]),
        ctx.attr("softcap", 0.0),
        _biases(ctx, query, key.shape[2], past_length),
        {1: "float32", 11: "float64"}.get(ctx.attr("softmax_precision", 0)),
    )
    y, stages = heads.attend(ctx)
    mode = ctx.attr("qk_matmul_output_mode", 0)
    return [join_heads(ctx, y) if flat else y, key, value, stages[mode]]


def _biases(ctx: NodeContext, query: Value, length: SymInt, past: SymInt) -> list[Value]:
    """Return the biases of the scores: mask, causal limit, window and padding."""
    steps, masks = query.shape[2], []
    mask, valid = ctx.input(3), ctx.input(6)
    if mask is not None:
        if mask.dtype.name == "bool":
            mask = mask_to_bias(ctx, mask, query)
        masks.append(_pad_mask(ctx, mask, length))
    if valid is None or ctx.input(4) is not None:
        distance = key_distances(ctx, steps, length, past)
    else:
        offset = ctx.reshape(ctx.cast(valid, "int64"), (valid.type.size, 1, 1, 1))
        distance = ctx.emit("add", [key_distances(ctx, steps, length, -steps), offset])
    left, right = ctx.attr("left_window_size", -1), ctx.attr("right_window_size", -1)
    if ctx.attr("is_causal", 0):
        right = 0
    for op, width, end in (("greater_equal", right, -right), ("less_equal", left, left)):
        if width >= 0:
            allowed = ctx.emit(op, [distance, ctx.const(end, np.int64)])
            masks.append(mask_to_bias(ctx, allowed, query))
    if valid is not None:
        positions = ctx.reshape(ctx.iota(length), (1, 1, 1, length))
        count = ctx.reshape(ctx.cast(valid, "int64"), (valid.type.size, 1, 1, 1))
        masks.append(mask_to_bias(ctx, ctx.emit("less", [positions, count]), query))
    return masks


def _pad_mask(ctx: NodeContext, mask: Value, length: SymInt) -> Value:
    """Pad a mask for fewer keys than there are, so that it blocks the others."""
    missing = length - mask.shape[-1]
    if missing <= 0 or mask.shape[-1] == 1:
        return mask
    return ctx.pad_end(mask, -1, missing, ctx.like(-np.inf, mask))


def key_distances(ctx: NodeContext, steps: SymInt, length: SymInt, past: SymInt) -> Value:
    """Return the distance from each key to each of ``steps`` queries; the first query is at
    position ``past``."""
    queries = ctx.reshape(ctx.iota(steps, past), (steps, 1))
    return ctx.emit("sub", [queries, ctx.reshape(ctx.iota(length), (1, length))])


@onnx_op("RotaryEmbedding")
def rotary_embedding(ctx: NodeContext) -> Value:
    x, cos, sin, positions = ctx.required(0), ctx.required(1), ctx.required(2), ctx.input(3)
    if positions is not None:
        positions = checked_indices(ctx, positions, cos.shape[0])
        cos, sin = (ctx.emit("gather", [v, positions], axis=0) for v in (cos, sin))
    return rotate_heads(ctx, x, cos, sin)


def rotate_heads(
    ctx: NodeContext, x: Value, cos: Value, sin: Value, by_table: bool = False
) -> Value:
    """Rotate the heads of x, [B, heads, S, D] or [B, S, heads * D], as the node's attributes say.
    Without ``rotary_embedding_dim`` whole heads are rotated, or as many features as the tables have
    if ``by_table``."""
    shape = x.shape
    if len(shape) == 4:
        x = ctx.transpose(x, (0, 2, 1, 3))
    else:
        # the tables give the head width if the node does not
        heads = ctx.attr("num_heads", 0) or shape[2] // (2 * cos.shape[-1])
        if heads < 1 or shape[2] % heads:
            raise ValueError(f"{shape[2]} features are not divisible into {heads} heads")
        x = ctx.reshape(x, (*shape[:2], heads, shape[2] // heads))
    width = ctx.attr("rotary_embedding_dim", 0) or (2 * cos.shape[-1] if by_table else x.shape[3])
    y = rotate_features(ctx, x, cos, sin, width, bool(ctx.attr("interleaved", 0)))
    return ctx.transpose(y, (0, 2, 1, 3)) if len(shape) == 4 else ctx.reshape(y, shape)


def rotate_features(
    ctx: NodeContext, x: Value, cos: Value, sin: Value, width: int, interleaved: bool
) -> Value:
    """Rotate the first ``width`` features of each head of x, [B, S, heads, D], by angles with
    cosines and sines [B or 1, S, width / 2]. ``interleaved``: pairs are adjacent features."""
    turning, remaining = ctx.slice_axis(x, 3, 0, width), x.shape[3] - width
    if cos.shape[-1] * 2 != width or len(cos.shape) != 3:
        raise ValueError(f"cosines {cos.type} do not rotate {width} features")
    cos, sin = (ctx.reshape(v, (*v.shape[:2], 1, v.shape[2])) for v in (cos, sin))
    if interleaved:
        first, second = (ctx.slice_axis(turning, 3, i, width // 2, 2) for i in (0, 1))
    else:
        first, second = (ctx.slice_axis(turning, 3, i * width // 2, width // 2) for i in (0, 1))
    real = _rotate_pairs(ctx, "sub", (cos, first), (sin, second))
    imaginary = _rotate_pairs(ctx, "add", (sin, first), (cos, second))
    parts = [real, imaginary]
    if interleaved:
        pairs = [ctx.reshape(v, (*v.shape, 1)) for v in parts]
        parts = [ctx.reshape(ctx.emit("concat", pairs, axis=4), turning.shape)]
    if remaining:
        parts.append(ctx.slice_axis(x, 3, width, remaining))
    return ctx.concat(parts, 3)


def _rotate_pairs(
    ctx: NodeContext, op: str, a: tuple[Value, Value], b: tuple[Value, Value]
) -> Value:
    """Return a0 * a1 op b0 * b1."""
    return ctx.emit(op, [ctx.emit("mul", list(a)), ctx.emit("mul", list(b))])
