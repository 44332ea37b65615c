"""Dense layers by Helium, 16 products of bytes at a time."""

from ..kernel import MicroWeights
from ..layer_i8 import MicroLayer, dense, pack_windows

UNIT = 16


def pack(layer: MicroLayer) -> MicroWeights:
    """Helium multiplies int8 by int8: what is uint8 is moved by 128 when it is copied."""
    return pack_windows(layer, UNIT, UNIT, layer.to_int8, block=4)


KERNEL = dense("conv_mve_i8", 0.19, pack, (UNIT, 1), "mve", lone=False)
