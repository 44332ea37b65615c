"""View operators: the same elements under another shape, order or selection."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from .graph import TensorType
from .op import VIEW, Op, broadcast, register
from .strided import Strided


class ViewOp(Op):
    """Reads one tensor; ``access`` says where its elements lie, or None if strides cannot."""

    kind = VIEW

    def access(self, source: Strided, attrs: dict[str, Any]) -> Strided | None:
        raise NotImplementedError(self.name)


@register("reshape")
class Reshape(ViewOp):
    """``shape``: the new extents, all known. Row-major order is kept."""

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        shape = tuple(int(n) for n in attrs["shape"])
        if prod(shape) != types[0].size:
            raise ValueError(f"{types[0].size} elements do not fit shape {list(shape)}")
        return [TensorType(shape, types[0].dtype)]

    def evaluate(self, arrays, attrs):
        return [arrays[0].reshape(attrs["shape"])]

    def access(self, source, attrs):
        return source.reshape(attrs["shape"])


@register("transpose")
class Transpose(ViewOp):
    """``perm``: output axis d is input axis perm[d]."""

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        perm = attrs["perm"]
        if sorted(perm) != list(range(types[0].rank)):
            raise ValueError(f"permutation {list(perm)} does not fit rank {types[0].rank}")
        return [TensorType(tuple(types[0].shape[p] for p in perm), types[0].dtype)]

    def evaluate(self, arrays, attrs):
        return [np.transpose(arrays[0], attrs["perm"])]

    def access(self, source, attrs):
        return source.transpose(attrs["perm"])


@register("slice")
class Slice(ViewOp):
    """``starts``, ``steps``, ``sizes``: one of each per axis; steps may be negative."""

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        for n, start, step, size in zip(
            types[0].shape, attrs["starts"], attrs["steps"], attrs["sizes"]
        ):
            last = start + (size - 1) * step
            if size and not (0 <= start < n and 0 <= last < n):
                raise ValueError(f"elements {start} to {last} lie outside an extent of {n}")
        return [TensorType(tuple(attrs["sizes"]), types[0].dtype)]

    def evaluate(self, arrays, attrs):
        index = np.ix_(
            *(
                start + step * np.arange(size)
                for start, step, size in zip(attrs["starts"], attrs["steps"], attrs["sizes"])
            )
        )
        return [arrays[0][index] if arrays[0].ndim else arrays[0]]

    def access(self, source, attrs):
        return source.slice(attrs["starts"], attrs["steps"], attrs["sizes"])


@register("expand")
class Expand(ViewOp):
    """``shape``: the extents after broadcasting by numpy's rules."""

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        shape = tuple(attrs["shape"])
        if broadcast(types[0].shape, shape) != shape:
            raise ValueError(f"shape {list(types[0].shape)} does not expand to {list(shape)}")
        return [TensorType(shape, types[0].dtype)]

    def evaluate(self, arrays, attrs):
        return [np.broadcast_to(arrays[0], attrs["shape"])]

    def access(self, source, attrs):
        return source.expand(attrs["shape"])
