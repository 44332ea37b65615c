"""Depthwise layers of any kernel with Helium: eight channels of a pixel at a time."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir.rounding import round_up

from ..kernel import MicroKernel, MicroWeights
from ..layer_i8 import MicroLayerI8
from ..shape import LineBuffer

CHANNELS = 8  # of a vector


def pairs(layer: MicroLayerI8) -> np.ndarray:
    """Return the weights [channel, pair, 2] whose products are added as int16."""
    weights = layer.weights
    full = np.zeros((round_up(len(weights), CHANNELS), round_up(weights.shape[1], 2)), np.int64)
    full[: len(weights), : weights.shape[1]] = weights
    return full.reshape(len(full), -1, 2)


def supports(layer: MicroLayerI8) -> bool:
    if not layer.shape.depthwise or not layer.fits_int8:
        return False
    return layer.shape.x_bytes == 2 or bool(np.abs(pairs(layer)).sum(axis=2).max() * 128 < 1 << 15)


def pack(layer: MicroLayerI8) -> MicroWeights:
    """Pack weights as int8 [8 channels][element of the window][channel]."""
    weights = pairs(layer)
    blocks = weights.reshape(-1, CHANNELS, weights.shape[1] * 2).transpose(0, 2, 1)
    return MicroWeights(
        blocks.astype(np.int8).reshape(-1), layer.folded_bias(CHANNELS, layer.int8_offset)
    )


def scratch(layer: MicroLayerI8) -> LineBuffer:
    shape = layer.shape
    rows, columns = shape.line_buffer_rows, shape.line_buffer_columns
    pixel = round_up(shape.in_c, CHANNELS) * shape.x_bytes
    offsets = round_up(shape.elements, 2) * 4
    return LineBuffer(rows, columns, pixel, offsets + rows * columns * pixel)


KERNEL = MicroKernel(
    header="board/depthwise_i8_8ch_mve.h",
    name="tvmrt_micro_depthwise_8ch_mve_i8",
    cost=0.9,
    supports=supports,
    pack=pack,
    scratch=scratch,
    required_features=frozenset({"mve"}),
    x_bytes=(1, 2),
)
