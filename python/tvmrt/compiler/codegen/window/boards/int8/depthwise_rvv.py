"""Depthwise layers of any shape with RISC-V vectors of channels."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir.rounding import round_up

from ..kernel import MicroKernel, MicroWeights
from ..layer_i8 import MicroLayerI8
from ..shape import LineBuffer


def pack(layer: MicroLayerI8) -> MicroWeights:
    """Pack weights as int16 [row][column][channel], see ``board/depthwise_i8_rvv.h``."""
    weights = np.ascontiguousarray(layer.weights.T.astype(np.int16))
    return MicroWeights(weights.reshape(-1), layer.folded_bias(4, layer.int8_offset))


def scratch(layer: MicroLayerI8) -> LineBuffer:
    """Return a line buffer of all rows under a window, in the layout of the input."""
    rows, columns = layer.shape.line_buffer_rows, layer.shape.line_buffer_columns
    row = columns * layer.shape.in_c
    return LineBuffer(rows, columns, row, round_up(rows * row, 8))


KERNEL = MicroKernel(
    header="board/depthwise_i8_rvv.h",
    name="tvmrt_micro_depthwise_rvv_i8",
    cost=0.25,
    supports=lambda layer: layer.shape.depthwise,
    pack=pack,
    scratch=scratch,
    required_features=frozenset({"rvv"}),
)
