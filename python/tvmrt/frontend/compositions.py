"""Small compositions that importers of all kinds of files share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmrt.ir import Value
from tvmrt.ir.extent import Whole, as_extent, most


class Compositions:
    """What an operator's importer makes of the graph's operators by its own ``emit``; where nothing
    is to be done, the value as it is."""

    def emit(self, op: str, inputs: Sequence[Value | None], **attrs: Any) -> Value:
        raise NotImplementedError

    def const(self, array: Any, dtype: Any = None) -> Value:
        raise NotImplementedError

    def like(self, number: float, value: Value) -> Value:
        """A constant number of a value's element type."""
        return self.const(number, value.dtype.numpy)

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        perm = tuple(perm)
        return x if perm == tuple(range(len(perm))) else self.emit("transpose", [x], perm=perm)

    def swapped(self, x: Value) -> Value:
        """A matrix, or a batch of them, transposed."""
        rank = len(x.shape)
        return self.transpose(x, (*range(rank - 2), rank - 1, rank - 2))

    def reshape(self, x: Value, shape: Sequence[Whole]) -> Value:
        shape = tuple(map(as_extent, shape))
        return x if x.shape == shape else self.emit("reshape", [x], shape=shape)

    def cast(self, x: Value, to: str) -> Value:
        return x if x.dtype.name == to else self.emit("cast", [x], to=to)

    def slice_axis(self, x: Value, axis: int, start: int, size: Whole, step: int = 1) -> Value:
        """Elements start, start + step, ... along one axis."""
        rank = len(x.shape)
        starts, steps, sizes = [0] * rank, [1] * rank, list(x.shape)
        # a step that is not taken may be of any size in a network
        starts[axis], steps[axis], sizes[axis] = start, step if most(size) > 1 else 1, size
        if tuple(sizes) == x.shape and step == 1:
            return x
        return self.emit("slice", [x], starts=tuple(starts), steps=tuple(steps), sizes=tuple(sizes))

    def fitted(self, x: Value, axis: int, length: int) -> Value:
        """x with so many elements along an axis: the first ones, or zeros behind."""
        missing = length - x.shape[axis]
        if missing <= 0:
            return self.slice_axis(x, axis, 0, length)
        rank = len(x.shape)
        after = tuple(missing if d == axis else 0 for d in range(rank))
        return self.emit("pad", [x], before=(0,) * rank, after=after, mode="constant")
