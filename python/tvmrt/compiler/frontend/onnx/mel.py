"""Mel weight matrix: weights of mel bands over the frequencies of a spectrum."""

from __future__ import annotations

from math import log

import numpy as np
from onnx import TensorProto

from tvmrt.compiler.ir import Value

from . import dynamic_slice
from .context import NodeContext
from .dynamic_sizes import has_runtime_operand
from .elementwise import element_type
from .registry import onnx_op
from .signal import constant_table
from .tensor_expressions import TensorExpr, require


@onnx_op("MelWeightMatrix")
def mel_weight_matrix(ctx: NodeContext) -> Value:
    if not has_runtime_operand(ctx, *range(5)):
        return constant_table(ctx)
    sizes = [TensorExpr.from_integer(ctx, ctx.required(i)).reshape() for i in (0, 1)]
    rows, bands = dynamic_slice.declared_shape(ctx, 2, ctx.required(0), "num_mel_bins")
    require(sizes[0].reshape(1), [bands], ctx.required(0), "num_mel_bins", f"{bands!r} bands")
    bins = (sizes[1] / 2 + 1).reshape(1)
    require(bins, [rows], ctx.required(1), "dft_length", f"{rows!r} frequencies")
    edges = _edges(ctx, sizes[1], bands)
    low, middle, high = (
        TensorExpr(ctx, ctx.slice_axis(edges.value, 0, i, bands)) for i in range(3)
    )  # rows that broadcast with the column of frequencies
    frequency = TensorExpr(ctx, ctx.reshape(ctx.cast(ctx.iota(rows), "float64"), (rows, 1)))
    rise, fall = middle - low, high - middle
    inside = (frequency >= low).logical_and(frequency <= middle)
    below_peak = inside.where((frequency - low) / rise.maximum(1), 0)
    below_peak = rise.equals(0).where(
        frequency.equals(middle).where(frequency * 0 + 1, 0), below_peak
    )
    above_peak = (frequency >= middle).logical_and(frequency < high)
    weights = above_peak.where((high - frequency) / fall.maximum(1), below_peak)
    return ctx.convert(weights.value, element_type(ctx.attr("output_datatype", TensorProto.FLOAT)))


def _edges(ctx: NodeContext, length: TensorExpr, bands: int) -> TensorExpr:
    """Return the bands' start, peak and end frequencies as spectrum indices, in float64."""
    rate, *hertz = (
        TensorExpr(ctx, ctx.reshape(ctx.cast(ctx.required(i), "float64"), ())) for i in (2, 3, 4)
    )
    low, high = ((edge / 700 + 1).apply("log") * (2595 / log(10)) for edge in hertz)
    count = bands + 2
    steps = TensorExpr(ctx, ctx.const(np.arange(count), np.float64))
    mel = steps * ((high - low) / count) + low
    frequencies = ((mel * (log(10) / 2595)).apply("exp") - 1) * 700
    return ((length.cast("float64") + 1) * frequencies / rate).apply("floor")
