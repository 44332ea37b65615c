"""Keyword spotting over a dynamic number of frames, in float and in int8."""

from __future__ import annotations

import numpy as np
from dynamic_networks import FLOAT, Case, Draft

FEATURES = 10
# kernel, stride, groups or 0 for dense, channels
LAYERS = (
    ((10, 4), (2, 2), 0, 16),
    ((3, 3), (1, 1), 16, 16),
    ((1, 1), (1, 1), 0, 12),
    ((3, 3), (2, 2), 12, 12),
    ((5, 3), (2, 1), 12, 12),
)


def keyword():
    """Return a network with the probabilities of the float part and the scores of the int8 part."""
    d = Draft(11)

    def real(x: str, scale: float) -> str:
        step = d.constant(scale, np.float32)
        return d.node("DequantizeLinear", [x, step, d.constant(0, np.int8)])

    def rounded(x: str, scale: float) -> str:
        step = d.constant(scale, np.float32)
        return real(d.node("QuantizeLinear", [x, step, d.constant(0, np.int8)]), scale)

    def weights(shape: tuple[int, ...], integer: bool) -> str:
        if not integer:
            scale = 1 / np.sqrt(np.prod(shape[1:]))
            return d.constant(d.rng.normal(size=shape) * scale, np.float32)
        return real(d.constant(d.rng.integers(-100, 100, shape), np.int8), 0.008)

    def part(x: str, integer: bool) -> str:
        inner = 1
        for kernel, strides, groups, channels in LAYERS:
            shape = (channels, 1 if groups else inner, *kernel)
            pads = [(kernel[0] - 1) // 2, (kernel[1] - 1) // 2] * 2
            x = d.node("Conv", [x, weights(shape, integer)], group=groups or 1,
                       strides=list(strides), pads=pads)  # fmt: skip
            x = d.node("Relu", [x])
            x, inner = rounded(x, 0.03) if integer else x, channels
        x = d.node("Flatten", [d.node("GlobalAveragePool", [x])])
        return d.node("MatMul", [rounded(x, 0.02) if integer else x, weights((12, 8), integer)])

    chances = d.node("Softmax", [part("mfcc", False)], axis=-1)
    scores = part(rounded("mfcc", 0.02), True)
    shape = (FLOAT, [1, 1, "frames", FEATURES])
    return d.model({"mfcc": shape}, {chances: FLOAT, scores: FLOAT})


def frames(rng, sizes):
    shape = (1, 1, sizes["frames"], FEATURES)
    return {"mfcc": rng.normal(size=shape).astype(np.float32)}


KEYWORD = Case(keyword, {"frames": (9, 98)}, frames)
