"""Activation operators, and activations fused into other operators."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.arithmetic import multiplier
from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import QUANTIZED, OpContext
from tvmrt.plugins.tflite.frontend.lookup_tables_int8 import result_table, scale_array
from tvmrt.plugins.tflite.frontend.multipliers import BOUNDS, activation_name, f32, ratio
from tvmrt.plugins.tflite.frontend.registry import tflite_op
from tvmrt.plugins.tflite.frontend.requantize import (
    clamp_and_cast,
    scale_fixed_point,
    subtract_zero_point,
)


def apply_activation(ctx: OpContext, y: Value) -> Value:
    """Apply the operator's fused activation to a result without quantisation."""
    name = activation_name(ctx.options.get("act", 0))
    if name == "TANH" and y.dtype.is_float:
        return ctx.emit("tanh", [y])
    if name not in BOUNDS:
        raise UnsupportedError(f"activation {name}")
    return clamp_to_bounds(ctx, y, name)


def clamp_to_bounds(ctx: OpContext, y: Value, name: str) -> Value:
    low, high = BOUNDS[name]
    if low == 0.0 and high is None:
        return ctx.emit("relu", [y])
    return ctx.clamp(y, low, high)


@tflite_op(RELU=3, RELU6=3, RELU_N1_TO_1=1, RELU_0_TO_1=1)
def relu(ctx: OpContext) -> Value:
    x, name = ctx.required(0), ctx.op.name
    if x.dtype.name not in QUANTIZED or ctx.tensor(0).quantization is None:
        return clamp_to_bounds(ctx, x, name)
    (x_scale, _), (y_scale, zero) = ctx.per_tensor(ctx.tensor(0)), ctx.per_tensor(ctx.result())
    m, e = multiplier(float(ratio(x_scale, y_scale)))
    if x.dtype.bits == 8:
        return result_table(ctx, lambda q: scale_array(q, m, e), name)
    return clamp_and_cast(
        ctx,
        scale_fixed_point(ctx, subtract_zero_point(ctx, 0), float(ratio(x_scale, y_scale))),
        zero,
        name,
    )


@tflite_op(LEAKY_RELU=2)
def leaky_relu(ctx: OpContext) -> Value:
    x, alpha = ctx.required(0), f32(ctx.options["alpha"])
    if x.dtype.name == "float32":
        return ctx.emit("prelu", [x, ctx.const(alpha)])
    (x_scale, _), (y_scale, zero) = ctx.per_tensor(ctx.tensor(0)), ctx.per_tensor(ctx.result())
    reals = [float(ratio(x_scale, y_scale)), float(ratio(f32(x_scale * alpha), y_scale))]
    if x.dtype.bits == 8:
        (m, e), (n, f) = (multiplier(real) for real in reals)

        def entries(q: np.ndarray) -> np.ndarray:
            rest = -scale_array(q, -n, f) if n < 0 else scale_array(q, n, f)
            return np.where(q >= 0, scale_array(q, m, e), rest)

        return result_table(ctx, entries)
    x = subtract_zero_point(ctx, 0)
    rest = scale_fixed_point(ctx, x, abs(reals[1]))
    rest = ctx.emit("neg", [rest]) if reals[1] < 0 else rest
    positive = ctx.emit("greater_equal", [x, ctx.const(0, np.int32)])
    return clamp_and_cast(
        ctx, ctx.emit("where", [positive, scale_fixed_point(ctx, x, reals[0]), rest]), zero
    )


@tflite_op(PRELU=1)
def prelu(ctx: OpContext) -> Value:
    x, slope = ctx.required(0), ctx.required(1)
    if x.dtype.name == "float32":
        return ctx.emit("prelu", [x, slope])
    (x_scale, _), (a_scale, _) = (ctx.per_tensor(ctx.tensor(i)) for i in (0, 1))
    y_scale, zero = ctx.per_tensor(ctx.result())
    x, slope = subtract_zero_point(ctx, 0), subtract_zero_point(ctx, 1)
    plain = scale_fixed_point(ctx, x, float(ratio(x_scale, y_scale)))
    rest = scale_fixed_point(
        ctx, ctx.emit("mul", [x, slope]), float(ratio(f32(x_scale * a_scale), y_scale))
    )
    positive = ctx.emit("greater_equal", [x, ctx.const(0, np.int32)])
    return clamp_and_cast(ctx, ctx.emit("where", [positive, plain, rest]), zero)
