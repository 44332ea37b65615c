"""Dense float layers, windows of four pixels at a time."""

from __future__ import annotations

from tvmrt.compiler.ir.extent import upper_bound

from ..kernel import MicroKernel, MicroWeights, padded
from ..layer_f32 import MicroLayer, by_fours
from ..shape import Windows

STACK_WINDOWS = 128  # bytes, TVMRT_MICRO_F32_STACK_WINDOWS
PIXELS = 4  # TVMRT_MICRO_F32_PIXELS


def scratch(layer: MicroLayer) -> Windows:
    """Return scratch for windows of four pixels or one, or none if they are read in place."""
    shape = layer.shape
    few = upper_bound(shape.pixels) < PIXELS
    if few and shape.pointwise and not layer.may_overwrite_input:
        return Windows(shape.elements, 0)
    windows = (1 if few else PIXELS) * shape.elements * 4
    return Windows(shape.elements, windows if windows > STACK_WINDOWS else 0)


KERNEL = MicroKernel(
    header="board/conv_f32.h",
    name="tvmrt_micro_conv_f32",
    cost=1.4,
    supports=lambda layer: not layer.shape.depthwise,
    pack=lambda layer: MicroWeights(by_fours(layer), padded(layer.biases, 4)),
    scratch=scratch,
    panel=4,
)
