"""Activations that ONNX Runtime's optimiser writes into networks."""

from __future__ import annotations

from math import pi, sqrt

from tvmrt.ir import Value

from .context import NodeContext
from .linear import scaled
from .registry import onnx_op


def _halved(ctx: NodeContext, x: Value, curve: Value) -> Value:
    """x / 2 * (1 + curve)"""
    return ctx.emit("mul", [scaled(ctx, x, 0.5), ctx.emit("add", [curve, ctx.scalar_like(1, x)])])


def _biased(ctx: NodeContext) -> Value:
    x, bias = ctx.required(0), ctx.input(1)
    return x if bias is None else ctx.emit("add", [x, bias])


@onnx_op("Gelu", "BiasGelu", domain="com.microsoft")
def gelu(ctx: NodeContext) -> Value:
    x = _biased(ctx)
    return _halved(ctx, x, ctx.emit("erf", [scaled(ctx, x, sqrt(0.5))]))


@onnx_op("FastGelu", domain="com.microsoft")
def fast_gelu(ctx: NodeContext) -> Value:
    x = _biased(ctx)
    cube = ctx.emit("mul", [ctx.emit("mul", [x, x]), x])
    inner = ctx.emit("add", [x, scaled(ctx, cube, 0.044715)])
    return _halved(ctx, x, ctx.emit("tanh", [scaled(ctx, inner, sqrt(2 / pi))]))


@onnx_op("QuickGelu", domain="com.microsoft")
def quick_gelu(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    gate = ctx.emit("sigmoid", [scaled(ctx, x, ctx.attr("alpha", 1.702))])
    return ctx.emit("mul", [x, gate])
