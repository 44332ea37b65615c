"""Requantisation of accumulators and other int32 values to a result's type."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tvmrt.compiler.sdk.arithmetic import multiplier, multipliers
from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import QUANTIZED, OpContext
from tvmrt.plugins.tflite.frontend.multipliers import activation_name, quantized_bounds, ratio


class Accumulators(NamedTuple):
    """Exact accumulators (int32 or int64) of a product, and the scales of its operands. ``w_scale``
    has one number, or one per channel, in ``channel_shape``, which broadcasts over the
    accumulators. ``unsigned`` is set for uint8 operands."""

    value: Value
    x_scale: np.float32
    w_scale: np.ndarray
    channel_shape: tuple[int, ...]
    unsigned: bool = False


def finish(ctx: OpContext, accumulators: Accumulators, by_float: bool = False) -> Value:
    """Return the quantised result of a product: requantised, zero point added, clamped.

    ``by_float`` multiplies once in double, as the reference kernel of FULLY_CONNECTED does.
    """
    y_scale, zero = ctx.per_tensor(ctx.result())
    if accumulators.unsigned and not by_float and accumulators.w_scale.size == 1:
        # these kernels multiply the scales in float32
        real = ratio(
            np.float64(np.float32(accumulators.x_scale * accumulators.w_scale)), np.float64(y_scale)
        )
    else:
        real = np.float64(accumulators.x_scale) * accumulators.w_scale.astype(np.float64)
        real = ratio(real, np.float64(y_scale))
    channel_shape = accumulators.channel_shape if real.size > 1 else ()
    if by_float:
        scaled = ctx.emit(
            "float_scale", [accumulators.value, ctx.const(real.reshape(channel_shape))]
        )
    else:
        m, e = (part.reshape(channel_shape) for part in multipliers(real.reshape(-1)))
        is_int64 = accumulators.value.dtype.name == "int64"
        op = "fixed_scale_wide" if is_int64 else "fixed_scale"
        scaled = ctx.emit(op, [accumulators.value, ctx.const(m), ctx.const(e)])
    return clamp_and_cast(ctx, scaled, zero, activation_name(ctx.options.get("act", 0)))


def clamp_and_cast(ctx: OpContext, x: Value, zero: int, activation: str = "NONE") -> Value:
    """Add the result's zero point to int32 values, clamp and cast to the result's type."""
    result = ctx.result()
    if result.dtype not in QUANTIZED:
        raise UnsupportedError(f"a result of {result.dtype} from quantised operands")
    scale = ctx.per_tensor(result)[0]
    low, high = quantized_bounds(activation, scale, zero, result.dtype)
    moved = ctx.emit("add", [x, ctx.const(zero, np.int32)]) if zero else x
    return ctx.cast(ctx.clamp(moved, low, high), result.dtype)


def scale_fixed_point(ctx: OpContext, x: Value, real: float) -> Value:
    """Multiply int32 by a real multiplier in fixed point."""
    m, e = multiplier(float(real))
    return ctx.emit("fixed_scale", [x, ctx.const(m, np.int32), ctx.const(e, np.int32)])


def subtract_zero_point(ctx: OpContext, index: int) -> Value:
    """Return a quantised operand as int32 minus its zero point."""
    x, (_, zero) = ctx.required(index), ctx.per_tensor(ctx.tensor(index))
    is_int64 = ctx.cast(x, "int32")
    return ctx.emit("sub", [is_int64, ctx.const(zero, np.int32)]) if zero else is_int64
