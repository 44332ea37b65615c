"""Dense layers of int16 activations with Helium, eight multiply-adds at a time."""

from .conv_i16 import int16_kernel

KERNEL = int16_kernel("conv_i16_mve", 0.25, 8, 4, frozenset({"mve"}))
