"""Dense layers with Helium, 16 int8 multiply-adds at a time."""

from ..kernel import MicroWeights
from ..layer_i8 import MicroLayer, dense, pack_windows

UNIT = 16


def pack(layer: MicroLayer) -> MicroWeights:
    """Pack for int8 by int8 products: uint8 activations are shifted by 128 when copied."""
    return pack_windows(layer, UNIT, UNIT, layer.to_int8, block=4)


KERNEL = dense("conv_i8_mve", 0.19, pack, (UNIT, 1), "mve", lone=False)
