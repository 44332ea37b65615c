"""Resampling along axes by tables that are known at compile time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .graph import TensorType
from .op import Op, register


@register("pick")
class Pick(Op):
    """Inputs: x, then for each axis of ``axes`` the places along it that are taken (int32).

    Resizing to the nearest neighbour, of any element type.
    """

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        shape = list(types[0].shape)
        for axis, places in zip(attrs["axes"], types[1:]):
            shape[axis] = places.size
        return [TensorType(tuple(shape), types[0].dtype)]

    def evaluate(self, arrays, attrs):
        x = arrays[0]
        for axis, places in zip(attrs["axes"], arrays[1:]):
            x = np.take(x, places, axis)
        return [x]


@register("resample")
class Resample(Op):
    """Inputs: x, places [out, taps] (int32), weights [out, taps]: weighted sums along ``axis``."""

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        x, places, weights = types
        if places.shape != weights.shape or weights.dtype != x.dtype or not x.dtype.is_float:
            raise ValueError(f"places {places} and weights {weights} do not resample {x}")
        shape = list(x.shape)
        shape[attrs["axis"]] = places.shape[0]
        return [TensorType(tuple(shape), x.dtype)]

    def evaluate(self, arrays, attrs):
        x, places, weights = arrays
        axis = attrs["axis"]
        taken = np.take(x, places, axis).astype(np.float64)
        shape = [1] * taken.ndim
        shape[axis : axis + 2] = weights.shape
        return [(taken * weights.reshape(shape)).sum(axis + 1).astype(x.dtype)]
