"""Int8 weights in segment order, in groups of four (dot4 quads), in numpy."""

from __future__ import annotations

import numpy as np

from .geometry_i8 import LayerI8


def weights_minus_zero_point(
    layer: LayerI8, weights: np.ndarray, w_zero: np.ndarray | int
) -> np.ndarray:
    """Return w - w_zero as int64 [out_c, in_c / groups, kd, kh, kw]."""
    values = weights.reshape(layer.out_c, -1, *layer.window.kernel).astype(np.int64)
    return values - np.asarray(w_zero, np.int64).reshape(-1, 1, 1, 1, 1)


def split_into_segments(layer: LayerI8, centred: np.ndarray) -> np.ndarray:
    """Reorder weights [out_c, in_c / groups, kd, kh, kw] to [out_c, segment, byte of the run]."""
    if layer.row_pairs:
        rows, columns = layer.window.kernel[1:]
        even = np.pad(centred, ((0, 0), (0, 0), (0, 0), (0, rows % 2), (0, 0)))
        row_pairs = even.reshape(layer.out_c, layer.in_c, -1, 2, columns).transpose(0, 2, 4, 3, 1)
        return row_pairs.reshape(layer.out_c, layer.plan.segments, -1)
    last = np.transpose(centred, (0, 2, 3, 4, 1))
    return last.reshape(layer.out_c, layer.plan.segments, -1)


def split_into_quads(segments: np.ndarray, is_im2col: bool) -> np.ndarray:
    """Split runs into [out_c, quads, 4]; a partial last quad is aligned to the end of the run.

    Gathered windows (im2col) are padded to whole quads instead.
    """
    remainder = segments.shape[2] % 4
    if remainder:
        whole, last = segments[:, :, :-remainder], segments[:, :, -remainder:]
        zeros = np.zeros((*segments.shape[:2], 4 - remainder), segments.dtype)
        segments = np.concatenate(
            [whole, last, zeros] if is_im2col else [whole, zeros, last], axis=2
        )
    return segments.reshape(segments.shape[0], -1, 4)
