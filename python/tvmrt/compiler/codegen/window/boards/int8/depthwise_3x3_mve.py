"""Depthwise layers of 3 x 3, stride 1 or 2, with Helium: one instruction per window."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir.rounding import round_up
from tvmrt.compiler.ir.sizes import SymInt, upper_bound

from ..kernel import MicroKernel, MicroWeights, pad_to_multiple
from ..layer_i8 import MicroLayerI8
from ..shape import LineBuffer, MicroShape
from . import depthwise_3x3

MAX_COLUMNS = 4680  # offsets of seven such planes fit the 16 bits of a scatter store


def columns(shape: MicroShape) -> SymInt:
    """Return the buffered columns of a row: vectors begin at even columns and have four."""
    return round_up(shape.out[1] * shape.stride[1], 2) + 2


def supports(layer: MicroLayerI8) -> bool:
    if not depthwise_3x3.supports(layer) or upper_bound(columns(layer.shape)) > MAX_COLUMNS:
        return False
    return layer.fits_int8


def pack(layer: MicroLayerI8) -> MicroWeights:
    """Pack weights as int8 [channel][4 columns][4], see ``board/depthwise_i8_3x3_mve.h``."""
    full = pad_to_multiple(layer.weights.astype(np.int8), 4)
    packed = np.zeros((len(full), 4, 4), np.int8)
    packed[:, 1:, :3] = full.reshape(-1, 3, 3).transpose(0, 2, 1)
    return MicroWeights(
        np.append(packed, np.zeros(4, np.int8)), layer.folded_bias(4, layer.int8_offset)
    )


def scratch(layer: MicroLayerI8) -> LineBuffer:
    shape = layer.shape
    return depthwise_3x3.row_pair_line_buffer(shape, columns(shape), round_up(shape.out[1], 2))


KERNEL = MicroKernel(
    header="board/depthwise_i8_3x3_mve.h",
    name="tvmrt_micro_depthwise_3x3_mve_i8",
    cost=0.4,
    supports=supports,
    pack=pack,
    scratch=scratch,
    required_features=frozenset({"mve"}),
    unit=2,
)
