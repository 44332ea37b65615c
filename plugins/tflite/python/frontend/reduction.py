"""Reductions."""

from __future__ import annotations

from math import prod

import numpy as np

from tvmrt.compiler.sdk.arithmetic import multiplier
from tvmrt.compiler.sdk.graph import Value, normalize_axis
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.arithmetic import is_quantized
from tvmrt.plugins.tflite.frontend.context import QUANTIZED, OpContext
from tvmrt.plugins.tflite.frontend.model_file import element_type
from tvmrt.plugins.tflite.frontend.multipliers import ratio
from tvmrt.plugins.tflite.frontend.registry import tflite_op
from tvmrt.plugins.tflite.frontend.requantize import clamp_and_cast
from tvmrt.plugins.tflite.frontend.sequence_loop import step_by_step


def axes_of(ctx: OpContext, rank: int) -> tuple[int, ...]:
    """Return the distinct axes in operand 1, sorted."""
    return tuple(sorted({normalize_axis(a, rank) for a in ctx.int_operand(1, "the axes")}))


_FOLDS = {
    "MEAN": "reduce_mean", "SUM": "reduce_sum", "REDUCE_MAX": "reduce_max",
    "REDUCE_MIN": "reduce_min", "REDUCE_PROD": "reduce_prod", "REDUCE_ANY": "reduce_max",
    "REDUCE_ALL": "reduce_min",
}  # fmt: skip


@tflite_op(MEAN=3, SUM=3, REDUCE_MAX=3, REDUCE_MIN=3, REDUCE_PROD=3, REDUCE_ANY=1, REDUCE_ALL=1)
def reduce(ctx: OpContext) -> Value:
    x, name = ctx.required(0), ctx.op.name
    axes, keep = axes_of(ctx, x.type.rank), bool(ctx.options["keep_dims"])
    if not axes:
        return x
    if x.dtype.name == "bool":
        bits = ctx.cast(x, "uint8")
        return ctx.cast(ctx.emit(_FOLDS[name], [bits], axes=axes, keepdims=keep), "bool")
    if is_quantized(ctx, *QUANTIZED) and name in ("MEAN", "SUM"):
        return _quantized_reduction(ctx, x, axes, keep)
    if is_quantized(ctx, "int8", "int16") and name == "REDUCE_PROD":
        return _product(ctx, x, axes, keep)
    if name == "MEAN" and not x.dtype.is_float:
        total = ctx.emit("reduce_sum", [x], axes=axes, keepdims=keep)
        return ctx.emit("div", [total, ctx.like(prod(x.shape[a] for a in axes), total)])
    return ctx.reduce(_FOLDS[name], x, axes, keep)


def _quantized_reduction(ctx: OpContext, x: Value, axes: tuple[int, ...], keep: bool) -> Value:
    """Compute quantised sums or means; the multiplier includes a mean's element count.

    LiteRT's optimised kernel scales sums in float32. It is the standard for signed types, whose
    bytes the reference kernel reads as uint8.
    """
    (x_scale, x_zero), (y_scale, zero) = ctx.per_tensor(ctx.tensor(0)), ctx.per_tensor(ctx.result())
    scale = ratio(float(x_scale), float(y_scale))
    m, e = multiplier(scale)
    count = prod(x.shape[a] for a in axes)
    if ctx.op.name == "MEAN" and count:
        shift = min(count.bit_length() - 1, 32, 31 + e)
        m, e = (m << shift) // count, e - shift
    total = ctx.reduce("reduce_sum", ctx.cast(x, "int32"), axes, keep)
    total = ctx.emit("sub", [total, ctx.const(count * x_zero, np.int32)])
    if ctx.op.name == "SUM" and x.dtype.is_signed and not ctx.micro:
        scaled = ctx.emit("mul", [ctx.cast(total, "float32"), ctx.const(scale, np.float32)])
        y = ctx.cast(ctx.clamp(ctx.emit("round_away", [scaled]), -(2**30), 2**30), "int32")
    else:
        y = ctx.emit("fixed_scale", [total, ctx.const(m, np.int32), ctx.const(e, np.int32)])
    return clamp_and_cast(ctx, y, zero)


def _product(ctx: OpContext, x: Value, axes: tuple[int, ...], keep: bool) -> Value:
    """Multiply quantised elements one after the other, requantising after each factor to stay
    within int32."""
    count = prod(x.shape[a] for a in axes)
    if not isinstance(count, int) or count < 1:
        raise UnsupportedError(f"a product of {count} quantised elements")
    (x_scale, x_zero), (y_scale, zero) = ctx.per_tensor(ctx.tensor(0)), ctx.per_tensor(ctx.result())
    m, e = multiplier(ratio(float(x_scale), float(y_scale) ** (1.0 / count)))
    if e > 14:
        raise UnsupportedError(f"operands of scale {x_scale:g} with a result of scale {y_scale:g}")

    def rescale(value: Value) -> Value:
        return ctx.emit("fixed_scale_wide", [value, ctx.const(m, np.int32), ctx.const(e, np.int32)])

    def step(now: Value, product: Value) -> tuple[Value, Value]:
        factor = ctx.emit("sub", [ctx.cast(now, "int64"), ctx.const(x_zero, np.int64)])
        product = rescale(ctx.emit("mul", [ctx.cast(product, "int64"), factor]))
        return product, product

    others = [a for a in range(x.type.rank) if a not in axes]
    rows = ctx.reshape(ctx.transpose(x, (*axes, *others)), (count, *(x.shape[a] for a in others)))
    first = ctx.cast(ctx.element(rows, 0, 0), "int32")
    product = ctx.emit("sub", [first, ctx.const(x_zero, np.int32)])
    if count > 1:
        _, (product,) = step_by_step(
            ctx, ctx.slice_axis(rows, 0, 1, count - 1), [product], False, step
        )
    y = clamp_and_cast(ctx, rescale(ctx.cast(product, "int64")), zero)
    shape = [1 if a in axes else n for a, n in enumerate(x.shape)]
    return ctx.reshape(y, shape) if keep else y


@tflite_op(ARG_MAX=3, ARG_MIN=3)
def arg_extreme(ctx: OpContext) -> Value:
    x = ctx.required(0)
    (axis,) = ctx.int_operand(1, "the axis")
    op = "argmax" if ctx.op.name == "ARG_MAX" else "argmin"
    axis = normalize_axis(axis, x.type.rank)
    y = ctx.emit(op, [x], axis=axis, keepdims=False, select_last=False)
    return ctx.cast(y, element_type(ctx.options["output_type"]))


@tflite_op(CUMSUM=1)
def cumulative_sum(ctx: OpContext) -> Value:
    x = ctx.required(0)
    (axis,) = ctx.int_operand(1, "the axis")
    return ctx.emit(
        "cumulative_sum",
        [x],
        axis=normalize_axis(axis, x.type.rank),
        exclusive=bool(ctx.options["exclusive"]),
        reverse=bool(ctx.options["reverse"]),
    )
