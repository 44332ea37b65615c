"""Sampling, regions and other operators of vision networks."""

from __future__ import annotations

from math import prod

import numpy as np

from tvmrt.compiler.frontend.shapes import default_window
from tvmrt.compiler.ir import Value
from tvmrt.error import UnsupportedError

from .context import NodeContext
from .convolution import convolution, convolution_window, with_bias
from .matmul import emit_matmul
from .registry import onnx_op


@onnx_op("AffineGrid")
def affine_grid(ctx: NodeContext) -> Value:
    """Return all points of a regular grid, transformed by the matrix of each image."""
    theta, size = ctx.required(0), ctx.int_operand(1, "the size")
    spatial = size[2:]
    if len(spatial) not in (2, 3) or theta.shape != (size[0], len(spatial), len(spatial) + 1):
        raise ValueError(f"matrices {theta.type} do not fit size {size}")
    ctx.check_table_size(prod(size[1:]), "the grid")
    corners = bool(ctx.attr("align_corners", 0))
    axes = [_element_coordinates(n, corners) for n in spatial]
    # coordinates in the order x, y, z, 1 for the columns of the matrix
    grids = np.meshgrid(*axes, indexing="ij")[::-1]
    columns = np.stack([p.reshape(-1) for p in [*grids, np.ones(spatial)]])
    base = ctx.const(columns.T, theta.dtype.numpy)
    transposed = ctx.transpose(theta, (0, 2, 1))
    grid = emit_matmul(ctx, base, transposed)
    return ctx.reshape(grid, (size[0], *spatial, len(spatial)))


def _element_coordinates(count: int, corners: bool) -> np.ndarray:
    """Return the coordinates of ``count`` elements between -1 and 1."""
    if not corners:
        return (2 * np.arange(count) + 1) / count - 1
    return np.linspace(-1, 1, count) if count > 1 else np.zeros(count)


@onnx_op("RoiAlign")
def roi_align(ctx: NodeContext) -> Value:
    x, regions = ctx.required(0), ctx.required(1)
    ctx.require_float32(x, regions)
    default = "half_pixel" if ctx.opset >= 16 else "output_half_pixel"
    coordinates = ctx.attr("coordinate_transformation_mode", default)
    return ctx.emit(
        "roi_align",
        [x, regions, ctx.cast(ctx.required(2), "int64")],
        out=(ctx.attr("output_height", 1), ctx.attr("output_width", 1)),
        largest=ctx.attr("mode", "avg") == "max",
        ratio=ctx.attr("sampling_ratio", 0),
        scale=float(ctx.attr("spatial_scale", 1.0)),
        half_pixel=coordinates == "half_pixel",
    )


@onnx_op("DeformConv")
def deform_conv(ctx: NodeContext) -> Value:
    x, w, offset = ctx.required(0), ctx.required(1), ctx.required(2)
    ctx.require_float32(x, w, offset)
    if len(x.shape) != 4:
        raise UnsupportedError("deformable convolution supports only 2-D images")
    groups, kernel = ctx.attr("group", 1), w.shape[2:]
    attrs = convolution_window(ctx, x, w)
    inputs = [x, offset] if ctx.input(4) is None else [x, offset, ctx.required(4)]
    columns = ctx.emit(
        "deform_columns",
        inputs,
        kernel=tuple(kernel),
        strides=attrs["strides"],
        dilations=attrs["dilations"],
        pads_before=attrs["pads_before"],
        groups=groups,
        parts=ctx.attr("offset_group", 1),
    )
    weights = _im2col_weights(ctx, w)
    if weights.shape[1] * groups != columns.shape[1]:
        raise ValueError(f"weights {w.type} do not fit {x.type} in {groups} groups")
    window = default_window(2)
    if weights.data is None:
        return convolution(ctx, columns, weights, ctx.input(3), groups, window)
    y = ctx.emit("conv", [columns, weights], groups=groups, **window)
    return with_bias(ctx, y, ctx.input(3))


def _im2col_weights(ctx: NodeContext, w: Value) -> Value:
    """Convert weights [out, depth, height, width] to 1x1 weights of im2col columns."""
    shape = (w.shape[0], prod(w.shape[1:]), 1, 1)
    if w.data is not None:
        return ctx.const(w.data.transpose(0, 2, 3, 1).reshape(shape))
    return ctx.reshape(ctx.transpose(w, (0, 2, 3, 1)), shape)
