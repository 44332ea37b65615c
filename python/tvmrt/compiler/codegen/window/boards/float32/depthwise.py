"""Depthwise float layers of any shape."""

from ..kernel import MicroKernel, MicroWeights, pad_to_multiple
from ..layer_f32 import pack_blocks_of_4
from ..shape import row_line_buffer

KERNEL = MicroKernel(
    header="board/depthwise_f32.h",
    name="tvmrt_micro_depthwise_f32",
    cost=1.9,
    supports=lambda layer: layer.shape.depthwise,
    pack=lambda layer: MicroWeights(pack_blocks_of_4(layer), pad_to_multiple(layer.biases, 4)),
    scratch=lambda layer: row_line_buffer(layer.shape, 4),
)
