"""Resampling along axes by constant tables of indices and weights."""

from __future__ import annotations

import numpy as np

from .contract import Contract, holds, let
from .indexing import between, replace_extents
from .op import Op, register
from .traits import Trait


@register("pick")
class Pick(Op):
    """Select elements along each axis of ``axes`` by constant indices.

    Resize with nearest-neighbour interpolation, for any element type.
    """

    traits = frozenset({Trait.MOVES_ELEMENTS, Trait.ANY_LAYOUT})

    contract = Contract(
        "x: E=any[*S], places+: constant int32[_] -> y: E[*Y]",
        "axes: axes of x",
        rules=[
            holds(
                "there are places for each of axes", lambda places, axes: len(places) == len(axes)
            ),
            holds(
                "places lie inside their axes of x",
                lambda x, axes, places_data: all(
                    between(p, 0, x.shape[a]) for a, p in zip(axes, places_data)
                ),
            ),
            let(
                "*Y",
                "S, along axes the number of places",
                lambda S, axes, places: replace_extents(S, axes, [p.size for p in places]),
            ),
        ],
        example={"axes": (0, 1)},
    )

    def evaluate(self, arrays, attrs):
        x = arrays[0]
        for axis, places in zip(attrs["axes"], arrays[1:]):
            x = np.take(x, places, axis)
        return [x]


@register("resample")
class Resample(Op):
    """Weighted sums of the elements with indices ``places`` along ``axis``."""

    traits = frozenset({Trait.ANY_LAYOUT})

    contract = Contract(
        "x: E=float[*S], places: constant int32[P TAPS], weights: constant E[P TAPS] -> y: E[*Y]",
        "axis: axis of x",
        rules=[
            holds(
                "places lie inside axis of x",
                lambda x, axis, places_data: between(places_data, 0, x.shape[axis]),
            ),
            let("*Y", "S with P along axis", lambda S, axis, P: replace_extents(S, [axis], [P])),
        ],
    )

    def evaluate(self, arrays, attrs):
        x, places, weights = arrays
        axis = attrs["axis"]
        samples = np.take(x, places, axis).astype(np.float64)
        shape = [1] * samples.ndim
        shape[axis : axis + 2] = weights.shape
        return [(samples * weights.reshape(shape)).sum(axis + 1).astype(x.dtype)]
