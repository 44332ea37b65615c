"""Fixed-point log-softmax of 8-bit rows."""

from __future__ import annotations

import math

import numpy as np

from tvmrt.compiler.sdk.arithmetic import exp_fraction, multiplier, rounded
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


def exponentials(ctx: OpContext, x: Value, real: float) -> tuple[Value, Value, tuple]:
    """Return each element's distance below its row's maximum, and exp(-real * distance) with 31
    fraction bits; then (m, e, radius): the multiplier, and the distance beyond which exp is 0."""
    fine = min(real * 2.0**26, 2.0**31 - 1)
    m, e = multiplier(fine) if fine < 2.0**30 else (rounded(fine), 31)  # exp is 0 below the max
    radius = math.floor(31 * 2.0**26 / 2.0**e)
    below = -np.arange(256)
    table = np.where(below < -radius, 0, exp_fraction(scale_array(below, m, e), 5))
    as_int32 = ctx.cast(x, "int32")
    largest = ctx.emit("reduce_max", [as_int32], axes=(x.type.rank - 1,), keepdims=True)
    steps = ctx.emit("sub", [largest, as_int32])
    powers = look_up(ctx, table.astype(np.int32), steps)
    return steps, powers, (m, e, radius)


def look_up(ctx: OpContext, table: np.ndarray, steps: Value) -> Value:
    """Return the entries, of 256, at distances of bytes: an index that was uint8 needs no check."""
    index = ctx.cast(ctx.cast(steps, "uint8"), "int32")
    return ctx.emit("gather", [ctx.const(table), index], axis=0)


def sum_of_powers(ctx: OpContext, powers: Value) -> Value:
    """Return the sum over the last axis, with 12 integer bits."""
    shifted = ctx.emit("fixed_shift", [powers, ctx.const(12, np.int32)])
    return ctx.emit("reduce_sum", [shifted], axes=(powers.type.rank - 1,), keepdims=True)


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
    log = _logarithm(ctx, sum_of_powers(ctx, powers))
    # beyond this distance the result would exceed 5 integer bits after subtracting the logarithm
    nearest = ctx.const(-radius - 1, np.int32)
    if scale:
        back, exponent = multiplier(ratio(2.0 ** (31 - e), float(m)))
        headroom = ctx.emit("add", [log, ctx.const(-(2**31), np.int32)])
        parts = [headroom, ctx.const(back, np.int32), ctx.const(exponent, np.int32)]
        nearest = ctx.emit("max", [nearest, ctx.emit("fixed_scale", parts)])
    below = -np.arange(256)
    real = np.where(below < -radius, 0, scale_array(below, m, e)).astype(np.int32)
    real_steps = look_up(ctx, real, steps)
    y = ctx.emit("sub", [real_steps, log])
    y = ctx.emit("fixed_shift", [y, ctx.const(22, np.int32)])
    inside = ctx.emit("greater", [ctx.emit("neg", [steps]), nearest])
    y = ctx.emit("where", [inside, y, ctx.const(-255, np.int32)])
    return clamp_and_cast(ctx, y, zero)


def _logarithm(ctx: OpContext, total: Value) -> Value:
    """Return the natural logarithm, with 5 integer bits, of numbers >= 1 with 12 integer bits.

    The number is split into a power of two (in steps of a half) times a fraction r near
    1 / 2 ** 0.25; the logarithm of r is a rational function.
    """
    r, power = _reduced(ctx, total)
    q = ctx.emit("sub", [r, ctx.const(ROOT_ROOT_HALF, np.int32)])
    q = ctx.emit("add", [q, q])
    square = _product(ctx, q, q)
    numerator = ctx.emit(
        "add", [_product(ctx, q, r), _product(ctx, _product(ctx, q, square), NUMERATOR)]
    )
    first, second, third = DENOMINATOR
    inner = ctx.emit("add", [ctx.const(first, np.int32), q])
    inner = ctx.emit("add", [inner, _product(ctx, square, second)])
    denominator = ctx.emit(
        "add", [_product(ctx, _half_sum(ctx, r), inner), _product(ctx, q, third)]
    )
    inverse = ctx.emit("fixed_reciprocal", [denominator])
    part = ctx.emit("fixed_shift", [numerator, ctx.const(6, np.int32)])
    y = ctx.emit("add", [_product(ctx, power, LOG_2), _product(ctx, part, inverse)])
    return ctx.emit("add", [y, y])


def _reduced(ctx: OpContext, z: Value) -> tuple[Value, Value]:
    """Return r as a fraction from 0.707 to 1, and the exponent of two, with 6 integer bits."""
    one, limit = ctx.const(1, np.int32), ctx.const(INT32_MAX, np.int32)
    zeros = ctx.emit("leading_zeros", [z])
    headroom = ctx.emit("sub", [zeros, one])
    raised = ctx.emit("shift_left", [z, headroom])
    low = _product(ctx, raised, ROOT_HALF)
    low = ctx.emit("where", [
        ctx.emit("less", [low, ctx.const(1 << 30, np.int32)]), ctx.emit("add", [low, low]), limit,
    ])  # fmt: skip
    next_headroom = ctx.emit("leading_zeros", [_product(ctx, z, ROOT_HALF)])
    next_headroom = ctx.emit("sub", [next_headroom, one])
    high = ctx.emit("where", [ctx.emit("equal", [next_headroom, headroom]), raised, limit])
    powers = [
        ctx.emit("add", [
            ctx.emit("mul", [ctx.emit("sub", [ctx.const(12, np.int32), bits]),
                             ctx.const(1 << 25, np.int32)]),
            ctx.const(quarter, np.int32),
        ])
        for bits, quarter in ((zeros, 1 << 23), (next_headroom, -(1 << 23)))
    ]  # fmt: skip
    return ctx.emit("min", [low, high]), ctx.emit("max", powers)


def _half_sum(ctx: OpContext, r: Value) -> Value:
    """Return (r + 1 / 2 ** 0.25) / 2, rounded half up, without the 32-bit sum overflowing."""
    other = ctx.const(ROOT_ROOT_HALF, np.int32)
    both, one = ctx.emit("bit_and", [r, other]), ctx.const(1, np.int32)
    either = ctx.emit("bit_xor", [r, other])
    half = ctx.emit("add", [ctx.emit("shift_right", [either, one]), both])
    return ctx.emit("add", [half, ctx.emit("bit_and", [either, one])])


def _product(ctx: OpContext, a: Value, b: Value | int) -> Value:
    return ctx.emit("fixed_product", [a, ctx.const(b, np.int32) if isinstance(b, int) else b])
