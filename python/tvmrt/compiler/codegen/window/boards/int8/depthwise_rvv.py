"""Depthwise layers of any shape with RISC-V vectors of channels."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir.rounding import round_up

from ..kernel import MicroKernel, MicroWeights
from ..layer_i8 import MicroLayer
from ..shape import Ring


def pack(layer: MicroLayer) -> MicroWeights:
    """Pack weights as int16 [row][column][channel], see ``board/depthwise_i8_rvv.h``."""
    weights = np.ascontiguousarray(layer.weights.T.astype(np.int16))
    return MicroWeights(weights.reshape(-1), layer.folded(4, layer.to_int8))


def scratch(layer: MicroLayer) -> Ring:
    """Return a line buffer of all rows under a window, in the layout of the input."""
    shape = layer.shape
    row = shape.ring_columns * shape.in_c
    return Ring(shape.ring_rows, shape.ring_columns, row, round_up(shape.ring_rows * row, 8))


KERNEL = MicroKernel(
    header="board/depthwise_i8_rvv.h",
    name="tvmrt_micro_depthwise_rvv_i8",
    cost=0.25,
    supports=lambda layer: layer.shape.depthwise,
    pack=pack,
    scratch=scratch,
    needs=frozenset({"rvv"}),
)
