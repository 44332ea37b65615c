"""Dense layers for processors that only multiply words, two pixels packed per register."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir.rounding import round_up

from ..kernel import MicroWeights, padded
from ..layer_i8 import MicroLayer, dense, shifts

UNIT, QUAD = 8, 4
FLAGGED = 128  # elements with one word of flags, TVMRT_MICRO_FLAG_SPAN
# range of a block's sum in 16 bits
LEAST, MOST = -0x7FFF, 0x8000


def pack(layer: MicroLayer) -> MicroWeights:
    """Pack flags and weights of quads of channels, see ``board/conv_i8_2px_rv32.h``."""
    windows, shift = layer.windows(UNIT)
    full = padded(windows, QUAD)
    quads = full.reshape(-1, QUAD, full.shape[1]).transpose(0, 2, 1)
    parts = []
    for quad in quads:
        for at in range(0, len(quad), FLAGGED):
            some = quad[at : at + FLAGGED]
            parts += [flags(some).view(np.int8), some.astype(np.int8).reshape(-1)]
    folded = layer.folded(QUAD, layer.to_int8)
    return MicroWeights(np.concatenate(parts), folded, shifts(shift, QUAD))


def flags(weights: np.ndarray) -> np.ndarray:
    """Return the word of flags for weights [element, channel]: a bit per block of four elements,
    the first block in the highest bit. It is set if the block's sum may exceed 16 bits."""
    blocks = weights.reshape(-1, 4, weights.shape[1])
    ends = np.stack([blocks * -128, blocks * 127])
    high, low = ends.max(axis=0).sum(axis=1), ends.min(axis=0).sum(axis=1)
    cut = ((high > MOST) | (low < LEAST)).any(axis=1)
    bits = np.zeros(round_up(len(cut), 32), np.uint8)
    bits[: len(cut)] = cut
    return np.packbits(bits).view(">u4").astype("<u4")


KERNEL = dense("conv_i8_2px_rv32", 2.2, pack, (UNIT, 2), "rv32")
