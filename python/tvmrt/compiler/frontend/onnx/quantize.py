"""Quantised operators: dequantised operands, the float operator, and a quantised result.

``transform/form_quantized_ops.py`` turns these into integer kernels; patterns that it does not
match remain in float. Integer matmuls and convolutions (MatMulInteger, ConvInteger) become integer
kernels directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tvmrt.compiler.ir import Value, reference_conv
from tvmrt.compiler.ir.sizes import SymInt, symbols_of, upper_bound
from tvmrt.error import UnsupportedError, UnsupportedSizes
from tvmrt.option_syntax import option

from .context import NodeContext
from .convolution import convolution, convolution_window
from .elementwise import element_type
from .matmul import numpy_matmul
from .registry import onnx_op
from .scales import align_parameters, dequantize, quantize

MAX_EXACT_FLOAT = 1 << 24  # integers up to this are exact in float32
MAX_EXACT_FLOAT_TERMS = 256  # the sum of this many products of 9-bit numbers is exact in float32


@onnx_op("DequantizeLinear")
def dequantize_linear(ctx: NodeContext) -> Value:
    axis, block = ctx.attr("axis", 1), ctx.attr("block_size", 0)
    return dequantize(ctx, ctx.required(0), ctx.required(1), ctx.input(2), axis, block)


@onnx_op("QuantizeLinear")
def quantize_linear(ctx: NodeContext) -> Value:
    axis, block = ctx.attr("axis", 1), ctx.attr("block_size", 0)
    default = "uint8"
    if ctx.attr("output_dtype", 0):
        default = element_type(ctx.attr("output_dtype"))
    saturate = bool(ctx.attr("saturate", 1))
    operands = ctx.required(0), ctx.required(1), ctx.input(2)
    return quantize(ctx, *operands, axis, block, default, saturate)


@onnx_op("DynamicQuantizeLinear")
def dynamic_quantize_linear(ctx: NodeContext) -> list[Value]:
    return list(dynamic_quantized(ctx, ctx.required(0)))


def dynamic_quantized(ctx: NodeContext, x: Value) -> tuple[Value, Value, Value]:
    """Return uint8 elements, scale and zero point from the range of x, which includes 0."""
    axes = tuple(range(len(x.shape)))
    zero = ctx.const(0, np.float32)
    low = ctx.emit("min", [ctx.emit("reduce_min", [x], axes=axes, keepdims=0), zero])
    high = ctx.emit("max", [ctx.emit("reduce_max", [x], axes=axes, keepdims=0), zero])
    width = ctx.emit("sub", [high, low])
    # a tensor of zeros has no range; any scale is valid
    some = ctx.emit("equal", [width, zero])
    scale = ctx.emit("div", [width, ctx.const(255, np.float32)])
    scale = ctx.emit("where", [some, ctx.const(1, np.float32), scale])
    point = ctx.emit("sub", [zero, low])
    point = ctx.emit("quantize", [point, scale, ctx.const(0, np.uint8)])
    return ctx.emit("quantize", [x, scale, point]), scale, point


# Matmul.


def dequantize_operand(
    ctx: NodeContext, q: Value, scale: Value, zero: Value | None, axis: int
) -> Value:
    """Dequantise a matmul operand. Parameters are one number, or a vector along an axis: -2 for
    rows of the left operand, -1 for columns of the right one. Higher ranks become vectors."""
    for p in (scale, zero):
        if p is not None and len(p.shape) > 1 and p.type.size not in (1, p.shape[axis]):
            raise UnsupportedError(f"parameters {p.type} that differ between batch elements")
    axis = axis if len(q.shape) > 1 else 0
    return dequantize(ctx, q, flatten_parameters(ctx, scale), flatten_parameters(ctx, zero), axis)


@onnx_op("QLinearConv")
def qlinear_conv(ctx: NodeContext) -> Value:
    return emit_qlinear_conv(ctx, ctx.required(0))


def emit_qlinear_conv(ctx: NodeContext, q: Value) -> Value:
    """Emit the node's convolution of ``q``, [N, C, ...], which is its first operand, possibly
    transposed."""
    w, bias = ctx.required(3), ctx.input(8)
    attrs = convolution_window(ctx, q, w)
    x = dequantize(ctx, q, ctx.required(1), ctx.input(2))
    w = dequantize(ctx, w, ctx.required(4), ctx.input(5), 0)
    if bias is not None:
        bias = int_bias(ctx, bias, ctx.required(1), ctx.required(4))
    out = convolution(ctx, x, w, bias, ctx.attr("group", 1), attrs)
    return quantize(ctx, out, ctx.required(6), ctx.input(7), default=q.dtype.name)


def int_bias(ctx: NodeContext, bias: Value, x_scale: Value, w_scale: Value) -> Value:
    """Dequantise an int32 bias, whose unit is the product of both scales."""
    x_scale = ctx.reshape(x_scale, ())
    w_scale = ctx.reshape(w_scale, () if w_scale.type.size == 1 else (w_scale.type.size,))
    bias = ctx.reshape(bias, (bias.type.size,))
    return dequantize(ctx, bias, ctx.emit("mul", [x_scale, w_scale]), None, 0)


@onnx_op("QLinearMatMul")
def qlinear_matmul(ctx: NodeContext) -> Value:
    a = dequantize_operand(ctx, ctx.required(0), ctx.required(1), ctx.input(2), -2)
    b = dequantize_operand(ctx, ctx.required(3), ctx.required(4), ctx.input(5), -1)
    out = numpy_matmul(ctx, a, b)
    return quantize(ctx, out, ctx.required(6), ctx.input(7), -2, default=ctx.required(0).dtype.name)


def flatten_parameters(ctx: NodeContext, p: Value | None) -> Value | None:
    return p if p is None or len(p.shape) <= 1 else ctx.reshape(p, (p.type.size,))


@onnx_op("MatMulInteger")
def matmul_integer(ctx: NodeContext) -> Value:
    return integer_matmul(ctx, ctx.required(0), ctx.required(1), ctx.input(2), ctx.input(3))


def integer_matmul(
    ctx: NodeContext, a: Value, b: Value, a_zero: Value | None, b_zero: Value | None
) -> Value:
    """Return the exact int32 matmul of (a - a_zero) and (b - b_zero).

    Zero points are one number, one per row of a, or one per column of b.
    """
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise UnsupportedError("an integer matmul of vectors; reshape them to matrices")
    a_zero, b_zero = (
        _broadcast_zero_point(ctx, z, axis) for z, axis in ((a_zero, -2), (b_zero, -1))
    )
    is_constant = b.is_constant and (b_zero is None or b_zero.is_constant)
    if not is_constant or len(b.shape) != 2:
        return _matmul_in_float(ctx, a, b, a_zero, b_zero)
    fixed = a_zero is not None and a_zero.is_constant and a_zero.type.size == 1
    out = ctx.emit(
        "qmatmul",
        [a, b, ctx.const(1, np.float32), None, _weight_zero_point(ctx, b_zero)],
        x_zero=int(a_zero.data.reshape(())) if fixed else 0,
        to="int32",
    )
    if a_zero is None or fixed:
        return out
    centred = b.data.astype(np.int64) - (0 if b_zero is None else b_zero.data.astype(np.int64))
    zero_point_term = ctx.const(centred.sum(axis=0), np.int32)
    return ctx.emit("sub", [out, ctx.emit("mul", [ctx.cast(a_zero, "int32"), zero_point_term])])


def _broadcast_zero_point(ctx: NodeContext, zero: Value | None, axis: int) -> Value | None:
    """Reshape a zero point to broadcast with a matrix: a scalar, or a vector along the axis."""
    if zero is None:
        return None
    if zero.type.size == 1:
        return ctx.reshape(zero, ())
    if len(zero.shape) > 1:
        return zero
    return ctx.reshape(zero, (zero.shape[0], 1) if axis == -2 else (1, zero.shape[0]))


def _matmul_in_float(ctx: NodeContext, a: Value, b: Value, a_zero, b_zero) -> Value:
    """Emit float matmuls over slices so short that each sum is exact, and add as integers."""
    a, b = _subtract_zero_point(ctx, a, a_zero), _subtract_zero_point(ctx, b, b_zero)
    depth = a.shape[-1]
    if upper_bound(depth) <= MAX_EXACT_FLOAT_TERMS:
        return ctx.cast(ctx.emit("matmul", [a, b]), "int32")
    total = None
    for start in range(0, depth, MAX_EXACT_FLOAT_TERMS):
        size = min(MAX_EXACT_FLOAT_TERMS, depth - start)
        left = ctx.slice_axis(a, len(a.shape) - 1, start, size)
        right = ctx.slice_axis(b, len(b.shape) - 2, start, size)
        part = ctx.cast(ctx.emit("matmul", [left, right]), "int32")
        total = part if total is None else ctx.emit("add", [total, part])
    return total


def _subtract_zero_point(ctx: NodeContext, q: Value, zero: Value | None) -> Value:
    """Return q - zero as exact floats."""
    wide = ctx.cast(q, "int32")
    if zero is not None:
        wide = ctx.emit("sub", [wide, ctx.cast(zero, "int32")])
    return ctx.cast(wide, "float32")


@onnx_op("ConvInteger")
def conv_integer(ctx: NodeContext) -> Value:
    x, w, x_zero, w_zero = ctx.required(0), ctx.required(1), ctx.input(2), ctx.input(3)
    attrs = convolution_window(ctx, x, w)
    if x_zero is not None and x_zero.type.size != 1:
        raise UnsupportedError("a zero point for each channel of ConvInteger's input")
    if not w.is_constant or not (w_zero is None or w_zero.is_constant):
        return _conv_in_float(ctx, x, w, x_zero, w_zero, attrs)
    attrs["groups"] = ctx.attr("group", 1)
    fixed = x_zero is None or x_zero.is_constant
    out = ctx.emit(
        "qconv",
        [x, w, ctx.const(1, np.float32), None, _weight_zero_point(ctx, w_zero)],
        x_zero=int(x_zero.data.reshape(())) if fixed and x_zero is not None else 0,
        to="int32",
        **attrs,
    )
    if fixed:
        return out
    # the zero point's contribution per output element: the sum of weights, fewer at padding
    centred = w.data.astype(np.float64)
    if w_zero is not None:
        centred -= w_zero.data.astype(np.float64).reshape(-1, *[1] * (w.type.rank - 1))
    taps = centred.sum(axis=1, keepdims=True)
    zero_point_term = _sums_of_weights(ctx, x.shape[2:], taps, {**attrs, "groups": 1})
    zero = ctx.reshape(ctx.cast(x_zero, "int32"), ())
    return ctx.emit("sub", [out, ctx.emit("mul", [zero, zero_point_term])])


def _sums_of_weights(
    ctx: NodeContext, spatial: Sequence[SymInt], taps: np.ndarray, attrs: dict
) -> Value:
    """Return the int32 sum of the weights within the picture for each element of the result."""
    if not symbols_of(tuple(spatial)):
        sums = reference_conv.conv(np.ones((1, 1, *spatial)), taps, None, attrs)
        return ctx.const(sums, np.int32)
    if np.abs(taps).sum(axis=tuple(range(1, taps.ndim))).max(initial=0) > MAX_EXACT_FLOAT:
        raise UnsupportedSizes(
            "a zero point that is computed at run time, with weights whose sum may not be exact in "
            f"float32, over a picture of open size; fix it with {option('shapes')}"
        )
    ones = ctx.expand(ctx.const(np.ones((1,) * taps.ndim), np.float32), (1, 1, *spatial))
    return ctx.cast(ctx.emit("conv", [ones, ctx.const(taps, np.float32)], **attrs), "int32")


def _conv_in_float(ctx: NodeContext, x: Value, w: Value, x_zero, w_zero, attrs: dict) -> Value:
    """Emit float convolutions of so few channels that each sum is exact, and add as integers."""
    groups, (depth, *kernel) = ctx.attr("group", 1), w.shape[1:]
    step = MAX_EXACT_FLOAT_TERMS // max(prod(kernel), 1)
    if step < (1 if groups == 1 else depth):
        raise UnsupportedError(
            f"weights {w.type} in {groups} groups that are computed at run time; sums of more "
            f"than {MAX_EXACT_FLOAT_TERMS} products may be inexact"
        )
    x = _subtract_zero_point(ctx, x, None if x_zero is None else ctx.reshape(x_zero, ()))
    if w_zero is not None:
        w_zero = ctx.reshape(w_zero, (w_zero.type.size, *[1] * (len(w.shape) - 1)))
    w = _subtract_zero_point(ctx, w, w_zero)
    total = None
    for start in range(0, depth, step):
        size = min(step, depth - start)
        some = x if groups > 1 else ctx.slice_axis(x, 1, start, size)
        part = convolution(ctx, some, ctx.slice_axis(w, 1, start, size), None, groups, attrs)
        part = ctx.cast(part, "int32")
        total = part if total is None else ctx.emit("add", [total, part])
    return total


def _weight_zero_point(ctx: NodeContext, zero: Value | None) -> Value | None:
    return None if zero is None else ctx.reshape(ctx.cast(zero, "int32"), (zero.type.size,))


def dequantize_accumulator(
    ctx: NodeContext, acc: Value, a_scale, b_scale, bias: Value | None
) -> Value:
    """Return acc * a_scale * b_scale + bias; b_scale may be a vector along the columns."""
    a_scale = align_parameters(ctx, a_scale, acc.shape, -2)
    b_scale = align_parameters(ctx, b_scale, acc.shape, -1)
    out = ctx.emit("mul", [ctx.cast(acc, "float32"), ctx.emit("mul", [a_scale, b_scale])])
    return ctx.add_optional(out, bias)
