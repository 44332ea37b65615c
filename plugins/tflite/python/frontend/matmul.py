"""Matmul operators, floating-point and integer."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.arithmetic import multiplier
from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend import blockwise_quantization
from tvmrt.plugins.tflite.frontend.activation import apply_activation
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.hybrid import hybrid_batch_matmul, hybrid_row_matmul
from tvmrt.plugins.tflite.frontend.integer_accumulators import accumulate_integers, of_type
from tvmrt.plugins.tflite.frontend.multipliers import f32, ratio
from tvmrt.plugins.tflite.frontend.registry import tflite_op
from tvmrt.plugins.tflite.frontend.requantize import clamp_and_cast, finish, scale_fixed_point


@tflite_op(FULLY_CONNECTED=14)
def fully_connected(ctx: OpContext) -> Value:
    x, w = ctx.required(0), ctx.required(1)
    if ctx.options["weights_format"]:
        raise UnsupportedError("weights in the shuffled format are not supported")
    if w.type.rank != 2 or not w.shape[1] or x.type.size % w.shape[1]:
        raise ValueError(f"weights {w.type} do not fit {x.type}")
    units, depth = w.shape
    keep = ctx.options["keep_num_dims"]
    shape = (*x.shape[:-1], units) if keep else (x.type.size // depth, units)
    rows = ctx.reshape(x, (x.type.size // depth, depth))
    if ctx.tensor(1).blocks is not None:
        y = ctx.add_optional(blockwise_quantization.product(ctx, rows), ctx.input(2))
        return ctx.reshape(apply_activation(ctx, y), shape)
    columns = ctx.transpose(w, (1, 0))
    if x.dtype.name == "float32" and w.dtype.name == "float32":
        y = ctx.add_optional(ctx.emit("matmul", [rows, columns]), ctx.input(2))
        return ctx.reshape(apply_activation(ctx, y), shape)

    if x.dtype.name == "float32":
        y = hybrid_row_matmul(ctx, rows, columns, bool(ctx.options["asymmetric"]))
        return ctx.reshape(apply_activation(ctx, y), shape)
    if not w.is_constant:
        raise UnsupportedError("the weights of FULLY_CONNECTED are computed at run time")

    def product(operands: list, **extra) -> Value:
        return ctx.emit(of_type("qmatmul", x), operands, **extra)

    accumulators = accumulate_integers(ctx, rows, columns, product, (-1,), 0)
    return ctx.reshape(finish(ctx, accumulators, by_float=not ctx.micro), shape)


@tflite_op(BATCH_MATMUL=4)
def batch_matmul(ctx: OpContext) -> Value:
    a, b = ctx.required(0), ctx.required(1)
    if min(a.type.rank, b.type.rank) < 2:
        raise ValueError(f"{a.type} and {b.type} cannot be multiplied")
    a = ctx.swap_last_axes(a) if ctx.options["adj_x"] else a
    b = ctx.swap_last_axes(b) if ctx.options["adj_y"] else b
    if a.dtype.name == "float32" and b.dtype.name == "float32":
        return ctx.emit("matmul", [a, b])
    if a.dtype.name == "float32":
        return hybrid_batch_matmul(ctx, a, b, bool(ctx.options["asymmetric"]))
    (a_scale, a_zero), (b_scale, b_zero) = (ctx.per_tensor(ctx.tensor(i)) for i in (0, 1))
    y_scale, zero = ctx.per_tensor(ctx.result())
    real = ratio(float(f32(a_scale * b_scale)), float(y_scale))
    if a.dtype.name == "int16":
        m, e = multiplier(real)
        total = _int16_matmul(ctx, a, b)
        y = ctx.emit("fixed_scale_wide", [total, ctx.const(m, np.int32), ctx.const(e, np.int32)])
        return clamp_and_cast(ctx, y, zero)
    return clamp_and_cast(
        ctx, scale_fixed_point(ctx, _int8_matmul(ctx, a, b, a_zero, b_zero), real), zero
    )


def _int8_matmul(ctx: OpContext, a: Value, b: Value, a_zero: int, b_zero: int) -> Value:
    one = ctx.const(1.0, np.float32)
    zeros = {"x_zero": a_zero, "w_zero": b_zero}
    return ctx.emit("qmatmul_computed", [a, b, one], to="int32", **zeros)


def _split_int16(ctx: OpContext, x: Value) -> tuple[Value, Value]:
    """Split int16 into signed high and unsigned low bytes: x = 256 * high + low."""
    high = ctx.cast(ctx.emit("shift_right", [x, ctx.const(8, np.int16)]), "int8")
    return high, ctx.cast(ctx.emit("bit_and", [x, ctx.const(255, np.int16)]), "uint8")


def _int16_matmul(ctx: OpContext, a: Value, b: Value) -> Value:
    """Multiply int16 by int16 or int8 in int64, as 8-bit matmuls of high and low bytes."""
    total = None
    for i, left in enumerate(_split_int16(ctx, a)):
        rights = [(8, b)] if b.dtype.bits == 8 else list(zip((0, 8), _split_int16(ctx, b)))
        for j, right in rights:
            part = ctx.cast(_int8_matmul(ctx, left, right, 0, 0), "int64")
            raised = ctx.const(1 << (8 * (1 - i) + 8 - j), np.int64)
            part = ctx.emit("mul", [part, raised])
            total = part if total is None else ctx.emit("add", [total, part])
    return total


@tflite_op(MATRIX_DIAG=1, MATRIX_SET_DIAG=1)
def diagonal(ctx: OpContext) -> Value:
    """Set the diagonals of zero matrices (MATRIX_DIAG) or of operand 0 (MATRIX_SET_DIAG)."""
    if ctx.op.name == "MATRIX_DIAG":
        line = ctx.required(0)
        rows = columns = line.shape[-1]
        others = ctx.like(0, line)
    else:
        others, line = ctx.required(0), ctx.required(1)
        rows, columns = others.shape[-2:]
    # broadcast the diagonal along its shorter dimension: one element per row or per column
    shape = (*line.shape, 1) if rows <= columns else (*line.shape[:-1], 1, line.shape[-1])
    is_diagonal = ctx.const(np.eye(rows, columns, dtype=bool))
    return ctx.emit("where", [is_diagonal, ctx.reshape(line, shape), others])
