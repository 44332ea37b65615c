"""Depthwise layers with Helium, up to 6 kernel columns: three instructions per window."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir.extent import SymInt, upper_bound

from ..kernel import MicroKernel, MicroWeights, padded
from ..layer_i8 import MicroLayer
from ..shape import Ring

ROWS = 8  # of the line buffer, TVMRT_MICRO_MVE_ROWS
MOST_COLUMNS = 1170  # offsets of seven such planes fit the 16 bits of a scatter store


def windows(taps: int, cost: float) -> MicroKernel[MicroLayer]:
    """Return the kernel for windows of ``taps`` columns, the last of which may be zeros."""

    def columns(layer: MicroLayer) -> SymInt:
        """Return the buffered columns of a row."""
        shape = layer.shape
        return (shape.out[1] - 1) * shape.stride[1] + taps

    def supports(layer: MicroLayer) -> bool:
        shape = layer.shape
        if (
            not shape.depthwise
            or shape.dilation != (1, 1)
            or upper_bound(columns(layer)) > MOST_COLUMNS
        ):
            return False
        if shape.kernel[0] > ROWS or shape.kernel[1] > taps:
            return False
        return layer.fits_int8

    def pack(layer: MicroLayer) -> MicroWeights:
        """Pack weights as int8 [channel][column][row], see ``board/depthwise_i8_8x8_mve.h``."""
        full = padded(layer.weights.astype(np.int8), 4)
        rows, width = layer.shape.kernel
        packed = np.zeros((len(full), taps, ROWS), np.int8)
        packed[:, :width, :rows] = full.reshape(-1, rows, width).transpose(0, 2, 1)
        return MicroWeights(packed.reshape(-1), layer.folded(4, layer.to_int8))

    def scratch(layer: MicroLayer) -> Ring:
        shape = layer.shape
        plane = columns(layer) * ROWS
        front = shape.out[1] * 8 * 4  # accumulators
        return Ring(ROWS, columns(layer), plane, shape.whole_quads * plane + front)

    return MicroKernel(
        header="board/depthwise_i8_8x8_mve.h",
        name=f"tvmrt_micro_depthwise_{taps}_mve_i8",
        cost=cost,
        supports=supports,
        pack=pack,
        scratch=scratch,
        needs=frozenset({"mve"}),
    )


KERNEL = windows(6, 0.45)
