"""Operators that draw random numbers.

A node's attribute ``seed`` fixes its sequence; nodes without it have seed 0 and a stream each, by
their order in the network, so that no two draw the same. Every run draws new numbers.
"""

from __future__ import annotations

import numpy as np
import onnx

from tvmrt.compiler.ir import Value

from .activation import softmax_along
from .context import NodeContext
from .elementwise import element_type
from .halves import HALF
from .registry import onnx_op


def draw(ctx: NodeContext, distribution: str, bounds: tuple[float, float], to: str, shape) -> Value:
    """Random numbers by the node's seed; half precision is rounded from float32."""
    first, second = (float(np.float32(bound)) for bound in bounds)
    seed = ctx.attr("seed")
    streams = sum(node.op == "random" for node in ctx.builder.graph.nodes)
    y = ctx.emit(
        "random",
        [],
        distribution=distribution,
        first=first,
        second=second,
        seed=0 if seed is None else _word(seed),
        stream=0 if seed is not None else streams + 1,
        to="float32" if to in HALF else to,
        shape=tuple(shape),
    )
    return ctx.converted(y, to) if to in HALF else y


def _word(seed: float) -> int:
    """A seed as 32 bits: a whole number's lowest ones, or those of the float."""
    if float(seed).is_integer():
        low = int(seed) & 0xFFFFFFFF
        return low - (low >> 31 << 32)
    return int(np.float32(seed).view(np.int32))


def _element_type(ctx: NodeContext, like: Value | None) -> str:
    code = ctx.attr("dtype")
    if code is not None:
        return element_type(code)
    return "float32" if like is None else ctx.half_of(like) or like.dtype.name


def _drawn(ctx: NodeContext, like: Value | None) -> Value:
    normal = "Normal" in ctx.op
    names, defaults = (("mean", "scale") if normal else ("low", "high")), (0.0, 1.0)
    bounds = tuple(ctx.attr(name, default) for name, default in zip(names, defaults))
    shape = ctx.attr("shape", []) if like is None else like.shape
    kind = "normal" if normal else "uniform"
    return draw(ctx, kind, bounds, _element_type(ctx, like), shape)


@onnx_op("RandomNormal", "RandomUniform")
def random(ctx: NodeContext) -> Value:
    return _drawn(ctx, None)


@onnx_op("RandomNormalLike", "RandomUniformLike")
def random_like(ctx: NodeContext) -> Value:
    return _drawn(ctx, ctx.required(0))


def _unit(ctx: NodeContext, shape, to: str = "float32") -> Value:
    """Uniform numbers from 0 to below 1."""
    return draw(ctx, "uniform", (0.0, 1.0), to, shape)


@onnx_op("Bernoulli")
def bernoulli(ctx: NodeContext) -> Value:
    p = ctx.required(0)
    hit = ctx.emit("less", [_unit(ctx, p.shape, p.dtype.name), p])
    return ctx.converted(hit, _element_type(ctx, p))


@onnx_op("Multinomial")
def multinomial(ctx: NodeContext) -> Value:
    """How many of the running sums of probabilities, but for the last, a draw is not below."""
    x = ctx.required(0)
    batch, classes = x.shape
    count = ctx.attr("sample_size", 1)
    to = element_type(ctx.attr("dtype", onnx.TensorProto.INT32))
    odds = softmax_along(ctx, x, 1)
    sums = ctx.emit("cumulative_sum", [odds], axis=1, exclusive=0, reverse=0)
    whole = ctx.slice_axis(sums, 1, classes - 1, 1)
    drawn = ctx.emit("mul", [_unit(ctx, (batch, count), x.dtype.name), whole])
    below = ctx.reshape(ctx.slice_axis(sums, 1, 0, classes - 1), (batch, 1, classes - 1))
    passed = ctx.emit("less_equal", [below, ctx.reshape(drawn, (batch, count, 1))])
    places = ctx.emit("reduce_sum", [ctx.cast(passed, "int32")], axes=(2,), keepdims=0)
    return ctx.cast(places, to)


def _known(value: Value | None, default: float) -> float | None:
    """The number of an operand, or its default; None where the run brings it."""
    if value is None:
        return default
    return None if value.data is None else value.data.reshape(-1)[0]


@onnx_op("Dropout")
def dropout(ctx: NodeContext) -> list[Value]:
    x, ratio, training = ctx.required(0), ctx.input(1), ctx.input(2)
    if ctx.opset < 12:
        ratio = training = None
    mode, part = _known(training, False), _known(ratio, 0.5)
    if (mode is not None and not mode) or part == 0:
        if len(ctx.node.output) < 2:
            return [x]
        mask = np.dtype(bool) if ctx.opset >= 10 else x.dtype.numpy
        return [x, ctx.expand(ctx.const(1, mask), x.shape)]
    given = ctx.const(np.float32(0.5)) if ratio is None else ctx.reshape(ratio, ())
    given = ctx.cast(given, x.dtype.name)
    kept = ctx.emit("greater_equal", [_unit(ctx, x.shape, x.dtype.name), given])
    one = ctx.like(1, x)
    grown = ctx.emit("div", [x, ctx.emit("sub", [one, given])])
    y = ctx.emit("where", [kept, grown, ctx.like(0, x)])
    if mode is None:
        idle = ctx.emit("logical_not", [ctx.reshape(training, ())])
        kept = ctx.emit("logical_or", [kept, idle])
        y = ctx.emit("where", [idle, x, y])
    return [y, kept]
