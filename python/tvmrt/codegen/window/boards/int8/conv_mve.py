"""Dense layers by Helium, 16 products of bytes at a time."""

from ..kernel import MicroKernel, MicroWeights
from ..layer_i8 import MicroLayer, pack_windows, window_kind, windows_of

UNIT = 16


def pack(layer: MicroLayer) -> MicroWeights:
    """Helium multiplies int8 by int8: what is uint8 is moved by 128 when it is copied."""
    return pack_windows(layer, UNIT, UNIT, layer.to_int8, block=4)


KERNEL = MicroKernel(
    header="board/conv_mve_i8.h",
    tile="tvmrt_micro_conv_i8_run",
    more=lambda layer: ("0", window_kind(layer.shape, lone=False)),
    cost=0.19,
    supports=lambda layer: not layer.shape.depthwise,
    pack=pack,
    scratch=lambda layer: windows_of(layer, UNIT, 1),
    needs=frozenset({"mve"}),
)
