"""Fourier transforms, as products with matrices of sines and cosines."""

from __future__ import annotations

import numpy as np

from tvmrt.error import UnsupportedError
from tvmrt.frontend.shapes import plain_window
from tvmrt.ir import Value
from tvmrt.ir.op import normalize_axis

from .context import NodeContext
from .linear import product
from .registry import onnx_op

MAX_MATRIX = 1 << 22  # numbers of a transform's matrix; beyond, a fast transform would be needed


def fourier(length: int, bins: int, inputs: int, inverse: bool, complex_out: bool = True):
    """The matrix [length * inputs, bins * outputs] of a transform over interleaved numbers.

    ``inputs`` is 1 for real numbers and 2 for real and imaginary parts. Of an inverse transform
    to real numbers ``bins`` are the elements of the result.
    """
    if length * bins * 4 > MAX_MATRIX:
        raise UnsupportedError(f"a Fourier transform of {length} elements; too long for a matrix")
    angle = 2 * np.pi * np.outer(np.arange(length), np.arange(bins)) / length
    cos, sin = np.cos(angle), np.sin(angle) * (1 if inverse else -1)
    # out = (a + bi)(cos + i sin): what the real and the imaginary part of an input give
    rows = [[cos, sin], [-sin, cos]][:inputs]
    block = np.stack([np.stack(row, -1) for row in rows], 1)
    if not complex_out:
        block = block[..., :1]
    if inverse:
        block = block / length
    return block.reshape(length * inputs, -1)


@onnx_op("DFT")
def dft(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    rank = len(x.shape)
    if ctx.opset >= 20:
        given = ctx.ints_of(2, "the axis")
        axis = given[0] if given else -2
    else:
        axis = ctx.attr("axis", 1)
    axis = normalize_axis(axis, rank)
    inverse, onesided = bool(ctx.attr("inverse", 0)), bool(ctx.attr("onesided", 0))
    wanted = ctx.ints_of(1, "the length")
    numbers = x.shape[-1]
    if axis == rank - 1 or numbers not in (1, 2):
        raise ValueError(f"a Fourier transform of {x.type} along axis {axis}")
    # the axis and the parts of its numbers become the columns of a matrix
    order = [*(d for d in range(rank) if d not in (axis, rank - 1)), axis, rank - 1]
    moved = ctx.transpose(x, order)
    full = onesided and inverse
    length = wanted[0] if wanted else (2 * (x.shape[axis] - 1) if full else x.shape[axis])
    if full:
        moved = _mirrored(ctx, moved, length)
    moved = ctx.fitted(moved, rank - 2, length)
    bins = length // 2 + 1 if onesided and not inverse else length
    matrix = fourier(length, bins, numbers, inverse, complex_out=not full)
    outputs = 1 if full else 2
    flat = ctx.reshape(moved, (*moved.shape[:-2], 1, length * numbers))
    y = product(ctx, flat, ctx.const(matrix, x.dtype.numpy))
    y = ctx.reshape(y, (*moved.shape[:-2], bins, outputs))
    return ctx.transpose(y, np.argsort(order).tolist())


def _mirrored(ctx: NodeContext, x: Value, length: int) -> Value:
    """The conjugated second half of a spectrum of real numbers, behind the first."""
    axis = len(x.shape) - 2
    x = ctx.fitted(x, axis, length // 2 + 1)
    rest = length - x.shape[axis]
    if rest <= 0 or x.shape[-1] == 1:
        return x
    tail = ctx.slice_axis(x, axis, rest, rest, -1)
    sign = ctx.const([1.0, -1.0], x.dtype.numpy)
    return ctx.emit("concat", [x, ctx.emit("mul", [tail, sign])], axis=axis)


@onnx_op("STFT")
def stft(ctx: NodeContext) -> Value:
    """A convolution whose kernels are the windowed waves."""
    x, window = ctx.required(0), ctx.input(2)
    given = ctx.ints_of(3, "the frame length")
    length = given[0] if given or window is None else window.shape[0]
    step = ctx.ints_of(1, "the frame step")[0]
    if x.dtype.name != "float32" or (len(x.shape) == 3 and x.shape[2] != 1):
        raise UnsupportedError(f"a short-time Fourier transform of {x.type}; real float32 only")
    bins = length // 2 + 1 if ctx.attr("onesided", 1) else length
    matrix = fourier(length, bins, 1, False)
    signal = ctx.reshape(x, (x.shape[0], 1, x.shape[1]))
    if window is not None and window.data is None:
        frames = _weighted_frames(ctx, signal, window, step, matrix)
    else:
        matrix = matrix if window is None else matrix * window.data.reshape(-1, 1)
        waves = ctx.const(matrix.T[:, None, :], np.float32)
        y = ctx.emit("conv", [signal, waves], groups=1, **plain_window(1, strides=(step,)))
        frames = ctx.transpose(y, (0, 2, 1))
    return ctx.reshape(frames, (x.shape[0], frames.shape[1], bins, 2))


def _weighted_frames(
    ctx: NodeContext, signal: Value, window: Value, step: int, matrix: np.ndarray
) -> Value:
    """Frames of a signal [batch, 1, samples], times a window of the run, times a matrix."""
    length, samples = window.shape[0], signal.shape[2]
    if not isinstance(samples, int) or not 0 < step or length > samples:
        raise ValueError(f"frames of {length} elements by steps of {step} in {samples}")
    starts = np.arange((samples - length) // step + 1) * step
    ctx.table_size(starts.size * length, "the table of frames")
    places = ctx.const(starts[:, None] + np.arange(length), np.int64)
    frames = ctx.emit("gather", [signal, places], axis=2)
    frames = ctx.reshape(frames, (signal.shape[0], starts.size, length))
    weighted = ctx.emit("mul", [frames, ctx.cast(window, "float32")])
    return product(ctx, weighted, ctx.const(matrix, np.float32))
