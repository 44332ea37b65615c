"""Operators that change shapes or create tensors from shapes."""

from __future__ import annotations

from math import prod

import numpy as np

from tvmrt.compiler.sdk.arithmetic import ceil_div
from tvmrt.compiler.sdk.frontend import infer_extent
from tvmrt.compiler.sdk.graph import SymInt, Value, broadcast, normalize_axis, sym_max, symbols_of
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import OpContext, fixed_size_error
from tvmrt.plugins.tflite.frontend.model_file import element_type
from tvmrt.plugins.tflite.frontend.registry import tflite_op


@tflite_op(RESHAPE=1)
def reshape(ctx: OpContext) -> Value:
    x = ctx.required(0)
    given = ctx.options["new_shape"]
    operand = ctx.input(1)
    if operand is not None and (operand.is_constant or operand in ctx.importer.sizes.extents):
        given = ctx.int_operand(1, "the shape")
    elif given is None:
        given = list(ctx.result().shape)
    shape = list(given)
    if shape.count(-1) == 1:
        rest = infer_extent(x, [n for n in shape if n != -1])
        shape[shape.index(-1)] = 0 if rest is None else rest
    if shape == [0] and x.type.size == 1:  # old converters' spelling of a scalar
        shape = []
    if any(n < 0 for n in shape) or prod(shape) != x.type.size:
        if symbols_of(x.shape) and not symbols_of(shape):
            raise fixed_size_error(given, x)
        raise ValueError(f"{x.type} does not reshape to {list(given)}")
    return ctx.reshape(x, shape)


@tflite_op(SQUEEZE=2)
def squeeze(ctx: OpContext) -> Value:
    x, rank = ctx.required(0), ctx.required(0).type.rank
    dims = [normalize_axis(d, rank) for d in ctx.options["squeeze_dims"] or ()]
    dims = dims or [d for d in range(rank) if x.shape[d] == 1]
    if any(x.shape[d] != 1 for d in dims):
        raise ValueError(f"axes {dims} of {x.type} are not all of extent 1")
    return ctx.reshape(x, [n for d, n in enumerate(x.shape) if d not in dims])


@tflite_op(EXPAND_DIMS=1)
def expand_dims(ctx: OpContext) -> Value:
    x = ctx.required(0)
    (axis,) = ctx.int_operand(1, "the axis")
    return ctx.unsqueeze(x, normalize_axis(axis, x.type.rank + 1))


@tflite_op(SHAPE=1)
def shape_of(ctx: OpContext) -> Value:
    extents = np.asarray(ctx.required(0).shape, object)
    return ctx.integer_tensor(extents, element_type(ctx.options["out_type"]))


@tflite_op(RANK=1)
def rank(ctx: OpContext) -> Value:
    return ctx.const(ctx.required(0).type.rank, np.int32)


@tflite_op(BROADCAST_TO=4)
def broadcast_to(ctx: OpContext) -> Value:
    return ctx.emit("expand", [ctx.required(0)], shape=tuple(ctx.int_operand(1, "the shape")))


@tflite_op(BROADCAST_ARGS=1)
def broadcast_args(ctx: OpContext) -> Value:
    shapes = [tuple(ctx.int_operand(i, "a shape")) for i in (0, 1)]
    return ctx.integer_tensor(np.asarray(broadcast(*shapes), object), ctx.required(0).dtype.name)


@tflite_op(FILL=5)
def fill(ctx: OpContext) -> Value:
    shape = tuple(ctx.int_operand(0, "the shape"))
    return ctx.emit("expand", [ctx.required(1)], shape=shape)


@tflite_op(TILE=3)
def tile(ctx: OpContext) -> Value:
    x, counts = ctx.required(0), ctx.int_operand(1, "the counts")
    if len(counts) != x.type.rank or any(n < 0 for n in counts):
        raise ValueError(f"{x.type} cannot be repeated {counts} times")
    span = [n for pair in zip([1] * x.type.rank, x.shape) for n in pair]
    with_repeats = [n for pair in zip(counts, x.shape) for n in pair]
    spread = ctx.emit("expand", [ctx.reshape(x, span)], shape=tuple(with_repeats))
    return ctx.reshape(spread, [c * n for c, n in zip(counts, x.shape)])


@tflite_op(RANGE=2)
def number_range(ctx: OpContext) -> Value:
    if any(ctx.required(i) in ctx.importer.sizes.extents for i in range(3)):
        return _range_of_extents(ctx, *(ctx.int_operand(i, "the range")[0] for i in range(3)))
    start, limit, step = (ctx.constant_operand(i, "the range").reshape(-1)[0] for i in range(3))
    return ctx.const(np.arange(start, limit, step), ctx.required(0).dtype.numpy)


def _range_of_extents(ctx: OpContext, start: SymInt, limit: SymInt, step: SymInt) -> Value:
    if not isinstance(step, int) or step == 0:
        raise UnsupportedError(f"a range with step {step!r}")
    span = limit - start if step > 0 else start - limit
    count = sym_max(ceil_div(span, abs(step)), 0)
    values = ctx.emit("iota", [], count=count, start=start, step=step)
    return ctx.cast(values, ctx.required(0).dtype.name)
