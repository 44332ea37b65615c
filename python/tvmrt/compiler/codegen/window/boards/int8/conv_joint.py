"""Dense layers with DSP instructions, the weights of two channels packed in 16 bits."""

from __future__ import annotations

import numpy as np

from ...packing_i8 import wrap_int32
from ..kernel import MicroWeights
from ..layer_i8 import QUAD_ORDER, MicroLayer, dense, shifts
from . import conv

MOST_UPPER = 1 << 23  # of the sums of a pair's second channel, board/conv_i8_2ch_dsp.h


def supports(layer: MicroLayer) -> bool:
    """Return whether pairs of channels fit into 16 bits for any input."""
    full, _ = layer.windows(conv.UNIT)
    joint, upper = full[::2] + 256 * full[1::2], full[1::2]
    least, most = (-128, 127) if layer.layer.x_signed else (0, 255)
    bias = layer.folded(2)[1::2].astype(np.int64)
    high = np.where(upper > 0, upper * most, upper * least).sum(axis=1) + np.maximum(bias, 0)
    low = np.where(upper > 0, upper * least, upper * most).sum(axis=1) + np.minimum(bias, 0)
    whole_sums = high.max() < MOST_UPPER and low.min() >= -MOST_UPPER
    return bool(whole_sums and joint.min() >= -(1 << 15) and joint.max() < 1 << 15)


def pack(layer: MicroLayer) -> MicroWeights:
    """Pack biases and weights of each pair of channels as int16, see ``board/conv_i8_2ch_dsp.h``."""
    full, shift = layer.windows(conv.UNIT)
    joint = (full[::2] + 256 * full[1::2]).astype(np.int16)
    quads = joint.reshape(len(joint), -1, 4)[:, :, QUAD_ORDER].reshape(len(joint), -1)
    pairs = layer.folded(2).reshape(-1, 2).astype(np.int64)
    pairs[:, 1] = pairs[:, 0] + 256 * pairs[:, 1]
    biases = wrap_int32(pairs).astype("<i4").view("<i2")
    weights = np.concatenate([biases.astype(np.int16), quads], axis=1).reshape(-1)
    return MicroWeights(weights, None, shifts(shift))


KERNEL = dense(
    "conv_i8_2x2_dsp", 0.76, pack, (conv.UNIT, 2), "dsp", tile="TVMRT_MICRO_2CH", supports=supports
)
