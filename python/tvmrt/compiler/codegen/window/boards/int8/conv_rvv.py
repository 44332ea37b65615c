"""Dense layers with RISC-V vectors of output channels."""

from __future__ import annotations

import numpy as np

from ..kernel import MicroWeights
from ..layer_i8 import MicroLayerI8, dense_kernel, padded_shifts

UNIT = 8


def pack(layer: MicroLayerI8) -> MicroWeights:
    """Pack weights as int8 [element][channel], see ``board/conv_i8_rvv.h``."""
    full, shift = layer.shifted_weights(UNIT)
    weights = full[: len(shift)].T.astype(np.int8)
    folded_bias = layer.folded_bias(4, layer.int8_offset)
    return MicroWeights(
        np.ascontiguousarray(weights).reshape(-1), folded_bias, padded_shifts(shift)
    )


KERNEL = dense_kernel("conv_i8_rvv", 0.13, pack, (UNIT, 1), "rvv")
