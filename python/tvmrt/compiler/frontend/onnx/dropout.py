"""Dropout and its random numbers.

A node's attribute ``seed`` fixes its sequence. Nodes without a seed get seed 0 and a stream each,
by their order in the network, so that no two draw the same numbers. Every run draws new ones.
"""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir import Value

from .context import NodeContext
from .legalize_types import HALF
from .registry import onnx_op


def draw(ctx: NodeContext, distribution: str, bounds: tuple[float, float], to: str, shape) -> Value:
    """Draw random numbers from the node's seed; half precision is rounded from float32."""
    first, second = (float(np.float32(bound)) for bound in bounds)
    seed = ctx.attr("seed")
    streams = sum(node.op == "random" for node in ctx.builder.graph.nodes)
    y = ctx.emit(
        "random",
        [],
        distribution=distribution,
        first=first,
        second=second,
        seed=0 if seed is None else _seed_bits(seed),
        stream=0 if seed is not None else streams + 1,
        to="float32" if to in HALF else to,
        shape=tuple(shape),
    )
    return ctx.convert(y, to) if to in HALF else y


def _seed_bits(seed: float) -> int:
    """Return a seed as 32 bits: the lowest bits of an integer, or the bits of the float."""
    if float(seed).is_integer():
        low = int(seed) & 0xFFFFFFFF
        return low - (low >> 31 << 32)
    return int(np.float32(seed).view(np.int32))


def uniform(ctx: NodeContext, shape: tuple, to: str = "float32") -> Value:
    """Draw uniform numbers from 0 (inclusive) to 1 (exclusive)."""
    return draw(ctx, "uniform", (0.0, 1.0), to, shape)


def _constant_value(value: Value | None, default: float) -> float | None:
    """Return an operand's number or the default; None if it is known only at run time."""
    if value is None:
        return default
    return None if value.data is None else value.data.reshape(-1)[0]


@onnx_op("Dropout")
def dropout(ctx: NodeContext) -> list[Value]:
    x, ratio, training = ctx.required(0), ctx.input(1), ctx.input(2)
    if ctx.opset < 12:
        ratio = training = None
    mode, part = _constant_value(training, False), _constant_value(ratio, 0.5)
    if (mode is not None and not mode) or part == 0:
        if len(ctx.node.output) < 2:
            return [x]
        mask = np.dtype(bool) if ctx.opset >= 10 else x.dtype.numpy
        return [x, ctx.expand(ctx.const(1, mask), x.shape)]
    probability = ctx.const(np.float32(0.5)) if ratio is None else ctx.reshape(ratio, ())
    probability = ctx.cast(probability, x.dtype.name)
    keep_mask = ctx.emit("greater_equal", [uniform(ctx, x.shape, x.dtype.name), probability])
    one = ctx.like(1, x)
    rescaled = ctx.emit("div", [x, ctx.emit("sub", [one, probability])])
    y = ctx.emit("where", [keep_mask, rescaled, ctx.like(0, x)])
    if mode is None:
        idle = ctx.emit("logical_not", [ctx.reshape(training, ())])
        keep_mask = ctx.emit("logical_or", [keep_mask, idle])
        y = ctx.emit("where", [idle, x, y])
    return [y, keep_mask]
