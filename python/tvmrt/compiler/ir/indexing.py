"""Reading and writing by computed index.

Indices are int32 or int64; negative ones count from the end. An index outside its extent stops
the run with an error: nothing outside a tensor is ever read or written.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .contract import Contract, holds, let
from .dtype import DType
from .op import Op, get_op, register
from .sizes.assumptions import are_equal
from .tensor_type import TensorType
from .traits import Trait

_REDUCTION = "reduction: none|add|mul|max|min"


def _is_defined(E: DType, reduction: str) -> bool:
    return reduction == "none" or get_op(reduction).template(E) is not None


_DEFINED = holds("the reduction is defined for the elements", _is_defined)


def _is_in_bounds(data: TensorType, indices: TensorType, axis: int) -> bool:
    return data.rank == indices.rank and all(
        i <= n for d, (i, n) in enumerate(zip(indices.shape, data.shape)) if d != axis
    )


_INSIDE = holds("indices are no longer than data but along axis", _is_in_bounds)


def between(array: np.ndarray, low: int, end: int) -> bool:
    """Return whether all elements are at least ``low`` and less than ``end``."""
    return not array.size or bool(low <= array.min() and array.max() < end)


def _element_places(indices: np.ndarray, axis: int) -> tuple[np.ndarray, ...]:
    """Return the index of each element along every axis."""
    places = [*np.indices(indices.shape)]
    places[axis] = indices
    return tuple(places)


def _written(arrays: Sequence[np.ndarray], places: tuple, reduction: str) -> list | None:
    """Return a copy of the first array with the third one written to ``places``; None for an index
    outside of the array, which is an error of the run."""
    inside = all(between(i, -n, n) for i, n in zip(places, arrays[0].shape))
    if reduction != "none" or not inside:
        return None
    result = arrays[0].copy()
    result[places] = arrays[2]
    return [result]


def replace_extents(shape: Sequence[int], axes: Sequence[int], extents: Sequence[int]) -> list[int]:
    """Return a shape with other extents along some axes."""
    result = list(shape)
    for axis, extent in zip(axes, extents):
        result[axis] = extent
    return result


@register("gather")
class Gather(Op):
    """Return slices of data along ``axis``, in the shape of the indices."""

    traits = frozenset({Trait.MOVES_ELEMENTS})

    contract = Contract(
        "data: E=any[*D], indices: index[*I] -> y: E[*Y]",
        "axis: axis of data",
        rules=[
            let(
                "*Y",
                "D with I in place of axis",
                lambda D, indices, axis: (*D[:axis], *indices.shape, *D[axis + 1 :]),
            )
        ],
    )

    def evaluate(self, arrays, attrs):
        return [np.take(arrays[0], arrays[1], attrs["axis"])]


@register("gather_elements")
class GatherElements(Op):
    """Return y[i, j, ...] = data[..., indices[i, j, ...], ...] with the index on ``axis``."""

    traits = frozenset({Trait.MOVES_ELEMENTS})

    contract = Contract(
        "data: E=any[*D], indices: index[*I] -> y: E[*I]", "axis: axis of data", rules=[_INSIDE]
    )

    def evaluate(self, arrays, attrs):
        return [arrays[0][_element_places(arrays[1], attrs["axis"])]]


@register("gather_nd")
class GatherNd(Op):
    """Return the slice of data for each tuple of K indices, which index the axes after the first
    ``batch`` axes; data and indices share these.
    """

    traits = frozenset({Trait.MOVES_ELEMENTS})

    contract = Contract(
        "data: E=any[*D], indices: index[*J K] -> y: E[*Y]",
        "batch: int 0..",
        rules=[
            holds(
                "the first batch axes of data and indices are the same",
                lambda data, indices, batch: (
                    batch < indices.rank and indices.shape[:batch] == data.shape[:batch]
                ),
            ),
            holds(
                "the K indices of a tuple are for axes of data after the batch",
                lambda D, K, batch: 1 <= K <= len(D) - batch,
            ),
            let("*Y", "J, then what is left of D", lambda J, D, K, batch: (*J, *D[batch + K :])),
        ],
        example={"D": (3, 5, 6), "J": (3, 4), "K": 1, "batch": 1},
    )

    def evaluate(self, arrays, attrs):
        return None if attrs["batch"] else [arrays[0][tuple(np.moveaxis(arrays[1], -1, 0))]]


@register("scatter_elements")
class ScatterElements(Op):
    """Return a copy of data with updates written to the elements that gather_elements would read.
    ``reduction`` combines old and new elements.
    """

    traits = frozenset({Trait.UPDATES})
    contract = Contract(
        "data: E=any[*D], indices: index[*I], updates: E[*I] -> y: E[*D]",
        f"axis: axis of data, {_REDUCTION}",
        rules=[_INSIDE, _DEFINED],
    )

    def evaluate(self, arrays, attrs):
        return _written(arrays, _element_places(arrays[1], attrs["axis"]), attrs["reduction"])


@register("scatter_nd")
class ScatterNd(Op):
    """Return a copy of data in which the slice of each tuple of K indices is replaced by its
    update, or combined with it by ``reduction``.
    """

    traits = frozenset({Trait.UPDATES})
    contract = Contract(
        "data: E=any[*D], indices: index[*J K], updates: E[*U] -> y: E[*D]",
        _REDUCTION,
        rules=[
            holds("the K indices of a tuple are for axes of data", lambda D, K: 1 <= K <= len(D)),
            holds(
                "updates have the extents J, then what is left of D",
                lambda U, J, D, K: (
                    len(U) == len(J) + len(D) - K and all(map(are_equal, (*J, *D[K:]), U))
                ),
            ),
            _DEFINED,
        ],
        example={"D": (5, 6), "J": (4,), "K": 1, "U": (4, 6)},
    )

    def evaluate(self, arrays, attrs):
        return _written(arrays, tuple(np.moveaxis(arrays[1], -1, 0)), attrs["reduction"])


@register("tensor_scatter")
class TensorScatter(Op):
    """Return a copy of the cache with update written along ``axis`` from each sample's start;
    ``circular`` wraps around at the end.
    """

    traits = frozenset({Trait.UPDATES})
    contract = Contract(
        "cache: E=any[B *D{1..}], update: E[B *U{D}], start: int64[B] -> y: E[B *D]",
        "axis: axis of cache, circular: bool",
        rules=[
            holds("axis is not the batch", lambda axis: axis > 0),
            holds(
                "update has the extents of cache, or fewer along axis",
                lambda cache, update, axis: all(
                    u <= n if d == axis else u == n
                    for d, (u, n) in enumerate(zip(update.shape, cache.shape))
                ),
            ),
        ],
        example={"D": (6, 4), "U": (2, 4), "axis": 1},
    )


@register("sum_into")
class SumInto(Op):
    """Return y with y[r, places[i]] the sum of x[r, i]; indices of -1 are dropped. ``size`` is the
    extent of the result's rows.
    """

    contract = Contract(
        "x: E=number[R P], places: constant int32[P] -> y: E[R size]",
        "size: int 0..",
        rules=[
            holds(
                "places are from -1 to size - 1",
                lambda places_data, size: between(places_data, -1, size),
            )
        ],
        example={"size": 3},
    )


@register("reverse_sequence", onnx="ReverseSequence")
class ReverseSequence(Op):
    """Reverse the first ``length`` steps of each sample."""

    traits = frozenset({Trait.MOVES_ELEMENTS})

    contract = Contract(
        "x: E=any[A B *R], lengths: int64[L] -> y: E[A B *R]",
        "batch_axis: int 0..1, time_axis: int 0..1",
        rules=[
            holds(
                "batch and time are not the same axis",
                lambda batch_axis, time_axis: batch_axis != time_axis,
            ),
            holds(
                "there is one length for each sample",
                lambda x, lengths, batch_axis: are_equal(lengths.shape[0], x.shape[batch_axis]),
            ),
        ],
        example={"A": 3, "B": 5, "L": 3, "batch_axis": 0, "time_axis": 1},
    )

    def evaluate(self, arrays, attrs):
        y = arrays[0].copy()
        samples = np.moveaxis(y, (attrs["batch_axis"], attrs["time_axis"]), (0, 1))
        for sample, length in zip(samples, arrays[1]):
            sample[:length] = sample[:length][::-1].copy()
        return [y]


@register("topk")
class TopK(Op):
    """Return the ``k`` largest (or smallest) elements along ``axis`` in order, and their indices.
    Of equal elements the first comes first.
    """

    traits = frozenset({Trait.ANY_LAYOUT})

    contract = Contract(
        "x: E=number[*S] -> values: E[*Y], indices: int64[*Y]",
        "k: int 0..1073741823, axis: axis of x, largest: bool",
        rules=[
            holds("axis has k elements", lambda x, k, axis: k <= x.shape[axis]),
            let("*Y", "S with k along axis", lambda S, k, axis: replace_extents(S, [axis], [k])),
        ],
    )

    def evaluate(self, arrays, attrs):
        x, axis = arrays[0], attrs["axis"]
        if attrs["largest"]:  # of the reversed elements, so that the first of equals is the last
            last = x.shape[axis] - 1
            order = last - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
        else:
            order = np.argsort(x, axis, kind="stable")
        order = order.take(range(attrs["k"]), axis)
        return [np.take_along_axis(x, order, axis), order]
