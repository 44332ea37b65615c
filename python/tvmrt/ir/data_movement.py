"""Operators that move elements: joining and padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .graph import TensorType
from .op import Op, normalize_axis, register

PAD_MODES = ("constant", "reflect", "edge", "wrap")  # numpy has the same names


@register("concat")
class Concat(Op):
    """Join along ``axis``; all other extents and the element types agree."""

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        axis = normalize_axis(attrs["axis"], types[0].rank)
        attrs["axis"] = axis
        first = types[0]
        for t in types[1:]:
            same = t.rank == first.rank and t.dtype == first.dtype
            if not same or any(
                a != b for d, (a, b) in enumerate(zip(t.shape, first.shape)) if d != axis
            ):
                raise ValueError(f"{t} cannot be joined to {first} along axis {axis}")
        shape = list(first.shape)
        shape[axis] = sum(t.shape[axis] for t in types)
        return [TensorType(tuple(shape), first.dtype)]

    def evaluate(self, arrays, attrs):
        return [np.concatenate(arrays, attrs["axis"])]


@register("pad")
class Pad(Op):
    """Inputs: data[, value]. ``before``, ``after``: elements added per axis, none negative.

    ``mode`` is constant, reflect, edge or wrap; the value defaults to zero.
    """

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        if attrs["mode"] not in PAD_MODES:
            raise ValueError(f"padding mode {attrs['mode']} is not known")
        shape = [n + b + a for n, b, a in zip(types[0].shape, attrs["before"], attrs["after"])]
        return [TensorType(tuple(shape), types[0].dtype)]

    def evaluate(self, arrays, attrs):
        pads = list(zip(attrs["before"], attrs["after"]))
        extra = {}
        if attrs["mode"] == "constant":
            value = arrays[1] if len(arrays) > 1 and arrays[1] is not None else 0
            extra["constant_values"] = np.asarray(value).reshape(())
        return [np.pad(arrays[0], pads, attrs["mode"], **extra)]
