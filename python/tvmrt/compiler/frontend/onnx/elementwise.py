"""Element-wise arithmetic, comparison, logic and conversions."""

from __future__ import annotations

import numpy as np
import onnx

from tvmrt.compiler.ir import DTYPES, Value, broadcast
from tvmrt.compiler.ir.low_bit_types import ROUNDINGS
from tvmrt.error import UnsupportedError

from . import string_tensors
from .context import NodeContext
from .inputs import element_name
from .plain_operators import chain
from .registry import onnx_op


@onnx_op("Equal")
def equal(ctx: NodeContext) -> Value:
    if any(map(string_tensors.is_text, ctx.inputs)):
        return string_tensors.text_operators().equal(ctx)
    return ctx.emit("equal", [ctx.required(0), ctx.required(1)])


@onnx_op("Sum")
def variadic_sum(ctx: NodeContext) -> Value:
    return chain(ctx, "add")


@onnx_op("Mean")
def mean(ctx: NodeContext) -> Value:
    total = chain(ctx, "add")
    return ctx.emit("div", [total, ctx.like(len(ctx.inputs), total)])


@onnx_op("Clip")
def clip(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    low, high = ctx.input(1), ctx.input(2)
    if ctx.opset < 11:
        low = None if ctx.attr("min") is None else ctx.like(ctx.attr("min"), x)
        high = None if ctx.attr("max") is None else ctx.like(ctx.attr("max"), x)
    if low is not None:
        x = ctx.emit("max", [x, ctx.reshape(low, ())])
    if high is not None:
        x = ctx.emit("min", [x, ctx.reshape(high, ())])
    return x


@onnx_op("Identity")
def identity(ctx: NodeContext) -> Value:
    return ctx.required(0)


@onnx_op("Cast")
def cast(ctx: NodeContext) -> Value:
    x, to = ctx.required(0), ctx.attr("to")
    if to == onnx.TensorProto.STRING:
        return x if x.type.is_string else string_tensors.text_operators().cast_to_text(ctx, x)
    if string_tensors.is_text(x):
        return string_tensors.text_operators().cast_from_text(ctx, x, element_type(to))
    return _converted(ctx, element_type(to))


@onnx_op("CastLike")
def cast_like(ctx: NodeContext) -> Value:
    like = ctx.required(1)
    return _converted(ctx, like.type.element)


def _converted(ctx: NodeContext, to: str) -> Value:
    rounding = ctx.attr("round_mode", "up")
    if rounding not in ROUNDINGS:
        raise ValueError(f"round_mode is {rounding!r}; it is one of {', '.join(ROUNDINGS)}")
    return ctx.convert(ctx.required(0), to, bool(ctx.attr("saturate", 1)), rounding)


@onnx_op("BitCast")
def bit_cast(ctx: NodeContext) -> Value:
    x, to = ctx.required(0), element_type(ctx.attr("to"))
    x = ctx.cast(x, x.type.element)
    result = ctx.emit("bit_cast", [x], to=to)
    return ctx.convert(ctx.cast(result, "float32"), to) if result.dtype.is_half else result


def element_type(code: int) -> str:
    """Return the IR's name of an ONNX element type."""
    name = element_name(code)
    if name not in DTYPES:
        raise UnsupportedError(
            f"element type {name} is not supported; the types are {', '.join(DTYPES)}"
        )
    return name


@onnx_op("Pow")
def power(ctx: NodeContext) -> Value:
    """Pow has the base's element type; common exponents become products and roots."""
    x, exponent = ctx.required(0), ctx.required(1)
    number = _uniform(exponent)
    shape = broadcast(x.shape, exponent.shape)
    if number in (1.0, 2.0, 3.0) and (x.dtype.is_float or exponent.dtype.is_int):
        result = x
        for _ in range(int(number) - 1):
            result = ctx.emit("mul", [result, x])
        return ctx.expand(result, shape)
    if x.dtype.is_float:
        if number in (0.5, -0.5):
            root = ctx.emit("sqrt", [x])
            return ctx.expand(root if number > 0 else ctx.emit("reciprocal", [root]), shape)
        if number == -1.0:
            return ctx.expand(ctx.emit("reciprocal", [x]), shape)
    if exponent.dtype.is_int:
        if x.dtype.is_float and exponent.dtype.bits <= 16:
            return ctx.emit("pow", [x, ctx.cast(exponent, x.dtype.name)])
        return ctx.emit("pow_whole", [x, exponent])
    if x.dtype == exponent.dtype:
        return ctx.emit("pow", [x, exponent])
    wide = ctx.emit("pow", [ctx.cast(x, "float64"), ctx.cast(exponent, "float64")])
    return ctx.cast(wide, x.dtype.name)


def _uniform(value: Value) -> float | None:
    """Return the number if all elements of a constant are equal; None for anything else."""
    if value.data is None or value.data.size == 0:
        return None
    flat = value.data.reshape(-1)
    return float(flat[0]) if bool(np.all(flat == flat[0])) else None
