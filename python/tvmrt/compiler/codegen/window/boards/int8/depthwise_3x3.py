"""Depthwise layers of 3 x 3, stride 1 or 2, in pairs of rows."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir.extent import SymInt

from ..kernel import MicroKernel, MicroWeights, padded
from ..layer_i8 import MicroLayer
from ..shape import MicroShape, Ring


def supports(layer: MicroLayer) -> bool:
    shape = layer.shape
    taps = (shape.depthwise, shape.kernel, shape.dilation)
    return taps == (True, (3, 3), (1, 1)) and shape.stride in ((1, 1), (2, 2))


def pack(layer: MicroLayer) -> MicroWeights:
    """Pack weights as int16 [channel][10], see ``board/depthwise_i8_3x3_dsp.h``."""
    full = padded(layer.weights.astype(np.int16), 4)
    packed = np.zeros((len(full), 10), np.int16)
    rows = full.reshape(-1, 3, 3)
    packed[:, :6] = rows[:, :2].transpose(0, 2, 1).reshape(-1, 6)
    packed[:, [6, 7, 9]] = rows[:, 2]
    return MicroWeights(packed.reshape(-1), layer.folded(4))


def ring_of_pairs(shape: MicroShape, columns: SymInt, element: int, summed: SymInt) -> Ring:
    """Return a line buffer of two pairs of rows per channel after the int32 accumulators.

    ``element``: bytes of an element; ``summed``: columns with accumulators, of four channels of two
    output rows.
    """
    plane = columns * 4
    return Ring(2, columns, plane, shape.whole_quads * plane * element + summed * 2 * 4 * 4)


def scratch(layer: MicroLayer) -> Ring:
    shape = layer.shape
    return ring_of_pairs(shape, shape.ring_columns, 2, shape.out[1])


KERNEL = MicroKernel(
    header="board/depthwise_i8_3x3_dsp.h",
    name="tvmrt_micro_depthwise_3x3_i8",
    cost=1.1,
    supports=supports,
    pack=pack,
    scratch=scratch,
    unit=2,
)
