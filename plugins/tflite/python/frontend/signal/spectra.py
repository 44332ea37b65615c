"""Transforms from samples to spectra and back: windows, scaling, FFT, energies."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.arithmetic import radices
from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.registry import tflite_op
from tvmrt.plugins.tflite.frontend.signal.operands import check_range, integer_options, operand

MAX_LENGTH = 1 << 16


@tflite_op(SignalWindow=1)
def window(ctx: OpContext) -> Value:
    """Multiply samples by weights, shift right and saturate."""
    x, weights = operand(ctx, 0, "int16"), operand(ctx, 1, "int16", 1)
    shift = check_range("shift", *integer_options(ctx, "shift"), 0, 31)
    if x.type.size % weights.shape[0]:
        raise ValueError(f"weights {weights.type} do not fit {x.type}")
    rows = ctx.reshape(x, (x.type.size // weights.shape[0], weights.shape[0]))
    y = ctx.emit("signal_window", [rows, weights, ctx.const(shift, np.int32)])
    return ctx.reshape(y, x.shape)


@tflite_op(SignalFftAutoScale=1)
def auto_scale(ctx: OpContext) -> list[Value]:
    x = operand(ctx, 0, "int16", 1)
    return ctx.emit_many("signal_auto_scale", [x])


def _length(length: int) -> int:
    """Return a supported transform length. Raises UnsupportedError for others."""
    if length % 2 or not 4 <= length <= MAX_LENGTH or radices(length // 2) is None:
        raise UnsupportedError(
            f"a transform over {length} elements; it must be an even number up to {MAX_LENGTH} "
            "with no prime factors but 2, 3 and 5"
        )
    return length


@tflite_op(SignalRfft=1)
def rfft(ctx: OpContext) -> Value:
    x = operand(ctx, 0, "int16|int32|float32")
    length = _length(*integer_options(ctx, "fft_length"))
    if x.shape[-1] > length:
        raise ValueError(f"{x.type} has rows of more than {length} elements")
    return ctx.emit("signal_rfft", [x], length=length)


@tflite_op(SignalIrfft=1)
def irfft(ctx: OpContext) -> Value:
    x = operand(ctx, 0, "int16|int32|float32")
    length = _length(*integer_options(ctx, "fft_length"))
    if x.shape[-1] != length + 2:
        raise ValueError(f"{x.type} is not a spectrum of {length} elements")
    y = ctx.emit("signal_irfft", [x], length=length)
    if x.dtype.name == "float32":
        y = ctx.emit("div", [y, ctx.like(length, y)])
    return y


def squared_magnitudes(ctx: OpContext, spectrum: Value, first: int, count: int, to: str) -> Value:
    """Return squared magnitudes of ``count`` bins from ``first`` on, in type ``to``; the spectrum
    has (real, imaginary) pairs along its last axis."""
    axis = spectrum.type.rank - 1
    parts = [ctx.slice_axis(spectrum, axis, 2 * first + i, count, 2) for i in (0, 1)]
    parts = [ctx.cast(part, to) for part in parts]
    return ctx.emit("add", [ctx.emit("mul", [part, part]) for part in parts])


@tflite_op(SignalEnergy=1)
def energy(ctx: OpContext) -> Value:
    """Compute the energies of a range of frequencies. The others are unspecified by the operator;
    they are computed, too, because that avoids moving memory."""
    x, (end, start) = operand(ctx, 0, "int16", 1), integer_options(ctx, "end_index", "start_index")
    shape = ctx.result().shape
    if len(shape) != 1 or not 0 <= start < end <= min(shape[0], x.shape[0] // 2):
        raise ValueError(f"frequencies {start} to {end} of {x.type} are no {list(shape)}")
    count = min(shape[0], x.shape[0] // 2)
    # the sum of two squared int16 needs all 32 bits of uint32
    result = squared_magnitudes(ctx, x, 0, count, "uint32")
    if count == shape[0]:
        return result
    rest = ctx.const(np.zeros(shape[0] - count, np.uint32))
    return ctx.emit("concat", [result, rest], axis=0)
