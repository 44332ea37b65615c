"""Dense float layers, windows of four pixels at a time."""

from __future__ import annotations

from tvmrt.compiler.ir.sizes import upper_bound

from ..kernel import MicroKernel, MicroWeights, pad_to_multiple
from ..layer_f32 import MicroLayerF32, pack_blocks_of_4
from ..shape import Im2colBuffer

STACK_WINDOWS = 128  # bytes, TVMRT_MICRO_F32_STACK_WINDOWS
PIXELS = 4  # TVMRT_MICRO_F32_PIXELS


def scratch(layer: MicroLayerF32) -> Im2colBuffer:
    """Return scratch for windows of four pixels or one, or none if they are read in place."""
    shape = layer.shape
    few = upper_bound(shape.pixels) < PIXELS
    if few and shape.pointwise and not layer.may_overwrite_input:
        return Im2colBuffer(shape.elements, 0)
    windows = (1 if few else PIXELS) * shape.elements * 4
    return Im2colBuffer(shape.elements, windows if windows > STACK_WINDOWS else 0)


KERNEL = MicroKernel(
    header="board/conv_f32.h",
    name="tvmrt_micro_conv_f32",
    cost=1.4,
    supports=lambda layer: not layer.shape.depthwise,
    pack=lambda layer: MicroWeights(pack_blocks_of_4(layer), pad_to_multiple(layer.biases, 4)),
    scratch=scratch,
    panel=4,
)
