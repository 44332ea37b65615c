"""SVDF: a filter over the products of the last runs, which are kept in a state."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.activation import apply_activation
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.hybrid import float_operand, hybrid_matmul
from tvmrt.plugins.tflite.frontend.multipliers import f32, ratio
from tvmrt.plugins.tflite.frontend.registry import tflite_op
from tvmrt.plugins.tflite.frontend.requantize import clamp_and_cast, scale_fixed_point


@tflite_op(SVDF=4)
def svdf(ctx: OpContext) -> Value:
    """Operands: x [B, I], weights [F, I], time weights [F, M], bias [F / rank], state
    [B, F * M] with the last M products of each filter."""
    x, w, over_time, state = (ctx.required(i) for i in (0, 1, 2, 4))
    rank = ctx.options["rank"]
    shapes = x.type.rank == w.type.rank == over_time.type.rank == state.type.rank == 2
    if not shapes or x.shape[1] != w.shape[1] or w.shape[0] != over_time.shape[0]:
        raise ValueError(f"weights {w.type} and {over_time.type} do not fit {x.type}")
    filters, memory = over_time.shape
    if rank < 1 or filters % rank or state.shape != (x.shape[0], filters * memory):
        raise ValueError(f"{filters} filters of rank {rank} do not fit a state {state.type}")
    past = ctx.reshape(state, (x.shape[0], filters, memory))
    if x.dtype.name == "int8":
        return _svdf_int8(ctx, x, past)
    if x.dtype.name != "float32":
        raise UnsupportedError(f"a filter over {x.dtype}")
    if w.dtype.name == "float32":
        new = ctx.emit("matmul", [x, ctx.transpose(w, (1, 0))])
    else:
        new = hybrid_matmul(ctx, x, 1, bool(ctx.options["asymmetric"]))
    units = _filter_features(ctx, _push(ctx, past, new), float_operand(ctx, 2), rank)
    return apply_activation(ctx, ctx.add_optional(units, ctx.input(3)))


def _push(ctx: OpContext, past: Value, new: Value) -> Value:
    """Append the new products to the state and drop the oldest ones; return the state."""
    batch, filters, memory = past.shape
    now = ctx.reshape(new, (batch, filters, 1))
    if memory > 1:
        now = ctx.emit("concat", [ctx.slice_axis(past, 2, 1, memory - 1), now], axis=2)
    ctx.set_variable_operand(4, ctx.reshape(now, (batch, filters * memory)))
    return now


def _filter_features(ctx: OpContext, past: Value, over_time: Value, rank: int) -> Value:
    """Sum over time and over the filters of each unit."""
    weighted = ctx.emit("mul", [past, over_time])
    batch, filters, memory = weighted.shape
    parts = ctx.reshape(weighted, (batch, filters // rank, rank * memory))
    return ctx.emit("reduce_sum", [parts], axes=(2,), keepdims=False)


def _svdf_int8(ctx: OpContext, x: Value, past: Value) -> Value:
    """Compute SVDF with x in int8 and the state in int16 or int8."""
    (x_scale, x_zero), (w_scale, w_zero), (t_scale, _), (s_scale, s_zero) = (
        ctx.per_tensor(ctx.tensor(i)) for i in (0, 1, 2, 4)
    )
    w = ctx.constant_operand(1, "the weights")
    if w.dtype != np.int8 or w_zero or past.dtype.name not in ("int8", "int16"):
        raise UnsupportedError(f"weights of {w.dtype} and a memory of {past.dtype}")
    operands = [x, ctx.const(w.T), ctx.const(1.0, np.float32), None, None]
    accumulators = ctx.emit("qmatmul", operands, x_zero=x_zero, to="int32")
    new = scale_fixed_point(ctx, accumulators, float(ratio(f32(x_scale * w_scale), s_scale)))
    bounds = np.iinfo(past.dtype.numpy)
    if s_zero:
        new = ctx.emit("add", [new, ctx.const(s_zero, np.int32)])
    new = ctx.cast(ctx.clamp(new, bounds.min, bounds.max), past.dtype.name)
    now = ctx.cast(_push(ctx, past, new), "int32")
    if s_zero:
        now = ctx.emit("sub", [now, ctx.const(s_zero, np.int32)])
    over_time = ctx.const(ctx.constant_operand(2, "the weights over time").astype(np.int32))
    units = _filter_features(ctx, now, over_time, ctx.options["rank"])
    units = ctx.add_optional(units, ctx.input(3))
    y_scale, zero = ctx.per_tensor(ctx.result())
    return clamp_and_cast(
        ctx, scale_fixed_point(ctx, units, float(ratio(f32(s_scale * t_scale), y_scale))), zero
    )
