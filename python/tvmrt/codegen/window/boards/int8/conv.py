"""Dense layers by pairs of 16-bit numbers: two at a time by DSP instructions, else one by one."""

from ..kernel import MicroKernel
from ..layer_i8 import pack_windows, windows_of

UNIT, QUAD = 8, 4

KERNEL = MicroKernel(
    header="board/conv_i8.h",
    tile="tvmrt_micro_conv_i8_run",
    pointwise="tvmrt_micro_pointwise_i8_run",
    pixel="tvmrt_micro_pixel_i8_run",
    cost=0.97,
    supports=lambda layer: not layer.shape.depthwise,
    pack=lambda layer: pack_windows(layer, UNIT, QUAD),
    scratch=lambda layer: windows_of(layer, UNIT, 2),
)
