"""Mel weight matrix: weights of mel bands over the frequencies of a spectrum."""

from __future__ import annotations

from math import log

import numpy as np
from onnx import TensorProto

from tvmrt.compiler.ir import Value

from . import run_places
from .context import NodeContext
from .elementwise import element_type
from .registry import onnx_op
from .signal import table
from .supposed import is_given
from .tensor_expressions import TensorExpr, require


@onnx_op("MelWeightMatrix")
def mel_weight_matrix(ctx: NodeContext) -> Value:
    if not is_given(ctx, *range(5)):
        return table(ctx)
    sizes = [TensorExpr.from_integer(ctx, ctx.required(i)).reshape() for i in (0, 1)]
    rows, bands = run_places.declared(ctx, 2, "num_mel_bins")
    require(sizes[0].reshape(1), [bands], ctx.required(0), "num_mel_bins", f"{bands!r} bands")
    found = (sizes[1] / 2 + 1).reshape(1)
    require(found, [rows], ctx.required(1), "dft_length", f"{rows!r} frequencies")
    edges = _edges(ctx, sizes[1], bands)
    low, middle, high = (
        TensorExpr(ctx, ctx.slice_axis(edges.value, 0, i, bands)) for i in range(3)
    )  # rows that broadcast with the column of frequencies
    place = TensorExpr(ctx, ctx.reshape(ctx.cast(ctx.iota(rows), "float64"), (rows, 1)))
    rise, fall = middle - low, high - middle
    inside = (place >= low).logical_and(place <= middle)
    up = inside.where((place - low) / rise.maximum(1), 0)
    up = rise.equals(0).where(place.equals(middle).where(place * 0 + 1, 0), up)
    behind = (place >= middle).logical_and(place < high)
    whole = behind.where((high - place) / fall.maximum(1), up)
    return ctx.convert(whole.value, element_type(ctx.attr("output_datatype", TensorProto.FLOAT)))


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
