"""Fixed-point log-softmax of 8-bit rows."""

from __future__ import annotations

import math

import numpy as np

from tvmrt.compiler.sdk.arithmetic import exp_fraction, multiplier, rounded
from tvmrt.compiler.sdk.frontend import TensorExpr
from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.arithmetic import is_quantized
from tvmrt.plugins.tflite.frontend.context import INT8_TYPES, OpContext
from tvmrt.plugins.tflite.frontend.lookup_tables_int8 import scale_array
from tvmrt.plugins.tflite.frontend.multipliers import ratio
from tvmrt.plugins.tflite.frontend.registry import tflite_op
from tvmrt.plugins.tflite.frontend.requantize import clamp_and_cast

INT32_MAX = 2**31 - 1
# Constants with 31 fraction bits.
ROOT_HALF, ROOT_ROOT_HALF, LOG_2 = 1518500250, 1805811301, 1488522236
NUMERATOR = 117049297  # 11 / 240 * 2 ** 0.25
DENOMINATOR = (1057819769, 127690142, 638450708)  # 2 ** 0.75 - 2 ** 0.25, 2 ** 0.25 / 20 and / 4


@tflite_op(LOG_SOFTMAX=2)
def log_softmax(ctx: OpContext) -> Value:
    x = ctx.required(0)
    if is_quantized(ctx, *INT8_TYPES):
        return _log_softmax_int8(ctx, x)
    return ctx.emit("softmax", [x], axis=x.type.rank - 1, log=True)


def exponentials(ctx: OpContext, x: Value, real: float) -> tuple[TensorExpr, TensorExpr, tuple]:
    """Return each element's distance below its row's maximum, and exp(-real * distance) with 31
    fraction bits; then (m, e, radius): the multiplier, and the distance beyond which exp is 0."""
    fine = min(real * 2.0**26, 2.0**31 - 1)
    m, e = multiplier(fine) if fine < 2.0**30 else (rounded(fine), 31)  # exp is 0 below the max
    radius = math.floor(31 * 2.0**26 / 2.0**e)
    below = -np.arange(256)
    table = np.where(below < -radius, 0, exp_fraction(scale_array(below, m, e), 5))
    as_int32 = ctx.formula(x).cast("int32")
    steps = as_int32.apply("reduce_max", axes=(x.type.rank - 1,), keepdims=True) - as_int32
    return steps, look_up(ctx, table.astype(np.int32), steps), (m, e, radius)


def look_up(ctx: OpContext, table: np.ndarray, steps: TensorExpr) -> TensorExpr:
    """Return the entries, of 256, at distances of bytes: an index that was uint8 needs no check."""
    index = steps.cast("uint8").cast("int32")
    return ctx.formula(ctx.emit("gather", [ctx.const(table), index.value], axis=0))


def sum_of_powers(powers: TensorExpr) -> TensorExpr:
    """Return the sum over the last axis, with 12 integer bits."""
    last = powers.value.type.rank - 1
    return powers.apply("fixed_shift", 12).apply("reduce_sum", axes=(last,), keepdims=True)


def _log_softmax_int8(ctx: OpContext, x: Value) -> Value:
    """Compute (x - max) * scale - log(sum of exponentials), with four integer bits."""
    y_scale, zero = ctx.per_tensor(ctx.result())
    top = {"int8": 127, "uint8": 255}[x.dtype.name]
    if ctx.result().dtype != x.dtype.name or (y_scale, zero) != (1 / 16, top):
        raise UnsupportedError(
            f"a result of {ctx.result().dtype} with scale {y_scale:g} and zero point {zero}; "
            f"LOG_SOFTMAX of {x.dtype} has scale 1/16 and zero point {top}"
        )
    scale = float(ctx.per_tensor(ctx.tensor(0))[0])
    steps, powers, (m, e, radius) = exponentials(ctx, x, scale)
    log = _logarithm(sum_of_powers(powers))
    # beyond this distance the result would exceed 5 integer bits after subtracting the logarithm
    nearest = log.like(-radius - 1)
    if scale:
        back, exponent = multiplier(ratio(2.0 ** (31 - e), float(m)))
        nearest = nearest.maximum((log + -(2**31)).apply("fixed_scale", back, exponent))
    below = -np.arange(256)
    real = np.where(below < -radius, 0, scale_array(below, m, e)).astype(np.int32)
    y = (look_up(ctx, real, steps) - log).apply("fixed_shift", 22)
    return clamp_and_cast(ctx, (-steps > nearest).where(y, -255).value, zero)


def _logarithm(total: TensorExpr) -> TensorExpr:
    """Return the natural logarithm, with 5 integer bits, of numbers >= 1 with 12 integer bits.

    The number is split into a power of two (in steps of a half) times a fraction r near
    1 / 2 ** 0.25; the logarithm of r is a rational function.
    """
    r, power = _reduced(total)
    q = r - ROOT_ROOT_HALF
    q = q + q
    square = _product(q, q)
    numerator = _product(q, r) + _product(_product(q, square), NUMERATOR)
    first, second, third = DENOMINATOR
    inner = q.like(first) + q + _product(square, second)
    denominator = _product(_half_sum(r), inner) + _product(q, third)
    inverse = denominator.apply("fixed_reciprocal")
    part = numerator.apply("fixed_shift", 6)
    y = _product(power, LOG_2) + _product(part, inverse)
    return y + y


def _reduced(z: TensorExpr) -> tuple[TensorExpr, TensorExpr]:
    """Return r as a fraction from 0.707 to 1, and the exponent of two, with 6 integer bits."""
    zeros = z.apply("leading_zeros")
    headroom = zeros - 1
    raised = z << headroom
    low = _product(raised, ROOT_HALF)
    low = (low < 1 << 30).where(low + low, INT32_MAX)
    next_headroom = _product(z, ROOT_HALF).apply("leading_zeros") - 1
    high = next_headroom.equals(headroom).where(raised, INT32_MAX)
    powers = [
        (12 - bits) * (1 << 25) + quarter
        for bits, quarter in ((zeros, 1 << 23), (next_headroom, -(1 << 23)))
    ]
    return low.minimum(high), powers[0].maximum(powers[1])


def _half_sum(r: TensorExpr) -> TensorExpr:
    """Return (r + 1 / 2 ** 0.25) / 2, rounded half up, without the 32-bit sum overflowing."""
    both, either = r & ROOT_ROOT_HALF, r ^ ROOT_ROOT_HALF
    return (either >> 1) + both + (either & 1)


def _product(a: TensorExpr, b: TensorExpr | int) -> TensorExpr:
    return a.apply("fixed_product", b)
