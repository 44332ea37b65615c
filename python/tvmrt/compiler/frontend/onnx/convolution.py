"""Convolution: plain, transposed and causal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as combinations
from math import prod

import numpy as np

from tvmrt.compiler.frontend.shapes import default_window
from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.contract import LIMIT
from tvmrt.compiler.ir.limits import MAX_SEPARATE_TAPS
from tvmrt.compiler.ir.nn import may_have_pads
from tvmrt.compiler.ir.quantized import dequantize_of
from tvmrt.compiler.ir.rounding import ceil_div
from tvmrt.compiler.ir.sizes.assumptions import are_equal

from .context import NodeContext
from .registry import onnx_op
from .scales import unpack_weights


def same_pads(total: Sequence[int], mode: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Split padding in two halves; the odd element is at the end (SAME_UPPER) or the start."""
    small, large = tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    return (small, large) if mode == "SAME_UPPER" else (large, small)


def window_ints(
    ctx: NodeContext, name: str, count: int, default: int, minimum: int = 1
) -> tuple[int, ...]:
    """Return an attribute with ``count`` numbers, which belong to the spatial axes."""
    values = ctx.attr(name) or [default] * count
    if len(values) != count or not all(minimum <= n <= LIMIT for n in values):
        raise ValueError(
            f"attribute {name} is {values}, expected {count} integers from {minimum} to {LIMIT}"
        )
    return tuple(values)


def _window_params(ctx: NodeContext, rank: int) -> tuple[tuple[int, ...], ...]:
    """Return strides, dilations, and the node's explicit padding before and after."""
    strides, dilations = (window_ints(ctx, name, rank, 1) for name in ("strides", "dilations"))
    pads = window_ints(ctx, "pads", 2 * rank, 0, 0)
    mode = ctx.attr("auto_pad", "NOTSET")
    if mode not in ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"):
        raise ValueError(
            f"attribute auto_pad is {mode!r}, expected one of NOTSET, SAME_UPPER, SAME_LOWER, VALID"
        )
    return strides, dilations, pads[:rank], pads[rank:]


def convolution_window(ctx: NodeContext, x: Value, w: Value) -> dict:
    """Return the attributes of a convolution's window."""
    _check_kernel(ctx, w)
    return window_attrs(ctx, x.shape[2:], w.shape[2:])


def _check_kernel(ctx: NodeContext, w: Value) -> None:
    """Raise ValueError for attributes of a convolution that contradict its weights or another."""
    kernel, mode = ctx.attr("kernel_shape"), ctx.attr("auto_pad", "NOTSET")
    if kernel and not (
        len(kernel) == len(w.shape) - 2 and all(map(are_equal, kernel, w.shape[2:]))
    ):
        raise ValueError(f"attribute kernel_shape is {kernel}, the weights are {w.type}")
    if ctx.attr("pads") and mode.startswith("SAME"):
        raise ValueError(f"attribute pads is {ctx.attr('pads')}, but auto_pad is {mode}")


def window_attrs(ctx: NodeContext, spatial: Sequence[int], kernel: Sequence[int]) -> dict:
    """Return strides, dilations and padding of a sliding window, with ``auto_pad`` resolved."""
    rank = len(spatial)
    strides, dilations, before, after = _window_params(ctx, rank)
    mode = ctx.attr("auto_pad", "NOTSET")
    if mode == "VALID":
        before = after = (0,) * rank
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        total = [
            max((ceil_div(n, s) - 1) * s + (k - 1) * d + 1 - n, 0)
            for n, k, s, d in zip(spatial, kernel, strides, dilations)
        ]
        before, after = same_pads(total, mode)
    return {
        "strides": strides,
        "dilations": dilations,
        "pads_before": before,
        "pads_after": after,
    }


def _crop_negative_pads(ctx: NodeContext, x: Value, attrs: dict) -> Value:
    """Crop x by its negative padding, and set that padding to zero."""
    for i, (before, after) in enumerate(zip(attrs["pads_before"], attrs["pads_after"])):
        start, stop = max(-before, 0), x.shape[i + 2] - max(-after, 0)
        x = ctx.slice_axis(x, i + 2, start, stop - start)
    for key in ("pads_before", "pads_after"):
        attrs[key] = tuple(max(p, 0) for p in attrs[key])
    return x


def with_bias(ctx: NodeContext, y: Value, bias: Value | None) -> Value:
    """Add a bias per channel."""
    if bias is None:
        return y
    return ctx.emit("add", [y, ctx.reshape(bias, (bias.type.size, *[1] * (len(y.shape) - 2)))])


@onnx_op("Conv")
def conv(ctx: NodeContext) -> Value:
    x, w, bias = ctx.required(0), ctx.required(1), ctx.input(2)
    attrs = convolution_window(ctx, x, w)
    return convolution(ctx, x, w, bias, ctx.attr("group", 1), attrs)


def convolution(ctx: NodeContext, x: Value, w: Value, bias, groups: int, attrs: dict) -> Value:
    """Emit a convolution; with weights computed at run time it becomes a matmul."""
    ctx.require_float32(x)
    if dequantize_of(x) is not None:
        w = unpack_weights(ctx, w)
    if w.is_constant and (bias is None or bias.is_constant):
        inputs = [x, w] if bias is None else [x, w, bias]
        return ctx.emit("conv", inputs, groups=groups, **attrs)
    if w.is_constant:
        return with_bias(ctx, ctx.emit("conv", [x, w], groups=groups, **attrs), bias)
    return with_bias(ctx, _im2col_matmul(ctx, x, w, groups, attrs), bias)


def _im2col_matmul(ctx: NodeContext, x: Value, w: Value, groups: int, attrs: dict) -> Value:
    """Emit a convolution as a matmul of the weights with all windows (im2col)."""
    batch, channels = x.shape[:2]
    out_channels, depth, *kernel = w.shape
    if channels != depth * groups or out_channels % groups:
        raise ValueError(f"weights {w.type} do not fit {x.type} in {groups} groups")
    if may_have_pads(attrs):
        before, after = (0, 0, *attrs["pads_before"]), (0, 0, *attrs["pads_after"])
        x = ctx.emit("pad", [x], before=before, after=after, mode="constant")
    extents = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], kernel, attrs["strides"], attrs["dilations"])
    ]
    if min(extents, default=1) < 1:
        raise ValueError(f"weights {w.type} with their dilation do not fit into {x.type}")
    if prod(kernel) > MAX_SEPARATE_TAPS:
        windows = _im2col_gather(ctx, x, kernel, extents, attrs)
        windows = ctx.reshape(windows, (batch, groups, depth * prod(kernel), prod(extents)))
    else:
        ctx.importer.functions.budget.add(prod(kernel))
        windows = _im2col_slices(ctx, x, kernel, extents, groups, attrs)
    weights = ctx.reshape(w, (groups, out_channels // groups, depth * prod(kernel)))
    return ctx.reshape(ctx.emit("matmul", [weights, windows]), (batch, out_channels, *extents))


def _im2col_gather(ctx: NodeContext, x: Value, kernel, extents, attrs: dict) -> Value:
    """Gather the windows [batch, channels, *kernel, *extents], by one index table per axis."""
    tables = []
    for k, n, s, d in zip(kernel, extents, attrs["strides"], attrs["dilations"]):
        ctx.check_table_size(k * n, "window offsets along an axis")
        offsets = d * np.arange(k, dtype=np.int32)[:, None] + s * np.arange(n, dtype=np.int32)
        tables.append(ctx.const(offsets.reshape(-1)))
    rank = len(kernel)
    picked = ctx.emit("pick", [x, *tables], axes=tuple(range(2, rank + 2)))
    pairs = [extent for pair in zip(kernel, extents) for extent in pair]
    order = (0, 1, *range(2, 2 * rank + 2, 2), *range(3, 2 * rank + 2, 2))
    return ctx.transpose(ctx.reshape(picked, (*x.shape[:2], *pairs)), order)


def _im2col_slices(ctx: NodeContext, x: Value, kernel, extents, groups: int, attrs: dict) -> Value:
    """Collect the windows [batch, groups, channels of a group * taps, pixels], tap by tap."""
    batch, channels = x.shape[:2]
    depth = channels // groups
    taps = []
    for tap in combinations(*(range(k) for k in kernel)):
        part = x
        for i, (t, d, s, n) in enumerate(zip(tap, attrs["dilations"], attrs["strides"], extents)):
            part = ctx.slice_axis(part, i + 2, t * d, n, s)
        taps.append(ctx.reshape(part, (batch, groups, depth, 1, prod(extents))))
    windows = ctx.concat(taps, 3)
    return ctx.reshape(windows, (batch, groups, depth * len(taps), prod(extents)))


@onnx_op("ConvTranspose")
def conv_transpose(ctx: NodeContext) -> Value:
    x, w, bias = ctx.required(0), ctx.required(1), ctx.input(2)
    ctx.require_float32(x)
    _check_kernel(ctx, w)
    attrs = transposed_window(ctx, x.shape[2:], w.shape[2:])
    if w.data is None:
        x = _insert_zeros(ctx, x, attrs["strides"])
    if w.data is None or all(s == 1 for s in attrs["strides"]):
        return _transposed_as_plain(ctx, x, w, bias, attrs)
    inputs = [x, w] if bias is None or not bias.is_constant else [x, w, bias]
    y = ctx.emit("conv_transpose", inputs, groups=ctx.attr("group", 1), **attrs)
    return y if len(inputs) > 2 else with_bias(ctx, y, bias)


def _insert_zeros(ctx: NodeContext, x: Value, strides: Sequence[int]) -> Value:
    """Insert zeros between the elements of x, so that a stride of 1 replaces ``strides``."""
    for axis, stride in enumerate(strides, 2):
        if stride == 1 or x.shape[axis] < 1:
            continue
        count = x.shape[axis]
        column = ctx.pad_end(ctx.unsqueeze(x, axis + 1), axis + 1, stride - 1)
        x = ctx.reshape(column, (*x.shape[:axis], count * stride, *x.shape[axis + 1 :]))
        x = ctx.slice_axis(x, axis, 0, (count - 1) * stride + 1)
    return x


def _flipped_weights(ctx: NodeContext, w: Value, groups: int) -> Value:
    """Convert weights of a transposed convolution to weights of a plain one."""
    grouped = (groups, w.shape[0] // groups, *w.shape[1:])
    if w.data is not None:
        per_group = w.data.reshape(grouped).swapaxes(1, 2)
        flat = per_group.reshape(groups * w.shape[1], *per_group.shape[2:])
        return ctx.const(np.flip(flat, tuple(range(2, w.type.rank))), np.float32)
    per_group = ctx.transpose(ctx.reshape(w, grouped), (0, 2, 1, *range(3, w.type.rank + 1)))
    weights = ctx.reshape(per_group, (groups * w.shape[1], grouped[1], *w.shape[2:]))
    for axis, k in enumerate(w.shape[2:], 2):
        weights = ctx.slice_axis(weights, axis, k - 1, k, -1)
    return weights


def _transposed_as_plain(
    ctx: NodeContext, x: Value, w: Value, bias: Value | None, attrs: dict
) -> Value:
    """Emit a transposed convolution of stride 1 as a plain one with mirrored weights."""
    groups, kernel = ctx.attr("group", 1), w.shape[2:]
    if groups < 1 or w.shape[0] % groups or w.shape[0] != x.shape[1]:
        raise ValueError(f"weights of shape {list(w.shape)} do not fit {x.type}")
    weights = _flipped_weights(ctx, w, groups)
    reach = [d * (k - 1) for d, k in zip(attrs["dilations"], kernel)]
    before = tuple(r - b for r, b in zip(reach, attrs["pads_before"]))
    after = tuple(
        o - n + r - b for o, n, r, b in zip(attrs["out_spatial"], x.shape[2:], reach, before)
    )
    pads = {"pads_before": before, "pads_after": after}
    window = default_window(len(kernel), dilations=attrs["dilations"], **pads)
    x = _crop_negative_pads(ctx, x, window)
    return convolution(ctx, x, weights, bias, groups, window)


def transposed_window(ctx: NodeContext, spatial: Sequence[int], kernel: Sequence[int]) -> dict:
    """Return strides, dilations, elements cropped at the start, and extents of the result."""
    rank = len(spatial)
    strides, dilations, before, after = _window_params(ctx, rank)
    output_padding = window_ints(ctx, "output_padding", rank, 0, 0)
    if any(extra >= max(s, d) for extra, s, d in zip(output_padding, strides, dilations)):
        raise ValueError(
            f"attribute output_padding is {list(output_padding)}, expected numbers below the "
            "stride or the dilation of the axis"
        )
    mode, output_shape = ctx.attr("auto_pad", "NOTSET"), ctx.attr("output_shape")
    full = [
        s * (n - 1) + e + (k - 1) * d + 1
        for s, n, e, k, d in zip(strides, spatial, output_padding, kernel, dilations)
    ]
    if output_shape or mode in ("SAME_UPPER", "SAME_LOWER"):
        # some exporters give the full shape
        out = (
            list(output_shape)[-rank:]
            if output_shape
            else [n * s for n, s in zip(spatial, strides)]
        )
        total = [f - o for f, o in zip(full, out)]
        if mode != "SAME_UPPER":
            mode = "SAME_LOWER"
        before, _ = same_pads([max(t, 0) for t in total], mode)
    else:
        if mode != "NOTSET":
            before = after = (0,) * rank
        out = [f - b - a for f, b, a in zip(full, before, after)]
    return {
        "strides": strides,
        "dilations": dilations,
        "pads_before": before,
        "out_spatial": tuple(out),
    }
