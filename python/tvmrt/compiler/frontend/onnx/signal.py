"""Fourier transforms, as matmuls with matrices of sines and cosines, and mel bands of spectra."""

from __future__ import annotations

from math import log

import numpy as np
from onnx import TensorProto

from tvmrt.compiler.frontend.shapes import default_window
from tvmrt.compiler.ir import DTYPES, Value
from tvmrt.compiler.ir.op import normalize_axis
from tvmrt.compiler.ir.sizes import (
    SymInt,
    extent_text,
    sym_max,
    symbols_of,
    upper_bound,
)
from tvmrt.compiler.ir.sizes.assumptions import is_at_least
from tvmrt.error import UnsupportedError, UnsupportedSizes

from . import dynamic_slice
from .context import NodeContext
from .dynamic_sizes import has_runtime_operand
from .elementwise import element_type
from .matmul import emit_matmul
from .registry import onnx_op
from .tensor_expressions import TensorExpr, require

MAX_MATRIX = 1 << 22  # elements of a transform's matrix; larger ones would need an FFT

_WINDOW_COEFFICIENTS = {
    "BlackmanWindow": (0.42, -0.5, 0.08),
    "HammingWindow": (25 / 46, -21 / 46),
    "HannWindow": (0.5, -0.5),
}  # factors of a window's harmonics


def dft_matrix(length: int, bins: int, inputs: int, inverse: bool, complex_out: bool = True):
    """Return the matrix [length * inputs, bins * outputs] of a transform of interleaved numbers.

    ``inputs`` is 1 for real numbers and 2 for real and imaginary parts. For an inverse transform to
    real numbers, ``bins`` is the number of elements of the result.
    """
    if length * bins * 4 > MAX_MATRIX:
        raise UnsupportedSizes(f"a Fourier transform of {length} elements is too long for a matrix")
    angle = 2 * np.pi * np.outer(np.arange(length), np.arange(bins)) / length
    cos, sin = np.cos(angle), np.sin(angle) * (1 if inverse else -1)
    # out = (a + bi)(cos + i sin): contributions of the real and the imaginary input part
    rows = [[cos, sin], [-sin, cos]][:inputs]
    block = np.stack([np.stack(row, -1) for row in rows], 1)
    if not complex_out:
        block = block[..., :1]
    if inverse:
        block = block / length
    return block.reshape(length * inputs, -1)


def dft_matrix_tensor(
    ctx: NodeContext,
    length: SymInt,
    bins: SymInt,
    inputs: int,
    inverse: bool,
    dtype: str,
    complex_out: bool = True,
) -> Value:
    """Return the matrix of ``dft_matrix`` as a tensor, computed at run time for dynamic lengths."""
    if upper_bound(length) * upper_bound(bins) * 4 > MAX_MATRIX:
        raise UnsupportedSizes(
            f"a Fourier transform of {extent_text(length)} elements, up to {upper_bound(length)}; "
            "the maximum is 1024"
        )
    if not symbols_of(length, bins):
        matrix = dft_matrix(length, bins, inputs, inverse, complex_out)
        return ctx.const(matrix, DTYPES[dtype].numpy)
    # sines and cosines of each part of the circle, gathered into the matrix
    parts = TensorExpr(ctx, ctx.iota(length))
    circle = TensorExpr(ctx, ctx.cast(ctx.integer_tensor(np.asarray(length, object)), "float64"))
    angles = parts.cast("float64") * (2 * np.pi) / circle
    cos, sin = angles.apply("cos"), angles.apply("sin") * (1 if inverse else -1)
    columns = [cos, sin][: 1 + complex_out]
    if inputs == 2:
        columns += [sin * -1, cos][: 1 + complex_out]
    columns = [(c / circle if inverse else c).reshape(length, 1).value for c in columns]
    table = ctx.cast(ctx.concat(columns, 1), dtype)
    indices = parts.reshape(length, 1) * TensorExpr(ctx, ctx.iota(bins)).reshape(1, bins)
    indices = indices % TensorExpr(ctx, ctx.integer_tensor(np.asarray(length, object)))
    matrix = ctx.emit("gather", [table, indices.value], axis=0)
    matrix = ctx.reshape(matrix, (length, bins, inputs, 1 + complex_out))
    matrix = ctx.transpose(matrix, (0, 2, 1, 3))
    return ctx.reshape(matrix, (length * inputs, bins * (1 + complex_out)))


@onnx_op("DFT")
def dft(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    rank = len(x.shape)
    if ctx.opset >= 20:
        axis_operand = ctx.int_operand(2, "the axis")
        axis = axis_operand[0] if axis_operand else -2
    else:
        axis = ctx.attr("axis", 1)
    axis = normalize_axis(axis, rank)
    inverse, onesided = bool(ctx.attr("inverse", 0)), bool(ctx.attr("onesided", 0))
    length_operand = ctx.int_operand(1, "the length")
    components = x.shape[-1]
    if axis == rank - 1 or components not in (1, 2):
        raise ValueError(f"{x.type} has no axis {axis} for a Fourier transform")
    # the axis and the real and imaginary parts become the columns of a matrix
    order = [*(d for d in range(rank) if d not in (axis, rank - 1)), axis, rank - 1]
    moved = ctx.transpose(x, order)
    full = onesided and inverse
    whole = 2 * (x.shape[axis] - 1) if full else x.shape[axis]
    length = length_operand[0] if length_operand else whole
    if full:
        moved = _append_conjugate_half(ctx, moved, length)
    moved = ctx.pad_or_truncate(moved, rank - 2, length)
    bins = length // 2 + 1 if onesided and not inverse else length
    matrix = dft_matrix_tensor(
        ctx, length, bins, components, inverse, x.dtype.name, complex_out=not full
    )
    outputs = 1 if full else 2
    flat = ctx.reshape(moved, (*moved.shape[:-2], 1, length * components))
    y = emit_matmul(ctx, flat, matrix)
    y = ctx.reshape(y, (*moved.shape[:-2], bins, outputs))
    return ctx.transpose(y, np.argsort(order).tolist())


def _append_conjugate_half(ctx: NodeContext, x: Value, length: int) -> Value:
    """Append the conjugated second half to the spectrum of a real signal."""
    axis = len(x.shape) - 2
    x = ctx.pad_or_truncate(x, axis, length // 2 + 1)
    missing = sym_max(length - x.shape[axis], 0)
    if upper_bound(missing) == 0 or x.shape[-1] == 1:
        return x
    tail = ctx.slice_axis(x, axis, missing, missing, -1)
    sign = ctx.const([1.0, -1.0], x.dtype.numpy)
    return ctx.emit("concat", [x, ctx.emit("mul", [tail, sign])], axis=axis)


@onnx_op(*_WINDOW_COEFFICIENTS)
def window(ctx: NodeContext) -> Value:
    (size,) = ctx.int_operand(0, "the size")
    indices = TensorExpr(ctx, ctx.cast(ctx.iota(size, what="the window"), "float64"))
    steps = size if ctx.attr("periodic", 1) else sym_max(size - 1, 1)
    angles = (
        indices
        * (2 * np.pi)
        / TensorExpr(ctx, ctx.integer_tensor(np.asarray(steps, object))).cast("float64")
    )
    total = TensorExpr(ctx, ctx.const(0, np.float64))
    for harmonic, factor in enumerate(_WINDOW_COEFFICIENTS[ctx.op]):
        total = total + (angles * harmonic).apply("cos") * factor
    kind = ctx.attr("output_datatype", TensorProto.FLOAT)
    return ctx.convert(total.value, element_type(kind))


@onnx_op("STFT")
def stft(ctx: NodeContext) -> Value:
    """Short-time Fourier transform: a convolution whose kernels are the windowed waves."""
    x, window = ctx.required(0), ctx.input(2)
    frame_length = ctx.int_operand(3, "the frame length")
    length = frame_length[0] if frame_length or window is None else window.shape[0]
    step = ctx.int_operand(1, "the frame step")[0]
    if x.dtype.name != "float32" or (len(x.shape) == 3 and x.shape[2] != 1):
        raise UnsupportedError(
            f"a short-time Fourier transform of {x.type}; only real float32 is supported"
        )
    bins = length // 2 + 1 if ctx.attr("onesided", 1) else length
    matrix = dft_matrix(length, bins, 1, False)
    signal = ctx.reshape(x, (x.shape[0], 1, x.shape[1]))
    if window is not None and window.data is None:
        frames = _weighted_frames(ctx, signal, window, step, matrix)
    else:
        matrix = matrix if window is None else matrix * window.data.reshape(-1, 1)
        kernels = ctx.const(matrix.T[:, None, :], np.float32)
        y = ctx.emit("conv", [signal, kernels], groups=1, **default_window(1, strides=(step,)))
        frames = ctx.transpose(y, (0, 2, 1))
    return ctx.reshape(frames, (x.shape[0], frames.shape[1], bins, 2))


def _weighted_frames(
    ctx: NodeContext, signal: Value, window: Value, step: int, matrix: np.ndarray
) -> Value:
    """Return frames of a signal [batch, 1, samples], times a run-time window, times a matrix."""
    length, samples = window.shape[0], signal.shape[2]
    if not 0 < step or not is_at_least(samples - length, 0):
        raise ValueError(
            f"frames of {length} elements with step {step} do not fit {samples} samples"
        )
    count = (samples - length) // step + 1
    ctx.check_table_size(count * length, "the table of frames")
    starts = ctx.reshape(ctx.iota(count, 0, step), (count, 1))
    indices = ctx.emit("add", [starts, ctx.iota(length)])
    frames = ctx.emit("gather", [signal, indices], axis=2)
    frames = ctx.reshape(frames, (signal.shape[0], count, length))
    weighted = ctx.emit("mul", [frames, ctx.cast(window, "float32")])
    return emit_matmul(ctx, weighted, ctx.const(matrix, np.float32))


@onnx_op("MelWeightMatrix")
def mel_weight_matrix(ctx: NodeContext) -> Value:
    sizes = [TensorExpr.from_integer(ctx, ctx.required(i)).reshape() for i in (0, 1)]
    bins = (sizes[1] / 2 + 1).reshape(1)
    if has_runtime_operand(ctx, 0, 1):
        rows, bands = dynamic_slice.declared_shape(ctx, 2, ctx.required(0), "num_mel_bins")
        require(sizes[0].reshape(1), [bands], ctx.required(0), "num_mel_bins", f"{bands!r} bands")
        require(bins, [rows], ctx.required(1), "dft_length", f"{rows!r} frequencies")
    else:
        rows, bands = (max(int(each.value.data.item()), 0) for each in (bins, sizes[0]))
        ctx.check_table_size(rows * bands, "the table")
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
