"""Depthwise float layers of any shape."""

from ..kernel import MicroKernel, MicroWeights, padded
from ..layer_f32 import by_fours
from ..shape import ring_of_rows

KERNEL = MicroKernel(
    header="board/depthwise_f32.h",
    name="tvmrt_micro_depthwise_f32",
    cost=1.9,
    supports=lambda layer: layer.shape.depthwise,
    pack=lambda layer: MicroWeights(by_fours(layer), padded(layer.biases, 4)),
    scratch=lambda layer: ring_of_rows(layer.shape, 4),
)
