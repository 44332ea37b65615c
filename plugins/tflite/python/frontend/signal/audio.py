"""LiteRT's AudioSpectrogram and Mfcc, used by early speech networks."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.flexbuffer import read_map
from tvmrt.plugins.tflite.frontend.registry import tflite_op
from tvmrt.plugins.tflite.frontend.signal.operands import check_range, integer_options, operand
from tvmrt.plugins.tflite.frontend.signal.spectra import MAX_LENGTH

MAX_CHANNELS = 4096
FLOOR = 1e-12  # lower bound of energies before the logarithm


@tflite_op(AudioSpectrogram=1)
def spectrogram(ctx: OpContext) -> Value:
    """Transform [samples, channels] to [channels, frames, frequencies], with a Hann window."""
    x = operand(ctx, 0, "float32", 2)
    width, step, squared = integer_options(ctx, "window_size", "stride", "magnitude_squared")
    check_range("window_size", width, 3, MAX_LENGTH)
    check_range("stride", step, 1, 2**31 - 1)
    if x.shape[0] < width:
        raise UnsupportedError(f"windows of {width} samples are longer than the input {x.type}")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(width) / width)
    length = 1 << (width - 1).bit_length()
    attrs = {"length": length, "step": step, "squared": bool(squared)}
    return ctx.emit("spectrogram", [x, ctx.const(window, np.float32)], **attrs)


@tflite_op(Mfcc=1)
def mfcc(ctx: OpContext) -> Value:
    """Operands: squared spectra [channels, frames, frequencies], and the sample rate in Hz."""
    x, rate = operand(ctx, 0, "float32", 3), ctx.int_operand(1, "the sample rate")
    options = read_map(ctx.op.custom_options)
    limits = [options.get(f"{end}_frequency_limit") for end in ("lower", "upper")]
    bands, count = integer_options(ctx, "filterbank_channel_count", "dct_coefficient_count")
    check_range("filterbank_channel_count", bands, 1, MAX_CHANNELS)
    check_range("dct_coefficient_count", count, 1, bands)
    if len(rate) != 1 or rate[0] < 1 or x.shape[2] < 2:
        raise ValueError(f"{x.type} at {rate} samples per second is not a spectrogram")
    if not all(isinstance(limit, (int, float)) for limit in limits):
        raise ValueError("its options have no lower_frequency_limit and upper_frequency_limit")
    low, high = map(float, limits)
    if not 0 <= low < high <= rate[0] / 2:
        raise ValueError(f"frequencies {low} to {high} Hz are not in 0 to {rate[0] / 2} Hz")
    first, weights = _bands(x.shape[2], rate[0], low, high, bands)
    if not len(weights):
        raise ValueError(f"no frequency of {x.type} is between {low} and {high}")
    heights = ctx.emit("sqrt", [ctx.slice_axis(x, 2, first, len(weights))])
    sums = ctx.emit("matmul", [heights, ctx.const(weights, np.float32)])
    logs = ctx.emit("log", [ctx.emit("max", [sums, ctx.like(FLOOR, sums)])])
    angles = np.pi / bands * np.outer(np.arange(bands) + 0.5, np.arange(count))
    return ctx.emit("matmul", [logs, ctx.const(np.sqrt(2 / bands) * np.cos(angles), np.float32)])


def _mel(hertz: np.ndarray | float) -> np.ndarray:
    return 1127.0 * np.log1p(np.asarray(hertz) / 700.0)


def _bands(bins: int, rate: int, low: float, high: float, bands: int) -> tuple[int, np.ndarray]:
    """Return the first frequency bin in range, and the weights [bins, bands] from it on. The bands
    are triangles, equidistant on the mel scale; each reaches to the centres of the bands next to
    it."""
    hertz = 0.5 * rate / (bins - 1)
    first, last = int(1.5 + low / hertz), min(int(high / hertz), bins - 1)
    begin, end = _mel(low), _mel(high)
    middles = begin + (end - begin) / (bands + 1) * np.arange(bands + 2)
    mels = _mel(np.arange(first, last + 1) * hertz)
    band = np.searchsorted(middles[1:-1], mels)  # the band with its rising edge at this bin
    share = (middles[band + 1] - mels) / (middles[band + 1] - middles[band])
    weights = np.zeros((len(mels), bands + 2))
    rows = np.arange(len(mels))
    weights[rows, band] = share
    weights[rows, band + 1] = 1 - share
    return first, weights[:, 1:-1]
