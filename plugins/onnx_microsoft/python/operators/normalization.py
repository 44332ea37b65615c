"""Normalisation with a residual add: layer norm, RMS norm, group norm."""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.sdk.frontend import (
    NodeContext,
    layer_normalization,
    normalize_rows,
    rms_normalization,
    rms_normalize,
)
from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.onnx_microsoft.operators.domain import ms_op

_LAYER = "axis?: int, epsilon?: float 0.., stash_type?: int"


# onnxruntime also writes these two with its own domain and the same meaning


ms_op(
    "LayerNormalization", takes="x: float[*X], scale: float[*], shift?: float[*]", attributes=_LAYER
)(layer_normalization)
ms_op("SimplifiedLayerNormalization", takes="x: float[*X], scale: float[*]", attributes=_LAYER)(
    rms_normalization
)


@ms_op(
    "SkipLayerNormalization",
    takes="x: E=float[*X], skip: E[*], scale: E[H], shift?: E[H], bias?: E[H]",
    attributes="epsilon?: float 0..",
)
def skip_layer_normalization(ctx: NodeContext) -> list[Value | None]:
    # outputs mean and deviation exist for training only
    total = _with_skip(ctx, ctx.input(4))
    return [_normalize_rows(ctx, total, ctx.input(3)), None, None, total]


@ms_op(
    "SkipSimplifiedLayerNormalization",
    takes="x: E=float[*X], skip: E[*], scale: E[H], bias?: E[H]",
    attributes="epsilon?: float 0..",
)
def skip_rms_normalization(ctx: NodeContext) -> list[Value | None]:
    total = _with_skip(ctx, ctx.input(3))
    return [_normalize_rows(ctx, total, None, False), None, None, total]


def _with_skip(ctx: NodeContext, bias: Value | None) -> Value:
    return ctx.add_optional(ctx.emit("add", [ctx.required(0), ctx.required(1)]), bias)


def _normalize_rows(ctx: NodeContext, x: Value, shift: Value | None, centre: bool = True) -> Value:
    epsilon = ctx.attr("epsilon", 1e-12)
    return normalize_rows(ctx, x, [len(x.shape) - 1], epsilon, centre, ctx.required(2), shift)


@ms_op(
    "GatedRMSNorm",
    takes="x: E=float[*X], scale: E[C], gate: E[*X]",
    attributes="epsilon?: float 0.., activation?: silu|swish|sigmoid",
)
def gated_rms_norm(ctx: NodeContext) -> Value:
    x, scale, gate = (ctx.required(i) for i in range(3))
    y = _rms_of_groups(ctx, x, scale.shape[0], scale)
    factor = ctx.emit("sigmoid", [gate])
    if ctx.attr("activation", "silu") != "sigmoid":
        factor = ctx.emit("mul", [gate, factor])
    return ctx.emit("mul", [y, factor])


@ms_op(
    "BranchwiseRMSNorm",
    takes="x: float[*X], scale?: float[*]",
    attributes="epsilon?: float 0.., num_branches?: int 0..",
)
def branchwise_rms_norm(ctx: NodeContext) -> Value:
    x, scale, branches = ctx.required(0), ctx.input(1), ctx.attr("num_branches", 0)
    width = x.shape[-1] // branches if branches else x.shape[-1]
    if scale is None or scale.type.size == width:
        scale = None if scale is None else ctx.reshape(scale, (width,))
        return _rms_of_groups(ctx, x, width, scale)
    y = _rms_of_groups(ctx, x, width, None)
    axes = x.shape[-1:] if branches else x.shape[-2:]
    return ctx.emit("mul", [y, ctx.reshape(scale, axes)])


def _rms_of_groups(ctx: NodeContext, x: Value, width: int, scale: Value | None) -> Value:
    """Apply RMS norm to each ``width`` elements of the last axis, with one row of scales."""
    if width < 1 or x.shape[-1] % width:
        raise ValueError(f"{x.shape[-1]} features are not divisible into groups of {width}")
    rows = ctx.reshape(x, (*x.shape[:-1], x.shape[-1] // width, width))
    axes, epsilon = [len(rows.shape) - 1], ctx.attr("epsilon", 1e-5)
    if scale is not None:
        return ctx.reshape(normalize_rows(ctx, rows, axes, epsilon, False, scale, None), x.shape)
    return ctx.reshape(rms_normalize(ctx, rows, axes, epsilon)[0], x.shape)


_GROUPS = "activation: int 0..1, channels_last?: int 0..1, epsilon?: float 0.., groups: int 1.."


@ms_op("GroupNorm", takes="x: float[_ _ _ _], scale: float[C], shift: float[C]", attributes=_GROUPS)
def group_norm(ctx: NodeContext) -> Value:
    return _group_norm(ctx, ctx.required(0))


@ms_op(
    "SkipGroupNorm",
    takes="x: E=float[_ _ _ _], scale: float[C], shift: float[C], skip: E[*], bias?: E[C]",
    attributes=_GROUPS,
)
def skip_group_norm(ctx: NodeContext) -> list[Value]:
    x, skip = ctx.required(0), ctx.required(3)
    if ctx.attr("channels_last", 1) == 0:
        raise UnsupportedError("channels_last is 0 with a residual; only 1 is supported")
    if len(skip.shape) == 2:
        skip = ctx.reshape(skip, (skip.shape[0], 1, 1, skip.shape[1]))
    total = ctx.add_optional(ctx.emit("add", [x, skip]), ctx.input(4))
    return [_group_norm(ctx, total), total]


def _group_norm(ctx: NodeContext, x: Value) -> Value:
    last = ctx.attr("channels_last", 1)
    order: Sequence[int] = (0, 3, 1, 2) if last else (0, 1, 2, 3)
    x = ctx.transpose(x, order)
    groups, epsilon = ctx.attr("groups"), ctx.attr("epsilon", 1e-5)
    ctx.require_float32(x)
    inputs = [x, ctx.required(1), ctx.required(2)]
    y = ctx.emit("group_norm", inputs, groups=groups, epsilon=epsilon)
    if ctx.attr("activation"):
        y = ctx.emit("mul", [y, ctx.emit("sigmoid", [y])])
    return ctx.transpose(y, (0, 2, 3, 1)) if last else y
