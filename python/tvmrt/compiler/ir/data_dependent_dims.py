"""Data-dependent dimensions, the operators that compute them, and operators for operands that are
known only at run time: extents as elements, indices along axes, and integers that are compared with
the values for which the network was compiled."""

from __future__ import annotations

from math import prod

import numpy as np

from .contract import Contract, holds, let
from .op import Kernel, Op, register


@register("count")
class DataDependentDim(Op):
    """Value x of the data-dependent dimension with unique name ``extent``, see ``Symbol.source``. A
    run fails unless x is from ``low`` to ``high``. ``what`` describes it in errors."""

    contract = Contract(
        "x: int64[] -> y: int32[]",
        "extent: text, what: text, low: int 0.., high: int 0..",
        example={"extent": "n", "what": "the count", "low": 0, "high": 4},
    )
    kernel = Kernel("op/nonzero.h", "tvmrt_count", "*x low high !{what} y")


@register("count_nonzero")
class CountNonzero(Op):
    """Return the number of elements that are not 0."""

    contract = Contract("x: number|bool[*S] -> y: int64[]")
    kernel = Kernel("op/nonzero.h", "tvmrt_count_nonzero_{x}", "*y= x x.size")

    def evaluate(self, arrays, attrs):
        return [np.count_nonzero(arrays[0])]


@register("nonzero")
class Nonzero(Op):
    """Return the indices of the ``count`` nonzero elements, a row per axis, in row-major order."""

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
class Select(Op):
    """Select one of two tensors of the result's shape: the first if the condition is true."""

    contract = Contract(
        "condition: bool[], a: E=any[*A], b: E[*B] -> y: E[*shape]",
        "shape: ints 0..",
        example={"A": (2,), "B": (2,), "shape": (2,)},
    )


@register("unique")
class Unique(Op):
    """Distinct slices of x along ``axis``: first index of each, index into them for each slice,
    number of occurrences of each, and their number. Later elements have no meaning.

    ``sorted``: in ascending order, otherwise in order of first occurrence.
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
        slices = np.moveaxis(x, axis, 0).reshape(x.shape[axis], x.size // max(x.shape[axis], 1))
        # numpy.unique orders NaN in float16 slices differently from float32 slices
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
    """Distinct slices of x along ``axis``, as ``unique`` finds them, but slices with NaN in the
    same elements are equal."""

    equal_nan = True


@register("non_max_suppression")
class NonMaxSuppression(Op):
    """Select the best boxes that do not overlap a better one of their class by more than
    ``overlap``: rows of image, class and box, and the number of rows. Later rows have no meaning.

    ``rows``: maximum number of rows. ``most``: maximum per class. ``score``: scores must be above
    it. ``centred``: boxes are given as centre, width and height instead of two corners.
    """

    contract = Contract(
        "boxes: float32[B N 4], scores: float32[B C N], most: int64[], overlap: float32[], "
        "score: float32[] -> selected: int64[rows 3], kept: int64[]",
        "rows: int 0.., centred: bool",
        example={"rows": 4, "B": 1, "C": 1, "N": 4},
    )


@register("iota")
class Iota(Op):
    """Return ``count`` integers: start, start + step, ..."""

    contract = Contract(
        "-> y: int64[count]",
        "count: int 0.., start: int, step: int",
        example={"count": 3, "start": 2, "step": -1},
    )


@register("extents")
class Extents(Op):
    """Return a tensor of extents. ``values``: integers and extents in row-major order."""

    contract = Contract(
        "-> y: int64[*shape]",
        "values: ints, shape: ints 0..",
        rules=[
            holds(
                "shape has as many elements as values",
                lambda values, shape: prod(shape) == len(values),
            )
        ],
        example={"values": (2, 3), "shape": (2,)},
    )


@register("take_at")
class TakeAt(Op):
    """Select elements by indices for each axis of x; index -1 gives ``value``, if that is present.

    An index outside its axis stops the run with an error.
    """

    contract = Contract(
        "x: E=any[*S], value?: E[], places+: int64[_] -> y: E[*Y]",
        rules=[
            holds("there are places for each axis of x", lambda S, places: len(S) == len(places)),
            let("*Y", "how many places each axis has", lambda places: [p.size for p in places]),
        ],
    )

    def evaluate(self, arrays, attrs):
        x, value, *places = arrays
        least = 0 if value is None else -1
        if any(((p < least) | (p >= n)).any() for p, n in zip(places, x.shape)):
            return None
        if 0 in x.shape:
            return [np.full([p.size for p in places], 0 if value is None else value, x.dtype)]
        selected = x[np.ix_(*places)]
        outside = np.zeros(selected.shape, bool)
        for grid in np.meshgrid(*(p < 0 for p in places), indexing="ij"):
            outside |= grid
        return [np.where(outside, x.dtype.type(0) if value is None else value, selected)]


SIZES_AT_WHICH = "sizes at which "  # ``require`` with this text checks the sizes of the inputs


@register("require")
class Require(Op):
    """Stop the run with an error unless ``found`` is ``expected``.

    The error shows the run-time operand ``given``, and ``text``: what the network was compiled
    for; the error is a SizeConditionError if that starts with ``SIZES_AT_WHICH``, else a
    ValueError. ``where`` is the operand's name. The node is never removed, although its result is
    unused.
    """

    has_side_effects = True
    contract = Contract(
        "found: int64[*], given: int64[*] -> y: bool[]",
        "expected: ints, where: text, text: text",
        rules=[
            holds(
                "expected has as many elements as found",
                lambda found, expected: prod(found.shape) == len(expected),
            )
        ],
        example={"expected": (2,), "found": (1,)},
    )
