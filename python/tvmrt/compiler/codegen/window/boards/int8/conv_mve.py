"""Dense layers with Helium, 16 int8 multiply-adds at a time."""

from ..kernel import MicroWeights
from ..layer_i8 import MicroLayerI8, dense_kernel, pack_windows

UNIT = 16


def pack(layer: MicroLayerI8) -> MicroWeights:
    """Pack for int8 by int8 products: uint8 activations are shifted by 128 when copied."""
    return pack_windows(layer, UNIT, UNIT, layer.int8_offset, block=4)


KERNEL = dense_kernel("conv_i8_mve", 0.19, pack, (UNIT, 1), "mve", single_pixel=False)
