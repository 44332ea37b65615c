"""Dense layers with RISC-V vectors of output channels."""

from __future__ import annotations

import numpy as np

from ..kernel import MicroWeights
from ..layer_i8 import MicroLayer, dense, shifts

UNIT = 8


def pack(layer: MicroLayer) -> MicroWeights:
    """Pack weights as int8 [element][channel], see ``board/conv_i8_rvv.h``."""
    full, shift = layer.windows(UNIT)
    weights = full[: len(shift)].T.astype(np.int8)
    folded = layer.folded(4, layer.to_int8)
    return MicroWeights(np.ascontiguousarray(weights).reshape(-1), folded, shifts(shift))


KERNEL = dense("conv_i8_rvv", 0.13, pack, (UNIT, 1), "rvv")
