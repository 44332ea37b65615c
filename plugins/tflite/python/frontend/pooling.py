"""Two-dimensional pooling."""

from __future__ import annotations

from math import prod

import numpy as np

from tvmrt.compiler.sdk.graph import Value, valid_counts
from tvmrt.plugins.tflite.frontend.activation import apply_activation
from tvmrt.plugins.tflite.frontend.arithmetic import is_quantized
from tvmrt.plugins.tflite.frontend.context import QUANTIZED, OpContext
from tvmrt.plugins.tflite.frontend.convolution import window
from tvmrt.plugins.tflite.frontend.integer_accumulators import of_type
from tvmrt.plugins.tflite.frontend.multipliers import activation_name, quantized_bounds
from tvmrt.plugins.tflite.frontend.registry import tflite_op


def _pool(ctx: OpContext) -> tuple[Value, dict]:
    """Return the operand with channels second, and the attributes of the pool."""
    x = ctx.channels_second(ctx.required(0))
    kernel = (ctx.options["filter_h"], ctx.options["filter_w"])
    attrs = window(ctx, x.shape[2:], kernel)
    extents = [
        (n + b + a - k) // s + 1
        for n, b, a, k, s in zip(
            x.shape[2:], attrs["pads_before"], attrs["pads_after"], kernel, attrs["strides"]
        )
    ]
    if min(extents) < 1:
        raise ValueError(f"a window of {list(kernel)} does not fit into {x.type}")
    return x, {"kernel": kernel, **attrs, "out_spatial": tuple(extents)}


def _clamp_to_activation(ctx: OpContext, y: Value) -> Value:
    """Apply the fused activation; result and operand have the same quantisation."""
    if not is_quantized(ctx, *QUANTIZED):
        return apply_activation(ctx, y)
    scale, zero = ctx.per_tensor(ctx.result())
    name = activation_name(ctx.options["act"])
    if name == "NONE":
        return y
    return ctx.clamp(y, *quantized_bounds(name, scale, zero, ctx.result().dtype))


@tflite_op(MAX_POOL_2D=3)
def max_pool(ctx: OpContext) -> Value:
    x, attrs = _pool(ctx)
    op = "qmax_pool" if x.dtype.name in ("int8", "uint8") else "max_pool"
    return ctx.channels_last(_clamp_to_activation(ctx, ctx.emit(op, [x], **attrs)))


@tflite_op(AVERAGE_POOL_2D=3)
def average_pool(ctx: OpContext) -> Value:
    x, attrs = _pool(ctx)
    if x.dtype.is_float:
        y = ctx.emit("avg_pool", [x], count_pads=False, **attrs)
        return ctx.channels_last(apply_activation(ctx, y))
    total = _window_sums(ctx, x, attrs)
    count = ctx.const(_taps(x.shape[2:], attrs), np.int32)
    half = ctx.emit("div", [count, ctx.const(2, np.int32)])
    zero = ctx.const(0, np.int32)
    away = ctx.emit("where", [ctx.emit("greater", [total, zero]), half, ctx.emit("neg", [half])])
    mean = ctx.emit("div", [ctx.emit("add", [total, away]), count])
    low, high = np.iinfo(x.dtype.numpy).min, np.iinfo(x.dtype.numpy).max
    y = ctx.cast(ctx.clamp(mean, int(low), int(high)), x.dtype.name)
    return ctx.channels_last(_clamp_to_activation(ctx, y))


def _window_sums(ctx: OpContext, x: Value, attrs: dict) -> Value:
    """Return each window's sum as int32; padding counts as zero."""
    whole = tuple(attrs["kernel"]) == x.shape[2:] and attrs["out_spatial"] == (1, 1)
    if whole and not any((*attrs["pads_before"], *attrs["pads_after"])):
        return ctx.emit("reduce_sum", [ctx.cast(x, "int32")], axes=(2, 3), keepdims=True)
    channels = x.shape[1]
    ones = ctx.const(np.ones((channels, 1, *attrs["kernel"]), np.int8))
    geometry = {k: v for k, v in attrs.items() if k not in ("kernel", "out_spatial")}
    operands = [x, ones, ctx.const(1.0, np.float32), None, None]
    geometry.update(groups=channels, x_zero=0, to="int32")
    return ctx.emit(of_type("qconv", x), operands, **geometry)


def _taps(spatial: tuple[int, ...], attrs: dict) -> np.ndarray | int:
    """Return the number of elements of each window inside the input: [H, W], or one number."""
    names = ("kernel", "strides", "pads_before", "out_spatial")
    table = valid_counts(spatial, *(attrs[name] for name in names))
    return int(table.flat[0]) if (table == prod(attrs["kernel"])).all() else table


@tflite_op(L2_POOL_2D=1)
def l2_pool(ctx: OpContext) -> Value:
    x, attrs = _pool(ctx)
    mean_square = ctx.emit("avg_pool", [ctx.emit("mul", [x, x])], count_pads=False, **attrs)
    return ctx.channels_last(apply_activation(ctx, ctx.emit("sqrt", [mean_square])))
