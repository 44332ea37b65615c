"""Embedding layer of text networks: table rows, added and normalised."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.frontend import NodeContext, dequantize, gather_rows, normalize_rows
from tvmrt.compiler.sdk.graph import Value
from tvmrt.plugins.onnx_microsoft.operators.domain import ms_op


@ms_op(
    "EmbedLayerNormalization",
    takes=(
        "input_ids: I=index[B S], segment_ids?: I[B S], words: E=float[_ H], positions: E[_ H], "
        "segments?: E[_ H], gamma: E[H], beta: E[H], mask?: I[B S], position_ids?: I[1|B S]"
    ),
    attributes="epsilon?: float 0.., mask_index_type?: int 0..1",
)
def embed_layer_normalization(ctx: NodeContext) -> list[Value]:
    ids = ctx.required(0)
    total = gather_rows(ctx, ctx.required(2), ids)
    total = ctx.emit("add", [total, _positions(ctx, ctx.required(3), ids, ctx.input(8))])
    if ctx.input(1) is not None and ctx.input(4) is not None:
        segments = gather_rows(ctx, ctx.required(4), ctx.required(1))
        total = ctx.emit("add", [total, segments])
    y = _layer_norm(ctx, total, ctx.required(5), ctx.required(6))
    return [y, _count_mask(ctx, ids, ctx.input(7)), total]


def _positions(ctx: NodeContext, table: Value, ids: Value, positions: Value | None) -> Value:
    if positions is not None:
        return gather_rows(ctx, table, positions)
    steps = ids.shape[1]
    if steps > table.shape[0]:
        raise ValueError(f"{steps} positions have no row in a table of {table.shape[0]}")
    return ctx.slice_axis(table, 0, 0, steps)


def _layer_norm(ctx: NodeContext, x: Value, gamma: Value, beta: Value) -> Value:
    return normalize_rows(ctx, x, [2], ctx.attr("epsilon", 1e-12), True, gamma, beta)


def _count_mask(ctx: NodeContext, ids: Value, mask: Value | None) -> Value:
    """Count the ones in each row of the mask."""
    if mask is None:
        return ctx.expand(ctx.const(np.zeros(1, np.int32)), ids.shape[:1])
    ones = ctx.emit("equal", [mask, ctx.like(1, mask)])
    return ctx.emit("reduce_sum", [ctx.cast(ones, "int32")], axes=(1,), keepdims=0)


@ms_op(
    "QEmbedLayerNormalization",
    takes=(
        "input_ids: int32[B S], segment_ids?: int32[B S], words: Q=byte[_ H], positions: Q[_ H], "
        "segments?: Q[_ H], gamma: Q[H], beta: Q[H], mask?: int32[B S], words_scale: float[*], "
        "positions_scale: float[*], segments_scale?: float[*], gamma_scale: float[*], "
        "beta_scale: float[*], words_zero: Q[*], positions_zero: Q[*], segments_zero?: Q[*], "
        "gamma_zero: Q[*], beta_zero: Q[*]"
    ),
    attributes="epsilon?: float 0..",
)
def q_embed_layer_normalization(ctx: NodeContext) -> list[Value]:
    """Embedding with int8 tables; the gathered rows are dequantised."""

    def dequantize_rows(index: int, rows: Value) -> Value:
        return dequantize(ctx, rows, ctx.required(8 + index), ctx.input(13 + index))

    ids = ctx.required(0)
    total = dequantize_rows(0, gather_rows(ctx, ctx.required(2), ids))
    total = ctx.emit(
        "add", [total, dequantize_rows(1, _positions(ctx, ctx.required(3), ids, None))]
    )
    if ctx.input(1) is not None:
        total = ctx.emit(
            "add", [total, dequantize_rows(2, gather_rows(ctx, ctx.required(4), ctx.required(1)))]
        )
    y = _layer_norm(
        ctx, total, dequantize_rows(3, ctx.required(5)), dequantize_rows(4, ctx.required(6))
    )
    return [y, _count_mask(ctx, ids, ctx.input(7))]
