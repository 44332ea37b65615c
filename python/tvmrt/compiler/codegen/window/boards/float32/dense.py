"""Small matmuls of one row, optimised for code size."""

from __future__ import annotations

import numpy as np

from ..kernel import MicroKernel, MicroWeights
from ..layer_f32 import MicroLayerF32
from ..shape import Im2colBuffer

MAX_MACS = 512  # of a matmul optimised for code size instead of speed


def supports(layer: MicroLayerF32) -> bool:
    shape, bounds = layer.shape, (layer.low, layer.high)
    row = shape.pixels == 1 and shape.pointwise and not layer.may_overwrite_input
    few = 0 < shape.in_c * shape.out_c <= MAX_MACS
    return row and few and layer.only_clamps and bounds in ((0, np.inf), (-np.inf, np.inf))


def pack(layer: MicroLayerF32) -> MicroWeights:
    """Pack the bias and the weights of each output."""
    packed = np.concatenate([layer.biases[:, None], layer.weights.astype(np.float32)], axis=1)
    return MicroWeights(packed.reshape(-1), None)


KERNEL = MicroKernel(
    header="board/dense_f32.h",
    name="tvmrt_micro_dense_f32",
    cost=0,
    supports=supports,
    pack=pack,
    scratch=lambda layer: Im2colBuffer(layer.shape.elements, 0),
)
