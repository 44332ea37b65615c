"""Depthwise layers whose kernels have 4 or 5 columns, of int16 also 3, in pairs of columns."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir.rounding import round_up
from tvmrt.compiler.ir.sizes import SymInt, lower_bound, upper_bound

from ..kernel import MicroKernel, MicroWeights, pad_to_multiple
from ..layer_i8 import QUAD_ORDER, MicroLayerI8
from ..shape import MAX_INT16, LineBuffer

END = 3  # words after the record of kernel rows, TVMRT_MICRO_WIDE_END


def dsp_kernel(taps: int, cost: float) -> MicroKernel[MicroLayerI8]:
    """Return the kernel for rows of ``taps`` weights; the last ones may be 0."""

    def columns(layer: MicroLayerI8) -> SymInt:
        """Return the buffered columns of a row, for four windows at a time."""
        return layer.shape.stride[1] * round_up(layer.shape.out[1], 4) + taps - 1

    def supports(layer: MicroLayerI8) -> bool:
        shape = layer.shape
        # int16 rows of three columns have no tile of their own
        narrowest = 3 if taps == 5 and shape.x_bytes == 2 else taps - 1
        if not shape.depthwise or not narrowest <= shape.kernel[1] <= taps:
            return False
        if shape.dilation[1] != 1 or shape.stride[1] not in (1, 2):
            return False
        if lower_bound(shape.out[1]) < 2 or upper_bound(columns(layer)) > MAX_INT16:
            return False
        return layer.fits_int8

    def pack(layer: MicroLayerI8) -> MicroWeights:
        """Pack weights as int8 [channel][row][word][2], see ``board/depthwise_i8_7x7_dsp.h``."""
        full = pad_to_multiple(layer.weights.astype(np.int8), 4)
        rows = np.zeros((len(full), layer.shape.kernel[0], 8), np.int8)
        rows[..., : layer.shape.kernel[1]] = full.reshape(*rows.shape[:2], -1)
        words = rows
        if layer.shape.stride[1] == 1:
            words = np.stack([rows[..., : taps - 1], rows[..., 1:taps]], axis=-1)
        return MicroWeights(words.reshape(-1, 4)[:, QUAD_ORDER].reshape(-1), layer.folded_bias(4))

    def scratch(layer: MicroLayerI8) -> LineBuffer:
        shape, rows = layer.shape, layer.shape.line_buffer_rows
        plane = rows * columns(layer)
        words = taps - 1 if shape.stride[1] == 1 else 4  # of a kernel row's weights
        front = round_up(shape.out[1], 4) * 4 * 4  # accumulators
        front += (shape.kernel[0] * (1 + words) + END) * 4
        return LineBuffer(rows, columns(layer), plane, shape.padded_channels * plane * 2 + front)

    return MicroKernel(
        header="board/depthwise_i8_7x7_dsp.h",
        name=f"tvmrt_micro_depthwise_{taps}_i8",
        cost=cost,
        supports=supports,
        pack=pack,
        scratch=scratch,
        required_features=frozenset({"dsp"}),
        x_bytes=(1, 2),
    )


KERNEL = dsp_kernel(5, 0.95)
