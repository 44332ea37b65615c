"""Dense layers with DSP instructions, the weights of two channels packed in 16 bits."""

from __future__ import annotations

import numpy as np

from ...layer_i8 import wrap_int32
from ..kernel import MicroWeights
from ..layer_i8 import QUAD_ORDER, MicroLayerI8, dense_kernel, padded_shifts
from . import conv

MAX_UPPER_SUM = 1 << 23  # of the sums of a pair's second channel, board/conv_i8_2ch_dsp.h


def supports(layer: MicroLayerI8) -> bool:
    """Return whether pairs of channels fit into 16 bits for any input."""
    full, _ = layer.shifted_weights(conv.UNIT)
    packed_pairs, upper = full[::2] + 256 * full[1::2], full[1::2]
    least, most = (-128, 127) if layer.layer.x_signed else (0, 255)
    bias = layer.folded_bias(2)[1::2].astype(np.int64)
    high = np.where(upper > 0, upper * most, upper * least).sum(axis=1) + np.maximum(bias, 0)
    low = np.where(upper > 0, upper * least, upper * most).sum(axis=1) + np.minimum(bias, 0)
    whole_sums = high.max() < MAX_UPPER_SUM and low.min() >= -MAX_UPPER_SUM
    return bool(whole_sums and packed_pairs.min() >= -(1 << 15) and packed_pairs.max() < 1 << 15)


def pack(layer: MicroLayerI8) -> MicroWeights:
    """Pack biases and weights of each pair of channels as int16, see
    ``board/conv_i8_2ch_dsp.h``."""
    full, shift = layer.shifted_weights(conv.UNIT)
    packed_pairs = (full[::2] + 256 * full[1::2]).astype(np.int16)
    quads = packed_pairs.reshape(len(packed_pairs), -1, 4)[:, :, QUAD_ORDER].reshape(
        len(packed_pairs), -1
    )
    pairs = layer.folded_bias(2).reshape(-1, 2).astype(np.int64)
    pairs[:, 1] = pairs[:, 0] + 256 * pairs[:, 1]
    biases = wrap_int32(pairs).astype("<i4").view("<i2")
    weights = np.concatenate([biases.astype(np.int16), quads], axis=1).reshape(-1)
    return MicroWeights(weights, None, padded_shifts(shift))


KERNEL = dense_kernel(
    "conv_i8_2x2_dsp",
    0.72,
    pack,
    (conv.UNIT, 2, 3),
    "dsp",
    tile="TVMRT_MICRO_2CH",
    supports=supports,
    packs_in_run=False,  # weights that do not fit the pairs are possible
)
