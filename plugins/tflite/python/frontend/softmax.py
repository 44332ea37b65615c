"""Softmax, log-softmax and other normalisations over rows."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.activation import apply_activation
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.log_softmax import exponentials, sum_of_powers
from tvmrt.plugins.tflite.frontend.lookup_tables_int16 import entries_of, lookup
from tvmrt.plugins.tflite.frontend.multipliers import f32
from tvmrt.plugins.tflite.frontend.registry import tflite_op
from tvmrt.plugins.tflite.frontend.requantize import (
    clamp_and_cast,
    scale_fixed_point,
    subtract_zero_point,
)


@tflite_op(SOFTMAX=3)
def softmax(ctx: OpContext) -> Value:
    x, beta = ctx.required(0), float(ctx.options["beta"])
    if x.dtype.name == "float32":
        scaled = x if beta == 1.0 else ctx.emit("mul", [x, ctx.const(beta, np.float32)])
        return ctx.emit("softmax", [scaled], axis=x.type.rank - 1)
    if x.dtype.bits == 8:
        return _softmax_int8(ctx, x, beta)
    if x.dtype.name == "int16":
        return _softmax_int16(ctx, x, beta)
    raise UnsupportedError(f"a softmax of {x.dtype}")


def _softmax_int16(ctx: OpContext, x: Value, beta: float) -> Value:
    """Compute softmax by interpolated tables of the exponential and of the reciprocal."""
    scale = ctx.per_tensor(ctx.tensor(0))[0]
    powers = entries_of(np.exp, 10 / 65535, 32767, 2 / 65535, 0, np.float64)
    inverse = entries_of(lambda v: 1 / (1 + v), 1 / 65535, -32768, 2 / 65535, 0, np.float64)
    last = x.type.rank - 1
    as_int32 = ctx.cast(x, "int32")
    largest = ctx.emit("reduce_max", [as_int32], axes=(last,), keepdims=True)
    real = float(f32(scale * f32(beta))) / (10.0 / 65535.0)
    steps = scale_fixed_point(ctx, ctx.emit("sub", [as_int32, largest]), real)
    steps = ctx.clamp(ctx.emit("add", [steps, ctx.const(32767, np.int32)]), -32768, 32767)
    e = lookup(ctx, steps, powers)
    total = ctx.emit("reduce_sum", [e], axes=(last,), keepdims=True)
    zeros = ctx.emit("leading_zeros", [total])
    one = ctx.const(1, np.int32)
    raised = ctx.emit("shift_left", [total, ctx.emit("sub", [zeros, one])])
    # the highest bits, rounded; adding before the first shift would overflow
    rounded = ctx.emit("shift_right", [raised, ctx.const(13, np.int32)])
    g = ctx.emit("shift_right", [ctx.emit("add", [rounded, one]), one])
    table_input = ctx.clamp(ctx.emit("sub", [g, ctx.const(98304, np.int32)]), -32768, 32767)
    r = lookup(ctx, table_input, inverse)
    product = ctx.emit("mul", [e, r])
    half = ctx.emit("shift_left", [one, ctx.emit("sub", [ctx.const(30, np.int32), zeros])])
    by = ctx.emit("sub", [ctx.const(31, np.int32), zeros])
    y = ctx.emit("shift_right", [ctx.emit("add", [product, half]), by])
    return ctx.cast(ctx.clamp(y, 0, 32767), "int16")


def _softmax_int8(ctx: OpContext, x: Value, beta: float) -> Value:
    """Compute softmax by a table of exponentials and Newton's reciprocal of their sum."""
    scale = float(ctx.per_tensor(ctx.tensor(0))[0])
    _, powers, _ = exponentials(ctx, x, beta * scale)
    total = sum_of_powers(ctx, powers)
    zeros = ctx.emit("leading_zeros", [total])
    # the sum as 2 ** 31 * (1 + fraction): the shift drops its highest bit
    aligned = ctx.emit("shift_left", [total, zeros])
    fraction = ctx.emit("bit_and", [aligned, ctx.const(2**31 - 1, np.int32)])
    inverse = ctx.emit("fixed_reciprocal", [fraction])
    bits = 16 if ctx.result().dtype == "int16" else 8
    product = ctx.emit("fixed_product", [inverse, powers])
    by = ctx.emit("sub", [ctx.const(12 + 31 - bits, np.int32), zeros])
    y = ctx.emit("fixed_shift", [product, by])
    to = {"int8": -128, "uint8": 0, "int16": -32768}
    return clamp_and_cast(ctx, y, to.get(ctx.result().dtype, 0))


@tflite_op(L2_NORMALIZATION=2)
def l2_normalization(ctx: OpContext) -> Value:
    x = ctx.required(0)
    axes = (x.type.rank - 1,)
    if x.dtype.name == "float32":
        total = ctx.emit("reduce_sum", [ctx.emit("mul", [x, x])], axes=axes, keepdims=True)
        length = ctx.clamp(ctx.emit("sqrt", [total]), 1e-6, None)
        return apply_activation(ctx, ctx.emit("div", [x, length]))
    as_int32 = subtract_zero_point(ctx, 0)
    total = ctx.emit(
        "reduce_sum", [ctx.emit("mul", [as_int32, as_int32])], axes=axes, keepdims=True
    )
    m = ctx.emit("fixed_inverse_root", [total])
    e = ctx.emit("fixed_inverse_root_exponent", [total])
    e = ctx.emit("add", [e, ctx.const(7, np.int32)])
    y = ctx.emit("fixed_scale_by", [as_int32, m, e])
    return clamp_and_cast(ctx, y, 128 if ctx.result().dtype == "uint8" else 0)


@tflite_op(LOCAL_RESPONSE_NORMALIZATION=1)
def local_response_normalization(ctx: OpContext) -> Value:
    x, o = ctx.channels_second(ctx.required(0)), ctx.options
    if x.dtype.name != "float32" or o["radius"] < 0:
        raise UnsupportedError(
            f"local response normalisation of {x.dtype} with radius {o['radius']}"
        )
    size = 2 * o["radius"] + 1
    # the IR's lrn divides alpha by the window size; this operator does not
    attrs = {"alpha": o["alpha"] * size, "beta": o["beta"], "bias": o["bias"]}
    return ctx.channels_last(ctx.emit("lrn", [x], size=size, **attrs))
