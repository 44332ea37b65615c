"""Convolutions and matrix products, of floats and of integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvmrt.error import UnsupportedError
from tvmrt.ir import Value
from tvmrt.ir.rounding import ceil_div

from .activation import activated
from .context import OpContext
from .registry import tflite_op
from .requantize import Sums, finish

SAME, VALID = 0, 1


def window(ctx: OpContext, spatial: tuple[int, ...], kernel: tuple[int, ...]) -> dict:
    """Strides, dilations and padding of a window over [H, W]."""
    o = ctx.options
    strides = (o["stride_h"], o["stride_w"])
    dilations = (o.get("dilation_h", 1), o.get("dilation_w", 1))
    if min(*strides, *dilations, *kernel) < 1 or o["padding"] not in (SAME, VALID):
        raise ValueError(
            f"strides {list(strides)}, dilations {list(dilations)}, a kernel of {list(kernel)} and "
            f"padding number {o['padding']} make no window"
        )
    total = [0] * len(spatial)
    if o["padding"] == SAME:
        total = [
            max((ceil_div(n, s) - 1) * s + (k - 1) * d + 1 - n, 0)
            for n, k, s, d in zip(spatial, kernel, strides, dilations)
        ]
    before = tuple(t // 2 for t in total)
    after = tuple(t - b for t, b in zip(total, before))
    return {
        "strides": strides, "dilations": dilations, "pads_before": before, "pads_after": after,
    }  # fmt: skip


def weights_of(ctx: OpContext, index: int) -> Value:
    w = ctx.required(index)
    if w.data is None:
        raise UnsupportedError(f"the weights of {ctx.op.name} are computed at run time")
    return w


@tflite_op(CONV_2D=8)
def conv_2d(ctx: OpContext) -> Value:
    x, w = ctx.channels_second(ctx.required(0)), weights_of(ctx, 1)
    if w.type.rank != 4 or not w.shape[3] or x.shape[1] % w.shape[3]:
        raise ValueError(f"weights {w.type} do not fit {x.type}")
    kernel = ctx.const(w.data.transpose(0, 3, 1, 2))
    return _convolution(ctx, x, kernel, x.shape[1] // w.shape[3], 0)


@tflite_op(DEPTHWISE_CONV_2D=7)
def depthwise_conv_2d(ctx: OpContext) -> Value:
    x, w = ctx.channels_second(ctx.required(0)), weights_of(ctx, 1)
    channels = x.shape[1]
    if w.type.rank != 4 or w.shape[0] != 1 or not channels or w.shape[3] % channels:
        raise ValueError(f"weights {w.type} do not fit {x.type}")
    return _convolution(ctx, x, ctx.const(w.data.transpose(3, 0, 1, 2)), channels, 3)


def _convolution(ctx: OpContext, x: Value, w: Value, groups: int, axis: int) -> Value:
    """x [N, C, H, W], w [OC, C / groups, kh, kw], whose scales lie along ``axis`` in the file."""
    attrs = window(ctx, x.shape[2:], w.shape[2:])

    def product(operands: list, **extra) -> Value:
        return ctx.emit("qconv", operands, groups=groups, **attrs, **extra)

    if x.dtype.name == "float32" and w.dtype.name == "float32":
        y, bias = ctx.emit("conv", [x, w], groups=groups, **attrs), ctx.input(2)
        if bias is not None:
            y = ctx.emit("add", [y, ctx.reshape(bias, (bias.type.size, 1, 1))])
        return ctx.channels_last(activated(ctx, y))
    sums = _integer_sums(ctx, x, w, product, (-1, 1, 1), axis)
    return ctx.channels_last(finish(ctx, sums))


Product = Callable[..., Value]


def _integer_sums(
    ctx: OpContext, x: Value, w: Value, product: Product, spread: tuple[int, ...], axis: int
) -> Sums:
    """The sums of (x - x_zero) * (w - w_zero) and the bias, with the scales that they have.

    ``spread``: the shape in which a number a channel broadcasts over the sums.
    """
    x_scale, x_zero = ctx.per_tensor(ctx.tensor(0))
    if w.dtype.name not in ("int8", "uint8"):
        raise UnsupportedError(f"{x.dtype} activations with {w.dtype} weights")
    q = ctx.quantization(ctx.tensor(1))
    if q.per_axis and q.axis != axis:
        raise UnsupportedError(f"weights with scales along axis {q.axis}")
    w_zero = None if not q.zero.any() else q.zero.astype(np.int32)
    bias = ctx.input(2)
    if bias is not None and bias.dtype.name not in ("int32", "int64"):
        raise UnsupportedError(f"a bias of {bias.dtype}")
    wide = x.dtype.name == "int16"
    folded = None
    if bias is not None and bias.is_constant and not wide and bias.dtype.name == "int32":
        folded, bias = bias, None

    one, zeros = ctx.const(1.0, np.float32), None if w_zero is None else ctx.const(w_zero)

    def of_bytes(part: Value, zero: int, start: Value | None) -> Value:
        return product([part, w, one, start, zeros], x_zero=zero, to="int32")

    if not wide:
        total = of_bytes(x, x_zero, folded)
    else:
        total = _wide(ctx, x, of_bytes)
    if bias is not None:
        shape = (bias.type.size, *spread[1:])
        total = ctx.emit("add", [total, ctx.cast(ctx.reshape(bias, shape), total.dtype.name)])
    narrow = wide and bias is not None and bias.dtype.name == "int32"
    if narrow:
        total = ctx.cast(total, "int32")
    return Sums(total, x_scale, q.scale, spread)


def _wide(ctx: OpContext, x: Value, of_bytes: Callable) -> Value:
    """The product of int16 as that of its high bytes, and of its low ones: 256 * h + l."""
    high = ctx.cast(ctx.emit("shift_right", [x, ctx.const(8, np.int16)]), "int8")
    low = ctx.cast(ctx.emit("bit_and", [x, ctx.const(255, np.int16)]), "uint8")
    parts = [ctx.cast(of_bytes(part, 0, None), "int64") for part in (high, low)]
    return ctx.emit("add", [ctx.emit("mul", [parts[0], ctx.const(256, np.int64)]), parts[1]])


@tflite_op(FULLY_CONNECTED=14)
def fully_connected(ctx: OpContext) -> Value:
    x, w, bias = ctx.required(0), ctx.required(1), ctx.input(2)
    if ctx.options["weights_format"]:
        raise UnsupportedError("weights that are shuffled for another processor")
    if w.type.rank != 2 or not w.shape[1] or x.type.size % w.shape[1]:
        raise ValueError(f"weights {w.type} do not fit {x.type}")
    units, depth = w.shape
    keep = ctx.options["keep_num_dims"]
    shape = (*x.shape[:-1], units) if keep else (x.type.size // depth, units)
    rows = ctx.reshape(x, (x.type.size // depth, depth))
    columns = ctx.transpose(w, (1, 0))
    if x.dtype.name == "float32" and w.dtype.name == "float32":
        y = ctx.emit("matmul", [rows, columns])
        y = y if bias is None else ctx.emit("add", [y, bias])
        return ctx.reshape(activated(ctx, y), shape)

    if not w.is_constant:
        raise UnsupportedError("the weights of FULLY_CONNECTED are computed at run time")

    def product(operands: list, **extra) -> Value:
        return ctx.emit("qmatmul", operands, **extra)

    sums = _integer_sums(ctx, rows, columns, product, (-1,), 0)
    return ctx.reshape(finish(ctx, sums, by_float=not ctx.micro), shape)
