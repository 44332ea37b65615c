"""Convolution and pooling."""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.ir import Value

from .context import NodeContext
from .registry import onnx_op


def window_attrs(ctx: NodeContext, spatial: Sequence[int], kernel: Sequence[int]) -> dict:
    """Strides, dilations and padding of a sliding window, ``auto_pad`` resolved."""
    rank = len(spatial)
    strides = tuple(ctx.attr("strides", [1] * rank))
    dilations = tuple(ctx.attr("dilations", [1] * rank))
    pads = ctx.attr("pads", [0] * 2 * rank)
    before, after = tuple(pads[:rank]), tuple(pads[rank:])
    mode = ctx.attr("auto_pad", "NOTSET")
    if mode == "VALID":
        before = after = (0,) * rank
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        total = [
            max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
            for n, k, s, d in zip(spatial, kernel, strides, dilations)
        ]
        small, large = tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
        before, after = (small, large) if mode == "SAME_UPPER" else (large, small)
    elif mode != "NOTSET":
        raise ValueError(f"auto_pad {mode} is not known")
    return {
        "strides": strides,
        "dilations": dilations,
        "pads_before": before,
        "pads_after": after,
    }


@onnx_op("Conv")
def conv(ctx: NodeContext) -> Value:
    x, w = ctx.required(0), ctx.required(1)
    attrs = window_attrs(ctx, x.shape[2:], w.shape[2:])
    inputs = [x, w] if ctx.input(2) is None else [x, w, ctx.input(2)]
    return ctx.emit("conv", inputs, groups=ctx.attr("group", 1), **attrs)


def pool_extents(ctx: NodeContext, x: Value, kernel: Sequence[int], attrs: dict) -> tuple:
    """Output extents; with ceil_mode a last window that begins inside the data counts."""
    extents = []
    for n, k, s, d, b, a in zip(
        x.shape[2:],
        kernel,
        attrs["strides"],
        attrs["dilations"],
        attrs["pads_before"],
        attrs["pads_after"],
    ):
        room = n + b + a - d * (k - 1) - 1
        count = (-(-room // s) if ctx.attr("ceil_mode", 0) else room // s) + 1
        if ctx.attr("ceil_mode", 0) and (count - 1) * s >= n + b:
            count -= 1
        extents.append(count)
    return tuple(extents)


@onnx_op("MaxPool", "AveragePool")
def pool(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    kernel = tuple(ctx.attr("kernel_shape"))
    attrs = window_attrs(ctx, x.shape[2:], kernel)
    attrs["out_spatial"] = pool_extents(ctx, x, kernel, attrs)
    if ctx.op == "MaxPool":
        return ctx.emit("max_pool", [x], kernel=kernel, **attrs)
    return ctx.emit(
        "avg_pool", [x], kernel=kernel, count_pads=ctx.attr("count_include_pad", 0), **attrs
    )
