"""What importers of operators of all kinds of files see, and small compositions that they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvmrt.compiler.ir import Builder, Value
from tvmrt.compiler.ir.extent import Extent, Whole, as_extent, bounds, largest, most, smallest


class OperatorContext:
    """One operator of a network during import; operands that are left out are None."""

    OPERAND = "operand"  # what the format calls one

    def __init__(
        self, importer: Any, builder: Builder, name: str, inputs: list[Value | None]
    ) -> None:
        self.importer = importer
        self.builder = builder
        self.name = name
        self.inputs = inputs

    def input(self, index: int) -> Value | None:
        """Operand by position, None when it is left out."""
        return self.inputs[index] if 0 <= index < len(self.inputs) else None

    def required(self, index: int) -> Value:
        """Operand by position, which must be there."""
        value = self.input(index)
        if value is None:
            raise ValueError(f"{self.OPERAND} {index} is missing")
        return value

    def emit(self, op: str, inputs: Sequence[Value | None], **attrs: Any) -> Value:
        """Add an IR node with one output, named after this operator."""
        return self.builder.emit(op, inputs, self.name, **attrs)

    def emit_many(self, op: str, inputs: Sequence[Value | None], **attrs: Any) -> list[Value]:
        """Add an IR node, named after this operator; all its outputs."""
        return self.builder.emit_many(op, inputs, self.name, **attrs)

    def const(self, array: Any, dtype: Any = None) -> Value:
        """A constant named after this operator."""
        return self.builder.const(np.asarray(array, dtype), f"{self.name}_const")

    def whole_numbers(self, array: np.ndarray, dtype: str = "int64") -> Value:
        """A tensor of integers from integers and extents."""
        elements = array.reshape(-1).tolist()
        if not any(isinstance(n, Extent) for n in elements):
            return self.const(array.astype(dtype))
        value = self.emit("extents", [], values=tuple(elements), shape=array.shape)
        value = self.cast(value, dtype)
        self.importer.extents[value] = array
        return value

    def found(self, number: Value, low: int, high: Whole, what: str) -> Whole:
        """A number that the run computes, an int64 scalar, as an extent from ``low`` to ``high``;
        beyond them the run ends with an error that names ``what``."""
        dims = self.importer.dims

        def make(number: Value, low: int, high: Whole) -> Whole:
            return dims.found(self.emit, number, low, high, self.name, what)

        if number.data is not None:
            return int(number.data)
        return dims.run_counts.found(self.builder, self.emit, number, (low, high), make)

    # Compositions; where nothing is to be done, the value as it is.

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

    def added(self, x: Value, more: Value | None) -> Value:
        """The sum of both, where there is something to add."""
        return x if more is None else self.emit("add", [x, more])

    def joined(self, parts: Sequence[Value], axis: int) -> Value:
        """Parts behind each other along an axis; of one part, that."""
        return parts[0] if len(parts) == 1 else self.emit("concat", parts, axis=axis)

    def with_axis(self, x: Value, axis: int) -> Value:
        """x with a new axis of extent 1 at that place."""
        return self.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))

    def element(self, x: Value, axis: int, place: int) -> Value:
        """What is at a place along an axis, which goes."""
        part = self.slice_axis(x, axis, place, 1)
        return self.reshape(part, (*x.shape[:axis], *x.shape[axis + 1 :]))

    def clamp(self, x: Value, low: float | None, high: float | None) -> Value:
        """Between two numbers of x's type; None is no bound."""
        if low is not None:
            x = self.emit("max", [x, self.like(low, x)])
        return x if high is None else self.emit("min", [x, self.like(high, x)])

    def slice_axis(self, x: Value, axis: int, start: int, size: Whole, step: int = 1) -> Value:
        """Elements start, start + step, ... along one axis."""
        rank = len(x.shape)
        starts, steps, sizes = [0] * rank, [1] * rank, list(x.shape)
        # a step that is not taken may be of any size in a network
        starts[axis], steps[axis], sizes[axis] = start, step if most(size) > 1 else 1, size
        if tuple(sizes) == x.shape and step == 1:
            return x
        return self.emit("slice", [x], starts=tuple(starts), steps=tuple(steps), sizes=tuple(sizes))

    def fitted(self, x: Value, axis: int, length: Whole) -> Value:
        """x with so many elements along an axis: the first ones, or zeros behind."""
        missing = length - x.shape[axis]
        low, high = bounds(missing)
        if low < 0:
            x = self.slice_axis(x, axis, 0, smallest(length, x.shape[axis]))
        return self.filled_up(x, axis, largest(missing, 0)) if high > 0 else x

    def filled_up(self, x: Value, axis: int, count: Whole, value: Value | None = None) -> Value:
        """x with so many elements behind it along an axis: zeros, unless told otherwise."""
        inputs, before, after = [x], (0,) * len(x.shape), [0] * len(x.shape)
        after[axis] = count
        if value is not None:
            inputs.append(value)
        return self.emit("pad", inputs, before=before, after=tuple(after), mode="constant")
