"""Exact accumulators of integer products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.requantize import Accumulators

MatmulFunction = Callable[..., Value]


def accumulate_integers(
    ctx: OpContext,
    x: Value,
    w: Value,
    product: MatmulFunction,
    channel_shape: tuple[int, ...],
    axis: int,
    operands: tuple[int, int, int] = (0, 1, 2),
) -> Accumulators:
    """Return the accumulators of (x - x_zero) * (w - w_zero) plus bias, and their scales.

    ``product`` computes them from [x, w, 1.0, bias, w_zero]. ``channel_shape`` is the
    shape in which per-channel numbers broadcast over the accumulators. ``axis`` is the channel axis
    of the weights in the file; ``operands`` are the operator's indices of x, weights and bias.
    """
    x_scale, x_zero = ctx.per_tensor(ctx.tensor(operands[0]))
    if w.dtype.name not in ("int8", "uint8"):
        raise UnsupportedError(f"{x.dtype} activations with {w.dtype} weights")
    q = ctx.quantization(ctx.tensor(operands[1]))
    if q.per_axis and q.axis != axis:
        raise UnsupportedError(f"weights with scales along axis {q.axis}")
    w_zero = None if not q.zero.any() else q.zero.astype(np.int32)
    bias = ctx.input(operands[2])
    if bias is not None and bias.dtype.name not in ("int32", "int64"):
        raise UnsupportedError(f"a bias of {bias.dtype}")
    is_int16 = x.dtype.name == "int16"
    folded = None
    if bias is not None and bias.is_constant and not is_int16 and bias.dtype.name == "int32":
        folded, bias = bias, None
    one, zeros = ctx.const(1.0, np.float32), None if w_zero is None else ctx.const(w_zero)

    def int8_product(part: Value, zero: int, start: Value | None) -> Value:
        return product([part, w, one, start, zeros], x_zero=zero, to="int32")

    if not is_int16:
        total = int8_product(x, x_zero, folded)
    else:
        total = _int16_product(ctx, x, int8_product)
    if bias is not None:
        shape = (bias.type.size, *channel_shape[1:])
        total = ctx.emit("add", [total, ctx.cast(ctx.reshape(bias, shape), total.dtype.name)])
    narrow = is_int16 and bias is not None and bias.dtype.name == "int32"
    if narrow:
        total = ctx.cast(total, "int32")
    return Accumulators(total, x_scale, q.scale, channel_shape, x.dtype.name == "uint8")


def _int16_product(ctx: OpContext, x: Value, int8_product: Callable) -> Value:
    """Compute the product of int16 x from its high and low bytes: 256 * high + low."""
    parts = [ctx.cast(int8_product(part, 0, None), "int64") for part in split_int16(ctx, x)]
    return ctx.emit("add", [ctx.emit("mul", [parts[0], ctx.const(256, np.int64)]), parts[1]])


def split_int16(ctx: OpContext, x: Value) -> tuple[Value, Value]:
    """Split int16 into signed high and unsigned low bytes: x = 256 * high + low."""
    high = ctx.cast(ctx.emit("shift_right", [x, ctx.const(8, np.int16)]), "int8")
    return high, ctx.cast(ctx.emit("bit_and", [x, ctx.const(255, np.int16)]), "uint8")
