"""Depthwise integer layers of any shape."""

from __future__ import annotations

import numpy as np

from ..kernel import MicroKernel, MicroWeights, pad_to_multiple
from ..layer_i8 import QUAD_ORDER, MicroLayerI8
from ..shape import row_line_buffer


def pack(layer: MicroLayerI8) -> MicroWeights:
    """Pack weights as int16 [quad of channels][row][column][channel in the quad's order]."""
    full = pad_to_multiple(layer.weights.astype(np.int16), 4)
    quads = full.reshape(-1, 4, full.shape[1]).transpose(0, 2, 1)[:, :, QUAD_ORDER]
    return MicroWeights(np.ascontiguousarray(quads).reshape(-1), layer.folded_bias(4))


KERNEL = MicroKernel(
    header="board/depthwise_i8.h",
    name="tvmrt_micro_depthwise_i8",
    cost=3.5,
    supports=lambda layer: layer.shape.depthwise,
    pack=pack,
    scratch=lambda layer: row_line_buffer(layer.shape, 2),
    reads_weights_per_pixel=True,
    x_bytes=(1, 2),
)
