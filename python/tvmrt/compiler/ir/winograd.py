"""Winograd convolution 3x3: the operator, and its arithmetic in numpy.

Convolution with three weights along an axis is a product of polynomials, which is determined by its
values at enough points: ``size`` results need the values at size + 2 points, the last of them
infinity. The input's pixels and the weights are evaluated at the points, both are multiplied
pointwise, and the results are interpolated from these values. In two dimensions this is done for
rows, then for columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import sqrt

import numpy as np

from .contract import Contract, holds, let
from .op import Op, register
from .sizes.assumptions import is_at_least
from .traits import Trait

TAPS = 3
_CHUNK = 1 << 18  # weights that are transformed at a time, to limit float64 memory
# Roots of 1/2 and 2 are more accurate than 1 and 2: the terms of sums differ less in magnitude.
_POINTS = {
    2: (0.0, 1.0, -1.0),
    4: (0.0, sqrt(0.5), -sqrt(0.5), sqrt(2.0), -sqrt(2.0)),
}
TILE_SIZES = tuple(_POINTS)  # output extents of a Winograd tile


@dataclass(frozen=True)
class WinogradConversion:
    """Report on a convolution that would be faster by Winograd.

    ``name``: Name of the node. ``size``: Winograd tile size: 2, 4, or 1 if the error was too large.
    ``gain``: Estimated speed-up. ``error``: RMS of the difference for standard normal inputs,
    relative to the RMS of the results.
    """

    name: str
    size: int
    gain: float
    error: float


@cache
def transform_matrices(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return float64 transforms of the input [n, n], of the weights [n, 3], and of the results
    [size, n] for n = size + 2."""
    points = np.array(_POINTS[size])
    n = size + TAPS - 1
    own = [np.prod([p - q for q in points if q != p]) for p in points]
    inputs = np.zeros((n, n))
    for i in range(n - 1):
        inputs[i, : n - 1] = np.poly(np.delete(points, i))[::-1]
    inputs[-1] = np.poly(points)[::-1]
    weights = np.array([[p**k / d for k in range(TAPS)] for p, d in zip(points, own)] + [[0, 0, 1]])
    results = np.array([[*(p**i for p in points), float(i == size - 1)] for i in range(size)])
    return inputs, weights, results


def transformed_weights(w: np.ndarray, size: int) -> np.ndarray:
    """Transform weights [OC, IC, 3, 3] to [elements, OC, IC] in float32, rounded once."""
    g = transform_matrices(size)[1]
    rounded = np.empty((len(g) ** 2, *w.shape[:2]), np.float32)
    some = max(1, _CHUNK // w[:1].size)
    for begin in range(0, len(w), some):
        part = w[begin : begin + some].astype(np.float64)
        wide = np.einsum("pi,ocij,qj->pqoc", g, part, g, optimize=True)
        rounded[:, begin : begin + some] = wide.reshape(-1, *part.shape[:2])
    return rounded


def winograd_tiles(x: np.ndarray, w: np.ndarray, size: int) -> np.ndarray:
    """Return [tiles, OC, size, size] for input tiles [tiles, IC, size + 2, size + 2].

    Computed in float32 like the kernel, except for the order of sums.
    """
    inputs, _, results = (each.astype(np.float32) for each in transform_matrices(size))
    values = np.einsum("pi,scij,qj->pqsc", inputs, x.astype(np.float32), inputs, optimize=True)
    values = values.reshape(-1, *values.shape[2:])
    sums = np.matmul(values, transformed_weights(w, size).transpose(0, 2, 1))
    n = size + TAPS - 1
    sums = sums.reshape(n, n, *sums.shape[1:])
    return np.einsum("ip,pqso,jq->soij", results, sums, results, optimize=True)


@register("conv_winograd")
class ConvWinograd(Op):
    """Convolution ``conv`` with 3x3 windows and stride 1 by Winograd tiles of ``size`` x ``size``.

    The compiler creates it from ``conv``; devices never see it.
    """

    variant_of = "conv"
    traits = frozenset({Trait.CHANNELS_INNERMOST})
    channel_axis = 1

    contract = Contract(
        "x: float32[N C H W], w: constant float32[OC C 3 3], bias?: constant float32[OC] -> "
        "y: float32[N OC *Y]",
        f"size: int {min(TILE_SIZES)}..{max(TILE_SIZES)}, "
        "pads_before: ints[2] 0.., pads_after: ints[2] 0..",
        rules=[
            holds(
                f"squares have {' or '.join(map(str, TILE_SIZES))} results an axis",
                lambda size: size in TILE_SIZES,
            ),
            let(
                "*Y",
                "extent + pads_before + pads_after - 2",
                lambda H, W, pads_before, pads_after: [
                    extent + before + after - 2
                    for extent, before, after in zip((H, W), pads_before, pads_after)
                ],
            ),
            holds(
                "the window fits into x with its padding",
                lambda Y: all(is_at_least(n, 1) for n in Y),
            ),
        ],
        example={
            "C": 4,
            "OC": 6,
            "H": 9,
            "W": 7,
            "size": 4,
            "pads_before": (1, 1),
            "pads_after": (1, 1),
        },
    )
