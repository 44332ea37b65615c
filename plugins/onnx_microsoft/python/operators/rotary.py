"""Rotary position embedding: rotation of feature pairs by position-dependent angles."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.frontend import NodeContext, gather_rows, rotate_heads
from tvmrt.compiler.sdk.graph import Value
from tvmrt.plugins.onnx_microsoft.operators.domain import ms_op, require_attributes

_ATTRIBUTES = (
    "interleaved?: int 0..1, is_packed_batching?: int 0..1, num_heads?: int 0.., "
    "rotary_embedding_dim?: int 0.., scale?: float"
)


@ms_op(
    "RotaryEmbedding",
    takes="x: E=float[*X{3..4}], position_ids: int64[*P], cos: E[M W], sin: E[M W]",
    attributes=_ATTRIBUTES,
)
def rotary_embedding(ctx: NodeContext) -> Value:
    """Rotate by positions; a single position applies to the first step of every sequence."""
    _reject_unsupported(ctx)
    x, positions = ctx.required(0), ctx.required(1)
    steps = x.shape[1] if len(x.shape) == 3 else x.shape[2]
    if positions.type.size == 1:
        positions = ctx.emit("add", [ctx.reshape(positions, (1, 1)), ctx.iota(steps)])
    tables = (gather_rows(ctx, ctx.required(i), positions) for i in (2, 3))
    return rotate_heads(ctx, x, *tables, by_table=True)


@ms_op(
    "MRotaryEmbedding",
    takes="x: E=float[*X{3..4}], position_ids: int64[3 B S], cos: E[M W], sin: E[M W]",
    attributes=f"{_ATTRIBUTES}, mrope_section: ints[3] 0.., mrope_layout?: int 0..1",
)
def m_rotary_embedding(ctx: NodeContext) -> Value:
    """Rotate each feature pair by one of three positions: time, row or column (M-RoPE)."""
    _reject_unsupported(ctx)
    x, positions = ctx.required(0), ctx.required(1)
    width = ctx.required(2).shape[1]
    sections = ctx.attr("mrope_section")
    if sum(sections) != width:
        raise ValueError(f"sections {sections} do not add up to {width} angles")
    if ctx.attr("mrope_layout", 0):
        owner = np.zeros(width, np.int64)
        for stream in (1, 2):
            owner[stream : sections[stream] * 3 : 3] = stream
    else:
        owner = np.repeat(np.arange(3), sections)
    mixed = []
    for i in (2, 3):
        found = gather_rows(ctx, ctx.required(i), positions)
        total, *others = (ctx.element(found, 0, k) for k in range(3))
        for stream, part in enumerate(others, 1):
            total = ctx.emit("where", [ctx.const(owner == stream), part, total])
        mixed.append(total)
    return rotate_heads(ctx, x, *mixed, by_table=True)


def _reject_unsupported(ctx: NodeContext) -> None:
    require_attributes(ctx, is_packed_batching=0, scale=1.0)
