"""Dense layers by pairs of 16-bit numbers: two at a time by DSP instructions, else one by one."""

from ..kernel import MicroKernel
from ..layer_i8 import pack_windows, window_kind, windows_of

UNIT, QUAD = 8, 4

KERNEL = MicroKernel(
    header="board/conv_i8.h",
    tile="tvmrt_micro_conv_i8_run",
    more=lambda layer: ("TVMRT_MICRO_APART", window_kind(layer.shape)),
    cost=0.97,
    supports=lambda layer: not layer.shape.depthwise,
    pack=lambda layer: pack_windows(layer, UNIT, QUAD),
    scratch=lambda layer: windows_of(layer, UNIT, 2),
)
