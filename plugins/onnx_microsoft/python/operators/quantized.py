"""Operators on quantised tensors: dequantised operands, the float operator, a quantised result.

``transform/form_quantized_ops.py`` turns these into integer kernels where possible, as for ONNX's
own.
"""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.frontend import (
    NodeContext,
    dequantize,
    dequantize_accumulator,
    dequantize_linear,
    dequantize_operand,
    dynamic_quantized,
    flatten_parameters,
    int_bias,
    integer_matmul,
    is_global,
    pool,
    pool_window,
    quantize,
    quantize_linear,
)
from tvmrt.compiler.sdk.graph import Value, normalize_axis
from tvmrt.plugins.onnx_microsoft.operators.convolution import WINDOW, channels_first, channels_last
from tvmrt.plugins.onnx_microsoft.operators.domain import ms_op


def _int8_arg(name: str) -> str:
    """Return the contract text of an int8 operand, its scale and its optional zero point."""
    return f"{name}: byte[*], {name}_scale: float[*], {name}_zero?: byte[*]"


_RESULT = "result_scale: float[*], result_zero?: byte[*]"
_LINEAR = "axis?: int, block_size?: int 0.., output_dtype?: int, precision?: int"

# onnxruntime writes 16-bit quantisation with its own domain
ms_op(
    "DequantizeLinear",
    takes="x: integer[*], scale: float[*], zero?: integer[*]",
    attributes=_LINEAR,
)(dequantize_linear)
ms_op(
    "QuantizeLinear",
    takes="x: float[*], scale: float[*], zero?: integer[*]",
    attributes=f"{_LINEAR}, saturate?: int 0..1",
)(quantize_linear)


@ms_op(
    "QGemm",
    takes=f"{_int8_arg('a')}, {_int8_arg('b')}, c?: int32[*], y_scale?: float[*], y_zero?: byte[*]",
    attributes="alpha?: float, transA?: int 0..1, transB?: int 0..1",
)
def qgemm(ctx: NodeContext) -> Value:
    a = dequantize_operand(ctx, ctx.required(0), ctx.required(1), ctx.input(2), -2)
    b, w_scale = ctx.required(3), ctx.required(4)
    alpha = ctx.attr("alpha", 1.0)
    # per-column parameters of the product are per-row parameters of a transposed operand
    axis = 0 if ctx.attr("transB", 0) else 1
    b = dequantize(
        ctx, b, flatten_parameters(ctx, w_scale), flatten_parameters(ctx, ctx.input(5)), axis
    )
    a = ctx.transpose(a, (1, 0)) if ctx.attr("transA", 0) else a
    b = ctx.transpose(b, (1, 0)) if ctx.attr("transB", 0) else b
    out = ctx.emit("matmul", [a, b])
    if ctx.input(6) is not None:
        bias = int_bias(ctx, ctx.required(6), ctx.required(1), w_scale)
        out = ctx.emit("add", [out, bias])
    if alpha != 1.0:
        out = ctx.emit("mul", [out, ctx.const(alpha, np.float32)])
    if ctx.input(7) is None:
        return out
    return quantize(ctx, out, ctx.required(7), ctx.input(8), default=ctx.required(0).dtype.name)


@ms_op(
    "MatMulIntegerToFloat",
    takes=(
        "a: byte[*A], b: byte[*B], a_scale: E=float[*], b_scale: E[*], a_zero?: byte[*], "
        "b_zero?: byte[*], bias?: E[_]"
    ),
)
def matmul_integer_to_float(ctx: NodeContext) -> Value:
    a, b = ctx.required(0), ctx.required(1)
    acc = integer_matmul(ctx, a, b, ctx.input(4), ctx.input(5))
    return dequantize_accumulator(ctx, acc, ctx.required(2), ctx.required(3), ctx.input(6))


@ms_op(
    "DynamicQuantizeMatMul",
    takes="a: E=float[*A], b: byte[*B], b_scale: E[*], b_zero?: byte[*], bias?: E[_]",
)
def dynamic_quantize_matmul(ctx: NodeContext) -> Value:
    q, scale, zero = dynamic_quantized(ctx, ctx.required(0))
    acc = integer_matmul(ctx, q, ctx.required(1), zero, ctx.input(3))
    return dequantize_accumulator(ctx, acc, scale, ctx.required(2), ctx.input(4))


def _operand(ctx: NodeContext, index: int) -> Value:
    """Dequantise operand ``index`` with the scale and zero point in the next two inputs."""
    return dequantize(ctx, ctx.required(index), ctx.required(index + 1), ctx.input(index + 2))


def _result(ctx: NodeContext, out: Value, index: int, like: int = 0) -> Value:
    return quantize(
        ctx, out, ctx.required(index), ctx.input(index + 1), default=ctx.required(like).dtype.name
    )


@ms_op("QLinearAdd", "QLinearMul", takes=f"{_int8_arg('a')}, {_int8_arg('b')}, {_RESULT}")
def qlinear_binary(ctx: NodeContext) -> Value:
    op = "add" if ctx.op == "QLinearAdd" else "mul"
    return _result(ctx, ctx.emit(op, [_operand(ctx, 0), _operand(ctx, 3)]), 6)


@ms_op("QLinearSigmoid", takes=f"{_int8_arg('x')}, {_RESULT}")
def qlinear_sigmoid(ctx: NodeContext) -> Value:
    return _result(ctx, ctx.emit("sigmoid", [_operand(ctx, 0)]), 3)


@ms_op("QLinearLeakyRelu", takes=f"{_int8_arg('x')}, {_RESULT}", attributes="alpha?: float")
def qlinear_leaky_relu(ctx: NodeContext) -> Value:
    x = _operand(ctx, 0)
    scaled = ctx.emit("mul", [x, ctx.like(ctx.attr("alpha", 0.01), x)])
    negative = ctx.emit("less", [x, ctx.like(0, x)])
    return _result(ctx, ctx.emit("where", [negative, scaled, x]), 3)


@ms_op(
    "QLinearSoftmax", takes=f"{_int8_arg('x')}, {_RESULT}", attributes="axis?: int, opset: int 1.."
)
def qlinear_softmax(ctx: NodeContext) -> Value:
    x = _operand(ctx, 0)
    rank = len(x.shape)
    if ctx.attr("opset", 13) >= 13:
        axis = normalize_axis(ctx.attr("axis", -1), rank)
        return _result(ctx, ctx.emit("softmax", [x], axis=axis), 3)
    # before opset 13, softmax flattens all axes from ``axis`` on
    axis = normalize_axis(ctx.attr("axis", 1), rank)
    lead = int(np.prod(x.shape[:axis], dtype=np.int64))
    flat = ctx.reshape(x, (lead, x.type.size // max(lead, 1)))
    return _result(ctx, ctx.reshape(ctx.emit("softmax", [flat], axis=1), x.shape), 3)


@ms_op(
    "QLinearConcat",
    takes="y_scale: float[*], y_zero: byte[*], parts+: any[*]",
    attributes="axis: int",
)
def qlinear_concat(ctx: NodeContext) -> Value:
    parts = [_operand(ctx, i) for i in range(2, len(ctx.inputs), 3)]
    axis = normalize_axis(ctx.attr("axis"), len(parts[0].shape))
    return _result(ctx, ctx.concat(parts, axis), 0, like=2)


@ms_op(
    "QLinearAveragePool",
    takes=f"{_int8_arg('x')}, {_RESULT}",
    attributes=(
        f"{WINDOW}, ceil_mode?: int 0..1, channels_last?: int 0..1, count_include_pad?: int 0..1"
    ),
)
def qlinear_average_pool(ctx: NodeContext) -> Value:
    last = ctx.attr("channels_last", 0)
    x = channels_first(ctx, ctx.required(0)) if last else ctx.required(0)
    x, attrs = pool_window(ctx, x)
    attrs["count_pads"] = ctx.attr("count_include_pad", 0)
    out = _average_pool(ctx, x, attrs)
    return channels_last(ctx, out) if last else out


def _average_pool(ctx: NodeContext, x: Value, attrs: dict) -> Value:
    """Average windows; onnxruntime adds the zero point before it rounds."""
    kernel_attrs = _kernel_attributes(ctx)
    is_global_pool = is_global(x, attrs)
    if kernel_attrs is not None and not is_global_pool:
        op = "qavg_pool_zero_first" if kernel_attrs["y_zero"] else "qavg_pool"
        return pool(ctx, op, x, attrs, **kernel_attrs)[0]
    x = dequantize(ctx, x, ctx.required(1), ctx.input(2))
    if is_global_pool:
        out = ctx.emit("reduce_mean", [x], axes=tuple(range(2, len(x.shape))), keepdims=1)
    else:
        (out,) = pool(ctx, "avg_pool", x, attrs)
    return _result(ctx, out, 3)


def _kernel_attributes(ctx: NodeContext) -> dict | None:
    """Return the attributes of an int8 kernel if all scales are constant scalars, or None."""
    kind = ctx.required(0).dtype
    ends, attrs = np.iinfo(kind.numpy), {"to": kind.name}
    for name, index in (("x", 1), ("y", 3)):
        pair = [ctx.required(index), ctx.input(index + 1)]
        if any(v is not None and not (v.is_constant and v.type.size == 1) for v in pair):
            return None
        scale, zero = (0 if v is None else v.data.reshape(-1)[0] for v in pair)
        if not 0 < float(scale) < np.inf:
            return None
        attrs |= {f"{name}_scale": float(scale), f"{name}_zero": int(zero)}
    return attrs | {"low": int(ends.min), "high": int(ends.max)}


@ms_op(
    "QLinearGlobalAveragePool",
    takes=f"{_int8_arg('x')}, {_RESULT}",
    attributes="channels_last?: int 0..1",
)
def qlinear_global_average_pool(ctx: NodeContext) -> Value:
    x = _operand(ctx, 0)
    rank = len(x.shape)
    axes = tuple(range(1, rank - 1)) if ctx.attr("channels_last", 0) else tuple(range(2, rank))
    return _result(ctx, ctx.emit("reduce_mean", [x], axes=axes, keepdims=1), 3)


@ms_op(
    "QLinearReduceMean",
    takes=f"{_int8_arg('x')}, {_RESULT}",
    attributes="axes?: ints, keepdims?: int 0..1",
)
def qlinear_reduce_mean(ctx: NodeContext) -> Value:
    x = _operand(ctx, 0)
    rank = len(x.shape)
    axes = tuple(sorted(normalize_axis(a, rank) for a in ctx.attr("axes", range(rank))))
    out = ctx.emit("reduce_mean", [x], axes=axes, keepdims=ctx.attr("keepdims", 1))
    return _result(ctx, out, 3)


@ms_op("QLinearWhere", takes=f"condition: bool[*], {_int8_arg('x')}, {_int8_arg('y')}, {_RESULT}")
def qlinear_where(ctx: NodeContext) -> Value:
    out = ctx.emit("where", [ctx.required(0), _operand(ctx, 1), _operand(ctx, 4)])
    return _result(ctx, out, 7, like=1)
