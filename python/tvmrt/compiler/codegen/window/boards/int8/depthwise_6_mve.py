"""Depthwise layers with Helium, up to 6 kernel columns: three instructions per window."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir.sizes import SymInt, upper_bound

from ..kernel import MicroKernel, MicroWeights, pad_to_multiple
from ..layer_i8 import MicroLayerI8
from ..shape import LineBuffer

ROWS = 8  # of the line buffer, TVMRT_MICRO_MVE_ROWS
MAX_COLUMNS = 1170  # offsets of seven such planes fit the 16 bits of a scatter store


def mve_kernel(taps: int, cost: float) -> MicroKernel[MicroLayerI8]:
    """Return the kernel for windows of ``taps`` columns, the last of which may be zeros."""

    def columns(layer: MicroLayerI8) -> SymInt:
        """Return the buffered columns of a row."""
        shape = layer.shape
        return (shape.out[1] - 1) * shape.stride[1] + taps

    def supports(layer: MicroLayerI8) -> bool:
        shape = layer.shape
        if not shape.depthwise or shape.dilation != (1, 1):
            return False
        if upper_bound(columns(layer)) > MAX_COLUMNS:
            return False
        if shape.kernel[0] > ROWS or shape.kernel[1] > taps or shape.elements < 2 * taps:
            return False  # vectors would hold mostly zeros
        return layer.fits_int8

    def pack(layer: MicroLayerI8) -> MicroWeights:
        """Pack weights as int8 [channel][column][row], see ``board/depthwise_i8_8x8_mve.h``."""
        full = pad_to_multiple(layer.weights.astype(np.int8), 4)
        rows, width = layer.shape.kernel
        packed = np.zeros((len(full), taps, ROWS), np.int8)
        packed[:, :width, :rows] = full.reshape(-1, rows, width).transpose(0, 2, 1)
        return MicroWeights(packed.reshape(-1), layer.folded_bias(4, layer.int8_offset))

    def scratch(layer: MicroLayerI8) -> LineBuffer:
        shape = layer.shape
        plane = columns(layer) * ROWS
        front = shape.out[1] * 8 * 4  # accumulators
        return LineBuffer(ROWS, columns(layer), plane, shape.padded_channels * plane + front)

    return MicroKernel(
        header="board/depthwise_i8_8x8_mve.h",
        name=f"tvmrt_micro_depthwise_{taps}_mve_i8",
        cost=cost,
        supports=supports,
        pack=pack,
        scratch=scratch,
        required_features=frozenset({"mve"}),
    )


KERNEL = mve_kernel(6, 0.45)
