"""Dense layers of int16 activations with pairs of 16-bit integers."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir.rounding import round_up
from tvmrt.compiler.ir.sizes import upper_bound

from ..kernel import MicroKernel, MicroWeights, pad_to_multiple
from ..layer_i8 import QUAD_ORDER, STACK_WINDOWS, MicroLayerI8
from ..shape import Im2colBuffer
from .conv import QUAD, UNIT


def int16_kernel(
    header: str, cost: float, group: int, channels: int, features: frozenset[str] = frozenset()
) -> MicroKernel[MicroLayerI8]:
    """Return the kernel for windows in groups of ``group`` elements and blocks of ``channels``."""

    def pack(layer: MicroLayerI8) -> MicroWeights:
        """Pack weights as int8 [block of channels][group][channel of the block][element]."""
        full, _ = layer.shifted_weights(UNIT)
        full = pad_to_multiple(full.astype(np.int8), channels)
        blocks = full.reshape(-1, channels, full.shape[1] // group, group).transpose(0, 2, 1, 3)
        if group == QUAD:
            blocks = blocks[..., QUAD_ORDER]
        weights = np.ascontiguousarray(blocks).reshape(-1)
        return MicroWeights(weights, layer.folded_bias(channels))

    def scratch(layer: MicroLayerI8) -> Im2colBuffer:
        length = round_up(layer.shape.elements, UNIT)
        size = min(2, upper_bound(layer.shape.pixels)) * length * 2
        return Im2colBuffer(length, size if size > STACK_WINDOWS else 0)

    return MicroKernel(
        header=f"board/{header}.h",
        name="tvmrt_micro_conv_i16",
        cost=cost,
        supports=lambda layer: not layer.shape.depthwise,
        pack=pack,
        scratch=scratch,
        required_features=features,
        may_overwrite_input=False,
        x_bytes=(2,),
    )


KERNEL = int16_kernel("conv_i16", 0.97, QUAD, 2)
