"""Reading and writing by computed index.

Indices are int32 or int64; negative ones count from the end. An index outside its extent stops
the run with an error: nothing outside a tensor is ever read or written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .dtype import DTYPES
from .graph import TensorType
from .op import Op, normalize_axis, register

REDUCTIONS = ("none", "add", "mul", "max", "min")


def _check_indices(indices: TensorType) -> None:
    if indices.dtype.name not in ("int32", "int64"):
        raise ValueError(f"indices must be int32 or int64, not {indices.dtype}")


def _check_updates(data: TensorType, updates: TensorType, shape: Sequence[int]) -> None:
    if updates.shape != tuple(shape) or updates.dtype != data.dtype:
        raise ValueError(f"updates {updates} do not fit: {data.dtype}{list(shape)} expected")


def _check_reduction(attrs: dict[str, Any]) -> None:
    if attrs["reduction"] not in REDUCTIONS:
        raise ValueError(f"reduction {attrs['reduction']} is not one of {', '.join(REDUCTIONS)}")


@register("gather")
class Gather(Op):
    """Inputs: data, indices; slices of data along ``axis``, in the shape of the indices."""

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        axis = normalize_axis(attrs["axis"], types[0].rank)
        attrs["axis"] = axis
        _check_indices(types[1])
        shape = types[0].shape[:axis] + types[1].shape + types[0].shape[axis + 1 :]
        return [TensorType(shape, types[0].dtype)]

    def evaluate(self, arrays, attrs):
        return [np.take(arrays[0], arrays[1], attrs["axis"])]


@register("gather_elements")
class GatherElements(Op):
    """Inputs: data, indices; out[i, j, ...] = data[..., indices[i, j, ...], ...] on ``axis``."""

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        data, indices = types
        _check_indices(indices)
        _check_inside(data, indices, attrs["axis"])
        return [TensorType(indices.shape, data.dtype)]


def _check_inside(data: TensorType, indices: TensorType, axis: int) -> None:
    """Along the other axes the indices' own places must exist in the data."""
    if data.rank != indices.rank or any(
        i > n for d, (i, n) in enumerate(zip(indices.shape, data.shape)) if d != axis
    ):
        raise ValueError(f"indices {indices} do not fit into {data} along axis {axis}")


@register("gather_nd")
class GatherNd(Op):
    """Inputs: data, indices [*batch, ..., k]: each k-tuple names a slice of data behind the
    first ``batch`` axes, which both inputs share.
    """

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        data, indices = types
        batch = attrs["batch"]
        _check_indices(indices)
        if not indices.rank or indices.shape[:batch] != data.shape[:batch]:
            raise ValueError(f"{data} and indices {indices} do not share {batch} batch axes")
        depth = indices.shape[-1]
        if not 1 <= depth <= data.rank - batch:
            raise ValueError(f"tuples of {depth} indices do not fit {data} after {batch} axes")
        shape = indices.shape[:-1] + data.shape[batch + depth :]
        return [TensorType(shape, data.dtype)]


@register("scatter_elements")
class ScatterElements(Op):
    """Inputs: data, indices, updates; a copy of data with updates written where gather_elements
    would read. ``reduction`` joins old and new.
    """

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        data, indices, updates = types
        _check_indices(indices)
        _check_inside(data, indices, attrs["axis"])
        _check_updates(data, updates, indices.shape)
        _check_reduction(attrs)
        return [data]


@register("scatter_nd")
class ScatterNd(Op):
    """Inputs: data, indices [..., k], updates; a copy of data in which each k-tuple's slice is
    written, or joined by ``reduction``.
    """

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        data, indices, updates = types
        _check_indices(indices)
        if not indices.rank or not 1 <= indices.shape[-1] <= data.rank:
            raise ValueError(f"indices {indices} do not name slices of {data}")
        _check_updates(data, updates, indices.shape[:-1] + data.shape[indices.shape[-1] :])
        _check_reduction(attrs)
        return [data]


@register("tensor_scatter")
class TensorScatter(Op):
    """Inputs: cache [batch, ...], update, start [batch] (int64): update is written into a copy of
    the cache along ``axis`` from each sample's start on; ``circular`` wraps around the end.
    """

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        cache, update, start = types
        axis = attrs["axis"]
        expected = list(cache.shape)
        if axis == 0 or update.rank != cache.rank or update.shape[axis] > cache.shape[axis]:
            raise ValueError(f"update {update} does not fit {cache} along axis {axis}")
        expected[axis] = update.shape[axis]
        _check_updates(cache, update, expected)
        if start.shape != cache.shape[:1]:
            raise ValueError(f"{start} does not name one start for each sample of {cache}")
        return [cache]


@register("sum_into")
class SumInto(Op):
    """Inputs: x [rows, count], places [count] (constant int32): out[r, places[i]] is the sum of
    x[r, i]; places of -1 are dropped. ``size`` is the extent of the result's rows.
    """

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        x, places = types
        if x.rank != 2 or places.shape != x.shape[1:]:
            raise ValueError(f"places {places} do not fit the rows of {x}")
        return [TensorType((x.shape[0], attrs["size"]), x.dtype)]


@register("reverse_sequence")
class ReverseSequence(Op):
    """Inputs: x, lengths [batch] (int64): the first ``length`` steps of each sample in reverse.
    ``batch_axis`` and ``time_axis`` are 0 and 1 or 1 and 0.
    """

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        x, lengths = types
        if {attrs["batch_axis"], attrs["time_axis"]} != {0, 1} or x.rank < 2:
            raise ValueError("batch and time must be the first two axes")
        if lengths.shape != (x.shape[attrs["batch_axis"]],):
            raise ValueError(f"lengths {lengths} do not name one length for each sample of {x}")
        return [x]


@register("topk")
class TopK(Op):
    """The ``k`` largest (or smallest) elements along ``axis`` in order, and their indices; of
    equals the first comes first.
    """

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        x, k, axis = types[0], attrs["k"], attrs["axis"]
        if not 0 <= k <= x.shape[axis]:
            raise ValueError(f"k is {k}, but axis {axis} of {x} has {x.shape[axis]} elements")
        shape = tuple(k if d == axis else n for d, n in enumerate(x.shape))
        return [TensorType(shape, x.dtype), TensorType(shape, DTYPES["int64"])]
