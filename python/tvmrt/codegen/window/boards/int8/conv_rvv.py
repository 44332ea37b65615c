"""Dense layers by RISC-V's vectors of output channels."""

from __future__ import annotations

import numpy as np

from ..kernel import MicroKernel, MicroWeights
from ..layer_i8 import MicroLayer, shifts, window_kind, windows_of

UNIT = 8


def pack(layer: MicroLayer) -> MicroWeights:
    """Weights as int8 [element][channel], see ``board/conv_rvv_i8.h``."""
    full, shift = layer.windows(UNIT)
    weights = full[: len(shift)].T.astype(np.int8)
    folded = layer.folded(4, layer.to_int8)
    return MicroWeights(np.ascontiguousarray(weights).reshape(-1), folded, shifts(shift))


KERNEL = MicroKernel(
    header="board/conv_rvv_i8.h",
    tile="tvmrt_micro_conv_i8_run",
    more=lambda layer: ("0", window_kind(layer.shape)),
    cost=0.13,
    supports=lambda layer: not layer.shape.depthwise,
    pack=pack,
    scratch=lambda layer: windows_of(layer, UNIT, 1),
    needs=frozenset({"rvv"}),
)
