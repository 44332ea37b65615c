"""Definitions of the operators in numpy, channels last, in float64."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np


def out_size(size: int, kernel: int, stride: int, dilation: int, pads: tuple[int, int]) -> int:
    return (size + sum(pads) - (kernel - 1) * dilation - 1) // stride + 1


def taps(
    x: np.ndarray,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    pads: Sequence[tuple[int, int]],
    fill: float = 0.0,
) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """For each position in the window: the input that it meets under every output pixel.

    `x` is [batch][d][h][w][channels]; what is yielded is [batch][out d][out h][out w][channels].
    """
    padded = np.pad(x, [(0, 0), *pads, (0, 0)], constant_values=fill)
    out = [out_size(x.shape[1 + i], kernel[i], stride[i], dilation[i], pads[i]) for i in range(3)]
    for tap in product(*(range(k) for k in kernel)):
        window = tuple(
            slice(
                tap[i] * dilation[i], tap[i] * dilation[i] + (out[i] - 1) * stride[i] + 1, stride[i]
            )
            for i in range(3)
        )
        yield tap, padded[(slice(None), *window)]


def conv(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray,
    stride: Sequence[int],
    dilation: Sequence[int],
    pads: Sequence[tuple[int, int]],
    groups: int = 1,
) -> np.ndarray:
    """Convolution of [batch][d][h][w][ic] with [oc][ic / groups][kd][kh][kw]."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    per_in, per_out = x.shape[-1] // groups, w.shape[0] // groups
    y = 0.0
    for (d, h, v), window in taps(x, w.shape[2:], stride, dilation, pads):
        parts = [
            window[..., g * per_in : (g + 1) * per_in]
            @ w[g * per_out : (g + 1) * per_out, :, d, h, v].T
            for g in range(groups)
        ]
        y = y + np.concatenate(parts, axis=-1)
    return y + bias.astype(np.float64)


def tolerance(k: int) -> dict[str, float]:
    """Bounds for a float32 sum of `k` products of values around 1, in any order."""
    return {"rtol": 1e-5, "atol": 2e-6 * max(1.0, k**0.5)}
