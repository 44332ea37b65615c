"""Small operators, many of them now in ONNX, and some used around attention."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.frontend import (
    NodeContext,
    emit_matmul,
    gather_nd,
    import_pad,
    import_range,
    importer_of,
    scan_steps,
    trilu,
    unique_slices,
)
from tvmrt.compiler.sdk.graph import Value, normalize_axis
from tvmrt.error import UnsupportedError
from tvmrt.plugins.onnx_microsoft.operators.domain import ms_op

ms_op(
    "GridSample",
    takes="x: float32[_ _ _ _], grid: float32[_ _ _ 2]",
    attributes="align_corners?: int 0..1, mode?: text, padding_mode?: text",
)(importer_of("", "GridSample"))
ms_op("GatherND", takes="x: any[*X], indices: index[*I]")(gather_nd)
ms_op("Trilu", takes="x: computed[*X], k?: int64[*]", attributes="upper?: int")(trilu)
ms_op(
    "Pad",
    takes="x: computed[*X], pads: int64[*], value?: computed[*]",
    attributes="mode?: constant|reflect|edge",
)(import_pad)


@ms_op("Range", takes="start: N=number[*], limit: N[*], delta?: N[*]")
def range_(ctx: NodeContext) -> Value:
    while len(ctx.inputs) < 3:
        ctx.inputs.append(None)
    if ctx.inputs[2] is None:
        ctx.inputs[2] = ctx.like(1, ctx.required(0))
    return import_range(ctx)


@ms_op("Unique", takes="x: float[_]")
def unique(ctx: NodeContext) -> list[Value]:
    """Return distinct elements in order of first occurrence, the index of each, and counts."""
    values, _, inverse, number = unique_slices(ctx, ctx.required(0), 0, False)
    return [values, inverse, number]


@ms_op("ExpandDims", takes="x: any[*X], axis: int32[*]")
def expand_dims(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    axis = ctx.int_operand(1, "the axis")
    return ctx.unsqueeze(x, normalize_axis(axis[0], len(x.shape) + 1))


@ms_op("CDist", takes="a: E=float[M N], b: E[K N]", attributes="metric?: text")
def c_dist(ctx: NodeContext) -> Value:
    a, b, metric = ctx.required(0), ctx.required(1), ctx.attr("metric", "sqeuclidean")
    if metric not in ("sqeuclidean", "euclidean"):
        raise UnsupportedError(f"distances by {metric}; euclidean and sqeuclidean are supported")
    rows, columns = ctx.reshape(a, (a.shape[0], 1, a.shape[1])), ctx.reshape(b, (1, *b.shape))
    away = ctx.emit("sub", [rows, columns])
    total = ctx.emit("reduce_sum", [ctx.emit("mul", [away, away])], axes=(2,), keepdims=0)
    return total if metric == "sqeuclidean" else ctx.emit("sqrt", [total])


@ms_op("UnfoldTensor", takes="x: any[*X]", attributes="dim?: int, size: int 1.., step?: int 1..")
def unfold_tensor(ctx: NodeContext) -> Value:
    x, size, step = ctx.required(0), ctx.attr("size"), ctx.attr("step", 1)
    axis = normalize_axis(ctx.attr("dim", -1), len(x.shape))
    count = (x.shape[axis] - size) // step + 1
    if count < 1:
        raise ValueError(f"slices of {size} do not fit axis {axis} of {x.type}")
    ctx.check_table_size(size, "the slice")
    # element i of all windows, for each i
    last = len(x.shape)
    parts = (ctx.slice_axis(x, axis, offset, count, step) for offset in range(size))
    return ctx.concat([ctx.unsqueeze(part, last) for part in parts], last)


@ms_op("Inverse", takes="x: float[*B N N]")
def inverse(ctx: NodeContext) -> Value:
    """Eliminate one column after the other (Gauss-Jordan), each with its largest pivot."""
    x, lead = ctx.required(0), ctx.required(0).shape[:-2]
    size = x.shape[-1]
    unit = ctx.const(np.eye(size), x.dtype.numpy)
    columns = ctx.expand(ctx.reshape(unit, (*[1] * len(lead), size, size)), x.shape)
    axis, rest = len(lead), ctx.const(np.tri(size).T[:, :, None] > 0)

    def outer(column: Value, row: Value) -> Value:
        return ctx.emit("mul", [column, row])

    def row_at(position: Value, matrix: Value) -> Value:
        return ctx.emit("reduce_sum", [outer(position, matrix)], axes=(axis,), keepdims=1)

    def step(carried: list[Value], slices: list[Value]) -> tuple[list[Value], list[Value]]:
        (matrix,), (place, unused, numbers) = carried, slices
        column = emit_matmul(ctx, ctx.slice_axis(matrix, axis + 1, 0, size), place)
        sizes = ctx.emit("where", [unused, ctx.emit("abs", [column]), ctx.like(-1, x)])
        best = ctx.emit("argmax", [sizes], axis=axis, keepdims=1, select_last=False)
        pivot = ctx.cast(ctx.emit("equal", [numbers, best]), x.dtype.name)
        now, other = row_at(place, matrix), row_at(pivot, matrix)
        swapped = outer(ctx.emit("sub", [place, pivot]), ctx.emit("sub", [other, now]))
        matrix = ctx.emit("add", [matrix, swapped])
        column = emit_matmul(ctx, ctx.slice_axis(matrix, axis + 1, 0, size), place)
        row = ctx.emit("div", [other, row_at(place, column)])
        return [ctx.emit("sub", [matrix, outer(ctx.emit("sub", [column, place]), row)])], []

    places = ctx.reshape(unit, (size, size, 1))
    numbers = ctx.const(np.tile(np.arange(size)[:, None], (size, 1, 1)))
    whole = ctx.concat([x, columns], axis + 1)
    (whole,), _ = scan_steps(ctx, step, [whole], [places, rest, numbers], 0)
    return ctx.slice_axis(whole, axis + 1, size, size)
