"""Sizes that the run itself finds, and the operators that find them."""

from __future__ import annotations

import numpy as np

from .contract import Contract, let
from .op import Op, register


@register("count")
class Count(Op):
    """x as an extent that others have, see ``Symbol.source``: from ``low`` to ``high``, else the
    run ends with an error. ``extent`` is its name, which no other has; ``what`` is for people."""

    contract = Contract(
        "x: int64[] -> y: int32[]",
        "extent: text, what: text, low: int 0.., high: int 0..",
        example={"extent": "n", "what": "the count", "low": 0, "high": 4},
    )


@register("count_nonzero")
class CountNonzero(Op):
    """How many elements are not 0."""

    contract = Contract("x: number|bool[*S] -> y: int64[]")

    def evaluate(self, arrays, attrs):
        return [np.count_nonzero(arrays[0])]


@register("nonzero")
class Nonzero(Op):
    """The indices of the ``count`` elements that are not 0, a row an axis, in row-major order."""

    contract = Contract(
        "x: number|bool[*S{1..}] -> y: int64[R count]",
        "count: int 0..",
        rules=[let("R", "the number of axes", lambda x: x.rank)],
        example={"count": 0},
    )

    def evaluate(self, arrays, attrs):
        places = np.stack(np.nonzero(arrays[0]))
        return [places] if places.shape[1] == attrs["count"] else None


@register("choice")
class Choice(Op):
    """One of two tensors, whose shape is the result's: the first where the condition is true."""

    contract = Contract(
        "condition: bool[], a: E=any[*A], b: E[*B] -> y: E[*shape]",
        "shape: ints 0..",
        example={"A": (2,), "B": (2,), "shape": (2,)},
    )


@register("unique")
class Unique(Op):
    """The different slices of x along ``axis``: where each is first, which of them each slice is,
    how often each is there, and how many they are. What lies behind so many is of no meaning.

    ``sorted``: in ascending order, else as they come.
    """

    contract = Contract(
        "x: number|bool[*S{1..}] -> first: int64[N], inverse: int64[N], counts: int64[N], "
        "kept: int64[]",
        "axis: axis of x, sorted: bool",
        rules=[let("N", "the extent of axis", lambda S, axis: S[axis])],
    )
    equal_nan = False

    def evaluate(self, arrays, attrs):
        x, axis = arrays[0], attrs["axis"]
        slices = np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)
        # numpy.unique orders slices of float16 with NaN in another way than those of float32
        order = np.lexsort(slices.T[::-1]) if slices.size else np.arange(len(slices))
        before, after = slices[order[:-1]], slices[order[1:]]
        equal = before == after
        if self.equal_nan and x.dtype.kind == "f":
            equal |= np.isnan(before) & np.isnan(after)
        starts = np.append(True, ~equal.all(1))[: len(order)]
        first, inverse = order[starts], np.empty_like(order)
        inverse[order] = np.cumsum(starts) - 1
        if not attrs["sorted"]:
            moved = np.argsort(first)
            first, inverse = first[moved], np.argsort(moved)[inverse]
        counts = np.bincount(inverse, minlength=len(order))
        return [np.resize(first, len(order)), inverse, counts, np.array(len(first))]


@register("unique_equal_nan")
class UniqueEqualNan(Unique):
    """The different slices of x along ``axis`` as ``unique`` finds them, but slices with NaN in the
    same places are equal."""

    equal_nan = True


@register("non_max_suppression")
class NonMaxSuppression(Op):
    """Rows of image, class and box, of the best boxes that overlap no better one of their class by
    more than ``overlap``, and how many rows there are. What lies behind them is of no meaning.

    ``rows``: the most that there may be. At most ``most`` of a class, all of a score above
    ``score``. ``centred``: boxes are centre, width and height in place of two corners.
    """

    contract = Contract(
        "boxes: float32[B N 4], scores: float32[B C N], most: int64[], overlap: float32[], "
        "score: float32[] -> selected: int64[rows 3], kept: int64[]",
        "rows: int 0.., centred: bool",
        example={"rows": 4, "B": 1, "C": 1, "N": 4},
    )
