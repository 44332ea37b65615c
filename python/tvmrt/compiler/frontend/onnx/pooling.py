"""Pooling over windows and over whole images, and unpooling."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.nn import may_have_pads
from tvmrt.compiler.ir.rounding import ceil_div
from tvmrt.compiler.ir.sizes import bounds, data_dependent_symbols, sym_max, sym_min, symbols_of
from tvmrt.compiler.ir.sizes.assumptions import is_at_least

from .context import NodeContext
from .convolution import window_attrs, window_ints
from .registry import onnx_op


def pool_extents(ctx: NodeContext, x: Value, kernel: Sequence[int], attrs: dict) -> tuple:
    """Return output extents; with ceil_mode a last window that begins inside the data counts."""
    extents, ceil = [], bool(ctx.attr("ceil_mode", 0))
    for n, k, s, d, b, a in zip(
        x.shape[2:],
        kernel,
        attrs["strides"],
        attrs["dilations"],
        attrs["pads_before"],
        attrs["pads_after"],
    ):
        room = n + b + a - d * (k - 1) - 1
        count = (ceil_div(room, s) if ceil else room // s) + 1
        if ceil:  # without a last window that would begin past the end of the data
            count = count - sym_min(sym_max((count - 1) * s - (n + b) + 1, 0), 1)
        # an open size with no window at all gets a variant, so that others are not sliced
        is_open = symbols_of(count) and not (ceil or data_dependent_symbols(count))
        where = f"axis {len(extents) + 2} of {x.name}, {n + b + a!r} with its padding"
        if not is_at_least(count, 1 if is_open else 0, f"a window of {k} fits into {where}"):
            raise ValueError(f"a window of {k} does not fit into {x.type} with its padding")
        extents.append(count)
    return tuple(extents)


def _check_elements(x: Value) -> None:
    """Raise ValueError, in a run too, if images are empty: they have no maximum and no mean."""
    elements = prod(x.shape[1:]) + sym_max(1 - x.shape[0], 0)
    if not is_at_least(elements, 1) and bounds(elements)[1] == 0:
        raise ValueError(f"the images of {x.type} have no elements")


def pool_window(ctx: NodeContext, x: Value) -> tuple[Value, dict]:
    """Return the input and the attributes shared by all pools."""
    _check_elements(x)
    kernel = window_ints(ctx, "kernel_shape", len(x.shape) - 2, 0)
    pads = ctx.attr("pads") or ()
    if any(pad >= k for pad, k in zip(pads, kernel * 2)):
        raise ValueError(
            f"attribute pads is {pads}, expected numbers below {list(kernel)}, the window"
        )
    attrs = window_attrs(ctx, x.shape[2:], kernel)
    attrs["out_spatial"] = pool_extents(ctx, x, kernel, attrs)
    return x, {"kernel": kernel, **attrs}


def pool(ctx: NodeContext, op: str, x: Value, attrs: dict, **more: Any) -> list[Value]:
    """Return the results of a pool, which may be empty at some dynamic sizes."""
    expected = attrs["out_spatial"]
    some = tuple(sym_max(n, 1) for n in expected)
    results = ctx.emit_many(op, [x], **more, **{**attrs, "out_spatial": some})
    for axis, (n, m) in enumerate(zip(expected, some), 2):
        if n != m:
            results = [ctx.slice_axis(y, axis, 0, n) for y in results]
    return results


def is_global(x: Value, attrs: dict) -> bool:
    """Return whether there is a single window that covers the whole image."""
    return attrs["kernel"] == x.shape[2:] and not may_have_pads(attrs)


@onnx_op("MaxPool")
def max_pool(ctx: NodeContext) -> Value | list[Value]:
    x, attrs = pool_window(ctx, ctx.required(0))
    if len(ctx.node.output) > 1 and ctx.node.output[1]:
        columns_first = bool(ctx.attr("storage_order", 0))
        return pool(ctx, "max_pool_index", x, attrs, columns_first=columns_first)
    return pool(ctx, "max_pool", x, attrs)[0]


@onnx_op("AveragePool")
def average_pool(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    ctx.require_float32(x)
    x, attrs = pool_window(ctx, x)
    if is_global(x, attrs):
        return _reduce_image(ctx, "reduce_mean", x)
    return pool(ctx, "avg_pool", x, attrs, count_pads=ctx.attr("count_include_pad", 0))[0]


@onnx_op("LpPool")
def lp_pool(ctx: NodeContext) -> Value:
    ctx.require_float32(ctx.required(0))
    x, attrs = pool_window(ctx, ctx.required(0))
    return pool(ctx, "lp_pool", x, attrs, p=ctx.attr("p", 2))[0]


def _reduce_image(ctx: NodeContext, op: str, x: Value) -> Value:
    _check_elements(x)
    return ctx.emit(op, [x], axes=tuple(range(2, len(x.shape))), keepdims=1)


@onnx_op("GlobalAveragePool", "GlobalMaxPool")
def global_pool(ctx: NodeContext) -> Value:
    op = "reduce_max" if ctx.op == "GlobalMaxPool" else "reduce_mean"
    return _reduce_image(ctx, op, ctx.required(0))


@onnx_op("GlobalLpPool")
def global_lp_pool(ctx: NodeContext) -> Value:
    x, p = ctx.required(0), ctx.attr("p", 2)
    if p == 2:
        return ctx.emit("sqrt", [_reduce_image(ctx, "reduce_sum", ctx.emit("mul", [x, x]))])
    size = ctx.emit("abs", [x])
    if p == 1:
        return _reduce_image(ctx, "reduce_sum", size)
    total = _reduce_image(ctx, "reduce_sum", ctx.emit("pow", [size, ctx.like(p, x)]))
    return ctx.emit("pow", [total, ctx.like(1.0 / p, x)])


@onnx_op("MaxUnpool")
def max_unpool(ctx: NodeContext) -> Value:
    x, indices = ctx.required(0), ctx.required(1)
    kernel = window_ints(ctx, "kernel_shape", len(x.shape) - 2, 0)
    attrs = window_attrs(ctx, x.shape[2:], kernel)
    natural = [
        (n - 1) * s - b - a + k
        for n, s, b, a, k in zip(
            x.shape[2:], attrs["strides"], attrs["pads_before"], attrs["pads_after"], kernel
        )
    ]
    y = ctx.emit("max_unpool", [x, indices], out_spatial=tuple(natural))
    expected = ctx.int_operand(2, "the output shape")
    if expected is None or tuple(expected) == y.shape:
        return y
    # indices refer to the natural shape; a larger shape is padded with zeros
    after = tuple(w - n for w, n in zip(expected, y.shape))
    if len(after) != len(y.shape) or min(after) < 0:
        raise ValueError(f"output shape {expected} is smaller than {list(y.shape)}")
    return ctx.emit("pad", [y], before=(0,) * len(after), after=after, mode="constant")
