"""Dense layers for processors that only multiply words, two pixels packed per register."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir.rounding import round_up

from ..kernel import MicroWeights, pad_to_multiple
from ..layer_i8 import MicroLayerI8, dense_kernel, padded_shifts

UNIT, QUAD = 8, 4
ELEMENTS_PER_FLAG_WORD = 128  # elements with one word of flags, TVMRT_MICRO_FLAG_SPAN
# range of a block's sum in 16 bits
MIN_SUM, MAX_SUM = -0x7FFF, 0x8000


def pack(layer: MicroLayerI8) -> MicroWeights:
    """Pack flags and weights of quads of channels, see ``board/conv_i8_2px_rv32.h``."""
    windows, shift = layer.shifted_weights(UNIT)
    full = pad_to_multiple(windows, QUAD)
    quads = full.reshape(-1, QUAD, full.shape[1]).transpose(0, 2, 1)
    parts = []
    for quad in quads:
        for at in range(0, len(quad), ELEMENTS_PER_FLAG_WORD):
            some = quad[at : at + ELEMENTS_PER_FLAG_WORD]
            parts += [overflow_flags(some).view(np.int8), some.astype(np.int8).reshape(-1)]
    folded_bias = layer.folded_bias(QUAD, layer.int8_offset)
    return MicroWeights(np.concatenate(parts), folded_bias, padded_shifts(shift, QUAD))


def overflow_flags(weights: np.ndarray) -> np.ndarray:
    """Return the word of flags for weights [element, channel]: a bit per block of four elements,
    the first block in the highest bit. It is set if the block's sum may exceed 16 bits."""
    blocks = weights.reshape(-1, 4, weights.shape[1])
    ends = np.stack([blocks * -128, blocks * 127])
    high, low = ends.max(axis=0).sum(axis=1), ends.min(axis=0).sum(axis=1)
    cut = ((high > MAX_SUM) | (low < MIN_SUM)).any(axis=1)
    bits = np.zeros(round_up(len(cut), 32), np.uint8)
    bits[: len(cut)] = cut
    return np.packbits(bits).view(">u4").astype("<u4")


KERNEL = dense_kernel("conv_i8_2px_rv32", 2.2, pack, (UNIT, 2), "rv32")
