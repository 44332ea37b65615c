"""Reference convolutions and pools in numpy: for constants, and to check operators that are
composed of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Sizes = Sequence[int]


def conv(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, attrs: Mapping[str, Any]):
    """Return [N, OC, *Y] for x [N, C, *S] and weights [OC, C / groups, *K]."""
    kernel = w.shape[2:]
    ends = [sum(row) for row in zip(attrs["pads_before"], x.shape[2:], attrs["pads_after"])]
    steps = zip(ends, kernel, attrs["strides"], attrs["dilations"])
    out = [(end - dilation * (k - 1) - 1) // stride + 1 for end, k, stride, dilation in steps]
    windows = sliding_windows(x.astype(np.float64), kernel, out, attrs, 0.0)
    parts = []
    for part, weights in zip(*(np.split(v, attrs["groups"], a) for v, a in ((windows, 1), (w, 0)))):
        inner = [1, *range(-len(kernel), 0)]
        parts.append(np.tensordot(part, weights, (inner, range(1, w.ndim))))
    y = np.moveaxis(np.concatenate(parts, -1), -1, 1)
    if bias is not None:
        y = y + bias.reshape(-1, *(1 for _ in kernel))
    return y.astype(x.dtype)


def max_pool(x: np.ndarray, attrs: Mapping[str, Any]) -> np.ndarray:
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    windows = sliding_windows(x, attrs["kernel"], attrs["out_spatial"], attrs, lowest)
    return windows.max(axis=tuple(range(-len(attrs["kernel"]), 0)))


def avg_pool(x: np.ndarray, attrs: Mapping[str, Any]) -> np.ndarray:
    sizes = attrs["kernel"], attrs["out_spatial"]
    inner = tuple(range(-len(attrs["kernel"]), 0))
    counted = np.ones((1, 1, *x.shape[2:]))
    if attrs["count_pads"]:
        pads = zip(attrs["pads_before"], attrs["pads_after"])
        counted = np.ones((1, 1, *(n + sum(pad) for n, pad in zip(x.shape[2:], pads))))
        counts = sliding_windows(counted, *sizes, {**attrs, "pads_before": [0] * len(inner)}, 0.0)
    else:
        counts = sliding_windows(counted, *sizes, attrs, 0.0)
    total = sliding_windows(x.astype(np.float64), *sizes, attrs, 0.0).sum(axis=inner)
    return (total / counts.sum(axis=inner)).astype(x.dtype)


def valid_counts(
    spatial: Sizes, kernel: Sizes, strides: Sizes, before: Sizes, out: Sizes
) -> np.ndarray:
    """Return [*out]: the number of elements of each window that are inside an image [H, W]."""
    counts = []
    for n, k, s, b, count in zip(spatial, kernel, strides, before, out):
        first = np.arange(count) * s - b
        counts.append(np.minimum(first + k, n) - np.maximum(first, 0))
    return np.outer(*counts)


def sliding_windows(
    x: np.ndarray, kernel: Sizes, out: Sizes, attrs: Mapping[str, Any], fill: float
) -> np.ndarray:
    """Return [N, C, *out, *kernel]: the elements of each window; ``fill`` is outside x."""
    rank = len(kernel)
    rows = list(zip(x.shape[2:], kernel, out, *(attrs[n] for n in _STEPS)))
    extents = [(k - 1) * dilation + 1 for _, k, _, _, dilation, _ in rows]
    pads = [
        (before, max(0, (count - 1) * stride + span - n - before))
        for (n, _, count, stride, _, before), span in zip(rows, extents)
    ]
    padded = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=fill)
    axes = tuple(range(2, 2 + rank))
    every = np.lib.stride_tricks.sliding_window_view(padded, extents, axis=axes)
    places = [slice(None, count * stride, stride) for _, _, count, stride, _, _ in rows]
    taps = [slice(None, None, dilation) for *_, dilation, _ in rows]
    return every[(slice(None), slice(None), *places, *taps)]


_STEPS = ("strides", "dilations", "pads_before")
