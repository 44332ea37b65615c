"""Depthwise integer layers of any shape."""

from __future__ import annotations

import numpy as np

from ..kernel import MicroKernel, MicroWeights, padded
from ..layer_i8 import QUAD_ORDER, MicroLayer
from ..shape import ring_of_rows


def pack(layer: MicroLayer) -> MicroWeights:
    """Pack weights as int16 [quad of channels][row][column][channel in the quad's order]."""
    full = padded(layer.weights.astype(np.int16), 4)
    quads = full.reshape(-1, 4, full.shape[1]).transpose(0, 2, 1)[:, :, QUAD_ORDER]
    return MicroWeights(np.ascontiguousarray(quads).reshape(-1), layer.folded(4))


KERNEL = MicroKernel(
    header="board/depthwise_i8.h",
    name="tvmrt_micro_depthwise_i8",
    cost=3.5,
    supports=lambda layer: layer.shape.depthwise,
    pack=pack,
    scratch=lambda layer: ring_of_rows(layer.shape, 2),
)
