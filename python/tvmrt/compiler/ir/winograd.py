"""3x3 convolutions by fewer multiplications: the operator, and its arithmetic in numpy.

A convolution of three weights along an axis is a product of polynomials, which is known by its
values at enough points: ``size`` results want the values at size + 2 points, the last of which is
infinity. So the input's pixels are evaluated at the points, the weights, too; both are multiplied
point by point, and the results are what has these values. In two dimensions rows are evaluated,
then columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import sqrt

import numpy as np

from .assumptions import is_at_least
from .contract import Contract, holds, let
from .op import Op, register

SIZES = (2, 4)
TAPS = 3
_CHUNK = 1 << 18  # weights that are transformed at a time, for what they take in float64
# Roots of 1/2 and 2 lose less than 1 and 2: the powers that sums are made of differ less.
_POINTS = {
    2: (0.0, 1.0, -1.0),
    4: (0.0, sqrt(0.5), -sqrt(0.5), sqrt(2.0), -sqrt(2.0)),
}


@dataclass(frozen=True)
class WinogradRow:
    """What is told of a convolution that would be faster by squares.

    Parameters
    ----------
    name
        The network's node.
    size
        Results of a square along an axis: 2, 4, or 1 where it is computed directly still, since its
        error would have been too large.
    gain
        How many times as fast it should be.
    error
        The root of the mean square of the difference on normal numbers, in parts of that of the
        results.
    """

    name: str
    size: int
    gain: float
    error: float


@cache
def matrices(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(of the input [n, n], of the weights [n, 3], of the results [size, n]) for n = size + 2, in
    float64."""
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
    """[OC, IC, 3, 3] to [positions, OC, IC] in float32, rounded once."""
    g = matrices(size)[1]
    rounded = np.empty((len(g) ** 2, *w.shape[:2]), np.float32)
    some = max(1, _CHUNK // w[:1].size)
    for begin in range(0, len(w), some):
        part = w[begin : begin + some].astype(np.float64)
        wide = np.einsum("pi,ocij,qj->pqoc", g, part, g, optimize=True)
        rounded[:, begin : begin + some] = wide.reshape(-1, *part.shape[:2])
    return rounded


def squares_of(x: np.ndarray, w: np.ndarray, size: int) -> np.ndarray:
    """The results [squares, OC, size, size] of squares of input [squares, IC, size + 2, size + 2].

    In float32 as the kernel computes them, but for the order of sums.
    """
    inputs, _, results = (each.astype(np.float32) for each in matrices(size))
    values = np.einsum("pi,scij,qj->pqsc", inputs, x.astype(np.float32), inputs, optimize=True)
    values = values.reshape(-1, *values.shape[2:])
    sums = np.matmul(values, transformed_weights(w, size).transpose(0, 2, 1))
    n = size + TAPS - 1
    sums = sums.reshape(n, n, *sums.shape[1:])
    return np.einsum("ip,pqso,jq->soij", results, sums, results, optimize=True)


@register("conv_winograd")
class ConvWinograd(Op):
    """``conv`` by windows of 3x3 with stride 1, computed in squares of ``size`` x ``size`` results.

    The compiler makes it of ``conv``; devices never meet it.
    """

    contract = Contract(
        "x: float32[N C H W], w: constant float32[OC C 3 3], bias?: constant float32[OC] -> "
        "y: float32[N OC *Y]",
        "size: int 2..4, pads_before: ints[2] 0.., pads_after: ints[2] 0..",
        rules=[
            holds("squares have 2 or 4 results an axis", lambda size: size in SIZES),
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
