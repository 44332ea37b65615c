"""Normalisations with a kernel of their own; others are composed of reductions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from .graph import TensorType
from .op import Op, register


def _check_rows(name: str, rows: Sequence[TensorType | None], extent: int) -> None:
    for row in rows:
        if row is not None and row.size != extent:
            raise ValueError(f"{name}: {row} does not hold a number for each of {extent}")


@register("layer_norm")
class LayerNorm(Op):
    """Inputs: x[, scale[, shift]] over the axes from ``axis`` on.

    y = (x - mean) / sqrt(variance + ``epsilon``) * scale + shift; ``centre`` false: mean and
    shift are left out, the variance is the mean square.
    """

    def infer(self, types: Sequence[TensorType | None], attrs: dict[str, Any]):
        x = types[0]
        _check_rows("layer norm", types[1:], prod(x.shape[attrs["axis"] :]))
        return [x]

    def evaluate(self, arrays, attrs):
        x = arrays[0].astype(np.float64)
        axes = tuple(range(attrs["axis"], x.ndim))
        if attrs["centre"]:
            x = x - x.mean(axes, keepdims=True)
        y = x / np.sqrt(np.square(x).mean(axes, keepdims=True) + attrs["epsilon"])
        shape = x.shape[attrs["axis"] :]
        if len(arrays) > 1 and arrays[1] is not None:
            y = y * arrays[1].reshape(shape)
        if len(arrays) > 2 and arrays[2] is not None:
            y = y + arrays[2].reshape(shape)
        return [y.astype(arrays[0].dtype)]


@register("group_norm")
class GroupNorm(Op):
    """Inputs: x [N, C, *spatial], scale [C], shift [C]; over the pixels and channels of a group.

    ``groups``, ``epsilon``. As many groups as channels is instance norm.
    """

    def infer(self, types: Sequence[TensorType | None], attrs: dict[str, Any]):
        x = types[0]
        if attrs["groups"] < 1 or x.shape[1] % attrs["groups"]:
            raise ValueError(f"{x.shape[1]} channels do not fall into {attrs['groups']} groups")
        _check_rows("group norm", types[1:], x.shape[1])
        return [x]


@register("lrn")
class LocalResponseNorm(Op):
    """x / (bias + alpha / size * sum of the squares of ``size`` channels around)^beta."""

    def infer(self, types: Sequence[TensorType | None], attrs: dict[str, Any]):
        if types[0].rank < 3 or attrs["size"] < 1:
            raise ValueError(f"local response norm of {types[0]} over {attrs['size']} channels")
        return [types[0]]
