"""Operators that generate random numbers, from their node's seed and stream."""

from __future__ import annotations

import onnx

from tvmrt.compiler.sdk.frontend import (
    NodeContext,
    draw,
    element_type,
    onnx_op,
    softmax_along,
    uniform,
)
from tvmrt.compiler.sdk.graph import Value


def _element_type(ctx: NodeContext, like: Value | None) -> str:
    code = ctx.attr("dtype")
    if code is not None:
        return element_type(code)
    return "float32" if like is None else like.type.element


def _draw_random(ctx: NodeContext, like: Value | None) -> Value:
    normal = "Normal" in ctx.op
    names, defaults = (("mean", "scale") if normal else ("low", "high")), (0.0, 1.0)
    bounds = tuple(ctx.attr(name, default) for name, default in zip(names, defaults))
    shape = ctx.attr("shape", []) if like is None else like.shape
    kind = "normal" if normal else "uniform"
    return draw(ctx, kind, bounds, _element_type(ctx, like), shape)


@onnx_op("RandomNormal", "RandomUniform")
def random(ctx: NodeContext) -> Value:
    return _draw_random(ctx, None)


@onnx_op("RandomNormalLike", "RandomUniformLike")
def random_like(ctx: NodeContext) -> Value:
    return _draw_random(ctx, ctx.required(0))


@onnx_op("Bernoulli")
def bernoulli(ctx: NodeContext) -> Value:
    p = ctx.required(0)
    hit = ctx.emit("less", [uniform(ctx, p.shape, p.dtype.name), p])
    return ctx.convert(hit, _element_type(ctx, p))


@onnx_op("Multinomial")
def multinomial(ctx: NodeContext) -> Value:
    """Draw classes: count the cumulative probabilities, except the last, <= a random number."""
    x = ctx.required(0)
    batch, classes = x.shape
    count = ctx.attr("sample_size", 1)
    to = element_type(ctx.attr("dtype", onnx.TensorProto.INT32))
    odds = softmax_along(ctx, x, 1)
    cumulative = ctx.emit("cumulative_sum", [odds], axis=1, exclusive=0, reverse=0)
    total = ctx.slice_axis(cumulative, 1, classes - 1, 1)
    drawn = ctx.emit("mul", [uniform(ctx, (batch, count), x.dtype.name), total])
    below = ctx.reshape(ctx.slice_axis(cumulative, 1, 0, classes - 1), (batch, 1, classes - 1))
    passed = ctx.emit("less_equal", [below, ctx.reshape(drawn, (batch, count, 1))])
    class_indices = ctx.emit("reduce_sum", [ctx.cast(passed, "int32")], axes=(2,), keepdims=0)
    return ctx.cast(class_indices, to)
