"""Depthwise layers of 3 x 3, stride 1 or 2, with Helium: one instruction per window."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir.extent import SymInt, upper_bound
from tvmrt.compiler.ir.rounding import round_up

from ..kernel import MicroKernel, MicroWeights, padded
from ..layer_i8 import MicroLayer
from ..shape import MicroShape, Ring
from . import depthwise_3x3

MOST_COLUMNS = 4680  # offsets of seven such planes fit the 16 bits of a scatter store


def columns(shape: MicroShape) -> SymInt:
    """Return the buffered columns of a row: vectors begin at even columns and have four."""
    return round_up(shape.out[1] * shape.stride[1], 2) + 2


def supports(layer: MicroLayer) -> bool:
    if not depthwise_3x3.supports(layer) or upper_bound(columns(layer.shape)) > MOST_COLUMNS:
        return False
    return layer.fits_int8


def pack(layer: MicroLayer) -> MicroWeights:
    """Pack weights as int8 [channel][4 columns][4], see ``board/depthwise_i8_3x3_mve.h``."""
    full = padded(layer.weights.astype(np.int8), 4)
    packed = np.zeros((len(full), 4, 4), np.int8)
    packed[:, 1:, :3] = full.reshape(-1, 3, 3).transpose(0, 2, 1)
    return MicroWeights(np.append(packed, np.zeros(4, np.int8)), layer.folded(4, layer.to_int8))


def scratch(layer: MicroLayer) -> Ring:
    shape = layer.shape
    return depthwise_3x3.ring_of_pairs(shape, columns(shape), 1, round_up(shape.out[1], 2))


KERNEL = MicroKernel(
    header="board/depthwise_i8_3x3_mve.h",
    name="tvmrt_micro_depthwise_3x3_mve_i8",
    cost=0.4,
    supports=supports,
    pack=pack,
    scratch=scratch,
    needs=frozenset({"mve"}),
    unit=2,
)
