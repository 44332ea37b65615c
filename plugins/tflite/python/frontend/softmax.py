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
    as_int32 = ctx.formula(x).cast("int32")
    largest = as_int32.apply("reduce_max", axes=(last,), keepdims=True)
    real = float(f32(scale * f32(beta))) / (10.0 / 65535.0)
    steps = ctx.formula(scale_fixed_point(ctx, (as_int32 - largest).value, real))
    e = lookup(ctx, (steps + 32767).clamp(-32768, 32767), powers)
    total = e.apply("reduce_sum", axes=(last,), keepdims=True)
    zeros = total.apply("leading_zeros")
    # the highest bits, rounded; adding before the first shift would overflow
    g = (((total << zeros - 1) >> 13) + 1) >> 1
    r = lookup(ctx, (g - 98304).clamp(-32768, 32767), inverse)
    product = e * r
    y = (product + (total.like(1) << 30 - zeros)) >> 31 - zeros
    return y.clamp(0, 32767).cast("int16").value


def _softmax_int8(ctx: OpContext, x: Value, beta: float) -> Value:
    """Compute softmax by a table of exponentials and Newton's reciprocal of their sum."""
    scale = float(ctx.per_tensor(ctx.tensor(0))[0])
    _, powers, _ = exponentials(ctx, x, beta * scale)
    total = sum_of_powers(powers)
    zeros = total.apply("leading_zeros")
    # the sum as 2 ** 31 * (1 + fraction): the shift drops its highest bit
    inverse = ((total << zeros) & 2**31 - 1).apply("fixed_reciprocal")
    bits = 16 if ctx.result().dtype == "int16" else 8
    y = inverse.apply("fixed_product", powers).apply("fixed_shift", (12 + 31 - bits) - zeros)
    to = {"int8": -128, "uint8": 0, "int16": -32768}
    return clamp_and_cast(ctx, y.value, to.get(ctx.result().dtype, 0))


@tflite_op(L2_NORMALIZATION=2)
def l2_normalization(ctx: OpContext) -> Value:
    x = ctx.required(0)
    axes = (x.type.rank - 1,)
    if x.dtype.name == "float32":
        total = ctx.emit("reduce_sum", [ctx.emit("mul", [x, x])], axes=axes, keepdims=True)
        length = ctx.clamp(ctx.emit("sqrt", [total]), 1e-6, None)
        return apply_activation(ctx, ctx.emit("div", [x, length]))
    as_int32 = ctx.formula(subtract_zero_point(ctx, 0))
    total = (as_int32 * as_int32).apply("reduce_sum", axes=axes, keepdims=True)
    m = total.apply("fixed_inverse_root")
    e = total.apply("fixed_inverse_root_exponent") + 7
    y = as_int32.apply("fixed_scale_by", m, e).value
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
