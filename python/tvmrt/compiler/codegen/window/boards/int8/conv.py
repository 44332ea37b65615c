"""Dense layers with pairs of 16-bit integers: two at a time with DSP instructions, else one."""

from ..layer_i8 import dense_kernel, pack_windows

UNIT, QUAD = 8, 4

KERNEL = dense_kernel(
    "conv_i8_2x2_dsp",
    cost=0.97,
    pack=lambda layer: pack_windows(layer, UNIT, QUAD),
    layout=(UNIT, 2),
    tile="TVMRT_MICRO_1CH",
)
