"""QUANTIZE, DEQUANTIZE and requantisation."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.arithmetic import multiplier, storage_range
from tvmrt.compiler.sdk.graph import DTYPES, Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import QUANTIZED, OpContext
from tvmrt.plugins.tflite.frontend.lookup_tables_int8 import result_table, scale_array
from tvmrt.plugins.tflite.frontend.model_file import Tensor
from tvmrt.plugins.tflite.frontend.multipliers import ratio
from tvmrt.plugins.tflite.frontend.registry import tflite_op
from tvmrt.plugins.tflite.frontend.requantize import (
    clamp_and_cast,
    scale_fixed_point,
    subtract_zero_point,
)


@tflite_op(QUANTIZE=6)
def quantize(ctx: OpContext) -> Value:
    x, to = ctx.required(0), ctx.result().dtype
    if to not in QUANTIZED and (x.dtype.name, to) != ("int16", "int32"):
        results = ", ".join((*QUANTIZED, *(["int32"] if x.dtype.name == "int16" else [])))
        raise UnsupportedError(
            f"tensor {ctx.result().name} has elements of {to}; QUANTIZE of {x.dtype} is compiled "
            f"for results of {results}"
        )
    if x.dtype.is_float:
        return _from_floats(ctx, x, to)
    (x_scale, x_zero), (y_scale, zero) = ctx.per_tensor(ctx.tensor(0)), ctx.per_tensor(ctx.result())
    if x_scale == y_scale and x_zero == zero and x.dtype.name == to:
        return x
    m, e = multiplier(ratio(float(x_scale), float(y_scale)))
    if x.dtype.bits == 8 and DTYPES[to].bits == 8:
        same = x_scale == y_scale and abs(x_zero - zero) == 128 and x.dtype.name != to
        return result_table(ctx, lambda q: q if same else scale_array(q, m, e))
    steps = scale_fixed_point(
        ctx, subtract_zero_point(ctx, 0), ratio(float(x_scale), float(y_scale))
    )
    if to == "int32":
        return ctx.emit("add", [steps, ctx.const(zero, np.int32)]) if zero else steps
    return clamp_and_cast(ctx, steps, zero)


def _from_floats(ctx: OpContext, x: Value, to: str) -> Value:
    scale, zero = _broadcast_parameters(ctx, ctx.result(), x)
    # a tensor with scale 0 is all zero, so its input is ignored
    steps = ctx.emit("div", [x, ctx.const(np.where(scale > 0, scale, np.inf), np.float32)])
    whole = ctx.emit("round_away", [steps])
    moved = ctx.emit("add", [whole, ctx.const(zero, np.float32)]) if zero.any() else whole
    return ctx.cast(ctx.clamp(moved, *storage_range(DTYPES[to])), to)


def _broadcast_parameters(
    ctx: OpContext, tensor: Tensor, x: Value
) -> tuple[np.ndarray, np.ndarray]:
    """Return a tensor's scales and zero points, shaped to broadcast over x."""
    q = ctx.quantization(tensor)
    shape = [q.scale.size if d == q.axis else 1 for d in range(x.type.rank)] if q.per_axis else ()
    return q.scale.reshape(shape), q.zero[: q.scale.size].reshape(shape)


@tflite_op(DEQUANTIZE=9)
def dequantize(ctx: OpContext) -> Value:
    x = ctx.required(0)
    if x.dtype.is_half:
        return ctx.cast(x, "float32")
    scale, zero = _broadcast_parameters(ctx, ctx.tensor(0), x)
    steps = ctx.cast(x, "int32")
    if zero.any():
        steps = ctx.emit("sub", [steps, ctx.const(zero, np.int32)])
    return ctx.emit("mul", [ctx.cast(steps, "float32"), ctx.const(scale, np.float32)])


@tflite_op(FAKE_QUANT=2)
def fake_quantize(ctx: OpContext) -> Value:
    raise UnsupportedError("fake quantisation is not supported; convert the model to integers")
