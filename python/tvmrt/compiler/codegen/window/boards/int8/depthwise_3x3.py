"""Depthwise layers of 3 x 3, stride 1 or 2, in pairs of rows."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir.sizes import SymInt

from ..kernel import MicroKernel, MicroWeights, pad_to_multiple
from ..layer_i8 import MicroLayerI8
from ..shape import LineBuffer, MicroShape


def supports(layer: MicroLayerI8) -> bool:
    shape = layer.shape
    taps = (shape.depthwise, shape.kernel, shape.dilation)
    return taps == (True, (3, 3), (1, 1)) and shape.stride in ((1, 1), (2, 2))


def pack(layer: MicroLayerI8) -> MicroWeights:
    """Pack weights as int16 [channel][10], see ``board/depthwise_i8_3x3_dsp.h``."""
    full = pad_to_multiple(layer.weights.astype(np.int16), 4)
    packed = np.zeros((len(full), 10), np.int16)
    rows = full.reshape(-1, 3, 3)
    packed[:, :6] = rows[:, ::2].transpose(0, 2, 1).reshape(-1, 6)
    packed[:, 6:9] = rows[:, 1]
    return MicroWeights(packed.reshape(-1), layer.folded_bias(4, layer.int8_offset))


def row_pair_line_buffer(shape: MicroShape, columns: SymInt, summed: SymInt) -> LineBuffer:
    """Return a line buffer of two pairs of rows per channel, as int8, after the int32 accumulators.

    ``summed``: columns with accumulators, of four channels of two output rows.
    """
    plane = columns * 4
    return LineBuffer(2, columns, plane, shape.padded_channels * plane + summed * 2 * 4 * 4)


def scratch(layer: MicroLayerI8) -> LineBuffer:
    shape = layer.shape
    return row_pair_line_buffer(shape, shape.line_buffer_columns, shape.out[1])


KERNEL = MicroKernel(
    header="board/depthwise_i8_3x3_dsp.h",
    name="tvmrt_micro_depthwise_3x3_i8",
    cost=1.1,
    supports=supports,
    pack=pack,
    scratch=scratch,
    unit=2,
)
