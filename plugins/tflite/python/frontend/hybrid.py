"""Hybrid operators: float activations, quantised at run time, with integer weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvmrt.compiler.sdk.graph import Extent, Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import OpContext


def _symmetric(ctx: OpContext, x: Value, axes: tuple[int, ...]) -> tuple[Value, Value]:
    """Quantise to int8 with symmetric scales reduced over ``axes``; return values and scales."""
    a = ctx.formula(x)
    maximum = abs(a).apply("reduce_max", axes=axes, keepdims=True)
    inverse = maximum.equals(0).where(0, 127 / maximum)
    whole = (a * inverse).apply("round_away")
    return whole.clamp(-127, 127).cast("int8").value, (maximum / 127).value


def _asymmetric(ctx: OpContext, x: Value, axes: tuple[int, ...]) -> tuple[Value, Value, Value]:
    """Quantise to int8 over ``axes``; return values, scales and zero points (float32)."""
    a = ctx.formula(x)
    low, high = (
        a.apply(f"reduce_{end}", axes=axes, keepdims=True).cast("float64") for end in ("min", "max")
    )
    low, high = low.minimum(0), high.maximum(0)
    scale = low.equals(high).where(1, (high - low) / 255)
    below, above = low / scale, high / scale
    first, second = -128 - below, 127 - above
    nearer = below.like(128) + abs(below) < above.like(127) + abs(above)
    point = nearer.where(first, second).cast("float32").apply("round_away").clamp(-128, 127)
    scale = scale.cast("float32")
    whole = (a * (1 / scale) + point).apply("round_away")
    return whole.clamp(-128, 127).cast("int8").value, scale.value, point.value


def _quantized_rows(
    ctx: OpContext, x: Value, asymmetric: bool
) -> tuple[Value, Value, Value | None]:
    """Quantise each row of the last axis; symmetric quantisation returns None as zero point."""
    axes = (x.type.rank - 1,)
    return _asymmetric(ctx, x, axes) if asymmetric else (*_symmetric(ctx, x, axes), None)


def _scaled(
    ctx: OpContext,
    accumulators: Value,
    scale: Value,
    channel_shape: tuple[int, ...],
    operands: tuple[int, int] = (1, 2),
) -> Value:
    """Dequantise accumulators and add the bias."""
    q = ctx.quantization(ctx.tensor(operands[0]))
    if q.zero.any():
        raise UnsupportedError("weights with a zero point and activations in float")
    w_scale = q.scale.reshape(channel_shape if q.per_axis else ())
    factor = ctx.emit("mul", [scale, ctx.const(w_scale, np.float32)])
    y = ctx.emit("mul", [accumulators, factor])
    bias = ctx.input(operands[1])
    if bias is None:
        return y
    return ctx.emit("add", [y, ctx.reshape(bias, (bias.type.size, *channel_shape[1:]))])


def hybrid_row_matmul(ctx: OpContext, rows: Value, columns: Value, asymmetric: bool) -> Value:
    """Multiply float32 rows [M, K] by constant int8 columns [K, N], with one scale per row."""
    return _scaled(ctx, *_row_products(ctx, rows, columns, asymmetric), (-1,))


def hybrid_matmul(ctx: OpContext, rows: Value, index: int, asymmetric: bool) -> Value:
    """Multiply float32 rows [M, K] by constant int8 operand ``index`` [N, K], without bias."""
    w = ctx.transpose(ctx.required(index), (1, 0))
    w_scale, zero = ctx.per_tensor(ctx.tensor(index))
    if zero:
        raise UnsupportedError("weights with a zero point and activations in float")
    accumulators, scale = _row_products(ctx, rows, w, asymmetric)
    return ctx.emit("mul", [accumulators, ctx.emit("mul", [scale, ctx.const(w_scale, np.float32)])])


def float_operand(ctx: OpContext, index: int) -> Value | None:
    """Return an operand in float32; dequantise a constant of int8 or int16."""
    value = ctx.input(index)
    if value is None or value.dtype.name == "float32":
        return value
    scale, zero = ctx.per_tensor(ctx.tensor(index))
    whole = ctx.constant_operand(index, "the weights").astype(np.float32) - np.float32(zero)
    return ctx.const(whole * scale)


def _row_products(
    ctx: OpContext, rows: Value, columns: Value, asymmetric: bool
) -> tuple[Value, Value]:
    """Return the products of quantised rows in float32, and the scale of each row."""
    if not columns.is_constant or columns.dtype.name != "int8":
        raise UnsupportedError(f"float activations with {columns.dtype} weights")
    one = ctx.const(1.0, np.float32)
    x, scale, point = _quantized_rows(ctx, rows, asymmetric)
    accumulators = ctx.emit("qmatmul", [x, columns, one, None, None], x_zero=0, to="int32")
    real = ctx.cast(accumulators, "float32")
    if point is not None:
        of_weights = columns.data.astype(np.int64).sum(axis=0)
        less = ctx.emit("mul", [point, ctx.const(of_weights, np.float32)])
        real = ctx.emit("sub", [real, less])
    return real, scale


def hybrid_batch_matmul(ctx: OpContext, a: Value, b: Value, asymmetric: bool) -> Value:
    """Multiply float32 a [..., M, K] by int8 b [..., K, N], with one scale per row of a."""
    b_scale, zero = ctx.per_tensor(ctx.tensor(1))
    if zero or b.dtype.name != "int8":
        raise UnsupportedError(f"float activations with {b.dtype} of zero point {zero}")
    q, scale, point = _quantized_rows(ctx, a, asymmetric)
    one = ctx.const(1.0, np.float32)
    accumulators = ctx.emit("qmatmul_computed", [q, b, one], to="int32", x_zero=0, w_zero=0)
    real = ctx.cast(accumulators, "float32")
    if point is not None:
        axes = (b.type.rank - 2,)
        of_b = ctx.emit("reduce_sum", [ctx.cast(b, "int32")], axes=axes, keepdims=True)
        real = ctx.emit("sub", [real, ctx.emit("mul", [point, ctx.cast(of_b, "float32")])])
    return ctx.emit("mul", [real, ctx.emit("mul", [scale, ctx.const(b_scale, np.float32)])])


def hybrid_convolution(ctx: OpContext, x: Value, w: Value, groups: int, attrs: dict) -> Value:
    """Convolve float32 x [N, C, H, W] with int8 w [OC, C / groups, kh, kw]; one scale per image.

    As in LiteRT, CONV_2D with one group quantises images symmetrically if all weights have one
    scale. All other convolutions quantise images with a zero point.
    """
    plain = ctx.op.name == "CONV_2D" and groups == 1
    if plain and np.unique(ctx.quantization(ctx.tensor(1)).scale).size == 1:
        _check_int8(w)
        q, scale = _symmetric(ctx, x, (1, 2, 3))
        operands = [q, w, ctx.const(1.0, np.float32), None, None]
        accumulators = ctx.emit("qconv", operands, x_zero=0, to="int32", groups=groups, **attrs)
        return _scaled(ctx, ctx.cast(accumulators, "float32"), scale, (-1, 1, 1))
    before, after = (0, 0, *attrs["pads_before"]), (0, 0, *attrs["pads_after"])
    unpadded = {**attrs, "pads_before": (0, 0), "pads_after": (0, 0), "groups": groups}

    def padded(image: Value, value: Value) -> Value:
        if not any(before) and not any(after):
            return image
        return ctx.emit("pad", [image, value], before=before, after=after, mode="constant")

    return hybrid_images(ctx, x, w, padded, unpadded)


def _check_int8(w: Value) -> None:
    if w.dtype.name != "int8":
        raise UnsupportedError(f"float activations with {w.dtype} weights")


def hybrid_images(
    ctx: OpContext,
    x: Value,
    w: Value,
    padded: Callable[[Value, Value], Value],
    attrs: dict,
    operands: tuple[int, int] = (1, 2),
) -> Value:
    """Convolve float32 images [N, C, H, W]. ``padded`` prepares an image, given its integer zero
    value; ``operands`` are the indices of the weights and the bias."""
    _check_int8(w)
    q, scale, point = _asymmetric(ctx, x, (1, 2, 3))
    if isinstance(x.shape[0], Extent):
        together = _padded_at_once(ctx, q, point, padded)
    else:
        images = []
        for i in range(x.shape[0]):
            value = ctx.cast(ctx.reshape(ctx.slice_axis(point, 0, i, 1), ()), "int8")
            images.append(padded(ctx.slice_axis(q, 0, i, 1), value))
        together = ctx.concat(images, 0)
    given = [together, w, ctx.const(1.0, np.float32), None, None]
    accumulators = ctx.emit("qconv", given, x_zero=0, to="int32", **attrs)
    of_weights = w.data.astype(np.int64).sum(axis=(1, 2, 3)).reshape(-1, 1, 1)
    less = ctx.emit("mul", [point, ctx.const(of_weights, np.float32)])
    real = ctx.emit("sub", [ctx.cast(accumulators, "float32"), less])
    return _scaled(ctx, real, scale, (-1, 1, 1), operands)


def _padded_at_once(
    ctx: OpContext, q: Value, point: Value, padded: Callable[[Value, Value], Value]
) -> Value:
    """Pad a batch of any size at once, with each image's own zero point in the padding."""
    zero = ctx.like(0, q)
    inside = ctx.cast(padded(ctx.const(np.ones((1, *q.shape[1:]), np.int8)), zero), "bool")
    return ctx.emit("where", [inside, padded(q, zero), ctx.cast(point, "int8")])
