"""Operator context shared by the importers of all file formats, with small compositions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from tvmrt.compiler.ir import Builder, Value
from tvmrt.compiler.ir.sizes import Extent, SymInt, as_extent, bounds, sym_max, sym_min, upper_bound


class OperatorContext:
    """One operator of a network during import; omitted operands are None."""

    OPERAND = "operand"  # the file format's word for an operand

    def __init__(self, importer: Any, name: str, inputs: list[Value | None]) -> None:
        self.importer = importer
        self.name = name
        self.inputs = inputs

    @property
    def builder(self) -> Builder:
        """The builder of the graph that is being imported."""
        return self.importer.builder

    @property
    def extents(self) -> dict[Value, np.ndarray]:
        """Integer tensors made of extents, element by element."""
        return self.importer.sizes.extents

    def input(self, index: int) -> Value | None:
        """Return the operand at an index, or None if it is omitted."""
        return self.inputs[index] if 0 <= index < len(self.inputs) else None

    def required(self, index: int) -> Value:
        """Return the operand at an index. Raises ValueError if it is missing."""
        value = self.input(index)
        if value is None:
            raise ValueError(f"{self.OPERAND} {index} is missing")
        return value

    def emit(self, op: str, inputs: Sequence[Value | None], **attrs: Any) -> Value:
        """Add an IR node with one output, named after this operator."""
        (value,) = self.emit_many(op, inputs, **attrs)
        return value

    def emit_many(self, op: str, inputs: Sequence[Value | None], **attrs: Any) -> list[Value]:
        """Add an IR node, named after this operator, and return all its outputs."""
        return self.builder.emit_many(op, inputs, self.name, **attrs)

    def const(self, array: Any, dtype: Any = None) -> Value:
        """Add a constant named after this operator."""
        return self.builder.const(np.asarray(array, dtype), f"{self.name}_const")

    def integer_tensor(self, array: np.ndarray, dtype: str = "int64") -> Value:
        """Return a tensor of integers from integers and extents."""
        elements = array.reshape(-1).tolist()
        if not any(isinstance(n, Extent) for n in elements):
            return self.const(array.astype(dtype))
        value = self.emit("extents", [], values=tuple(elements), shape=array.shape)
        value = self.cast(value, dtype)
        self.extents[value] = array
        return value

    def data_dependent_extent(self, scalar: Value, low: int, high: SymInt, what: str) -> SymInt:
        """Turn a data-dependent int64 scalar into an extent from ``low`` to ``high``. A run with a
        number outside of these bounds ends with an error that names ``what``."""
        if scalar.data is not None:
            return int(scalar.data)
        dims = self.importer.dims
        make = partial(dims.data_dependent_extent, self.emit, scalar, low, high, self.name, what)
        return dims.data_dependent_sizes.intern(self.builder, scalar, low, high, make)

    # Compositions. Each returns its operand unchanged if there is nothing to do.

    def like(self, scalar: float, value: Value) -> Value:
        """Return a constant with the element type of a value."""
        return self.const(scalar, value.dtype.numpy)

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        perm = tuple(perm)
        return x if perm == tuple(range(len(x.shape))) else self.emit("transpose", [x], perm=perm)

    def swap_last_axes(self, x: Value) -> Value:
        """Transpose a matrix or a batch of matrices."""
        rank = len(x.shape)
        return self.transpose(x, (*range(rank - 2), rank - 1, rank - 2))

    def reshape(self, x: Value, shape: Sequence[SymInt]) -> Value:
        shape = tuple(map(as_extent, shape))
        return x if x.shape == shape else self.emit("reshape", [x], shape=shape)

    def cast(self, x: Value, to: str) -> Value:
        return x if x.dtype.name == to else self.emit("cast", [x], to=to)

    def add_optional(self, x: Value, more: Value | None) -> Value:
        """Return the sum of both, or x if ``more`` is None."""
        return x if more is None else self.emit("add", [x, more])

    def concat(self, parts: Sequence[Value], axis: int) -> Value:
        """Concatenate parts along an axis; a single part is returned unchanged."""
        return parts[0] if len(parts) == 1 else self.emit("concat", parts, axis=axis)

    def unsqueeze(self, x: Value, axis: int) -> Value:
        """Insert a new axis of extent 1 at an index."""
        return self.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))

    def element(self, x: Value, axis: int, index: int) -> Value:
        """Return the element at an index of an axis, without that axis."""
        part = self.slice_axis(x, axis, index, 1)
        return self.reshape(part, (*x.shape[:axis], *x.shape[axis + 1 :]))

    def clamp(self, x: Value, low: float | None, high: float | None) -> Value:
        """Clamp x between two numbers of its type; None means no bound."""
        if low is not None:
            x = self.emit("max", [x, self.like(low, x)])
        return x if high is None else self.emit("min", [x, self.like(high, x)])

    def slice_axis(self, x: Value, axis: int, start: int, size: SymInt, step: int = 1) -> Value:
        """Return the elements start, start + step, ... along one axis."""
        rank = len(x.shape)
        starts, steps, sizes = [0] * rank, [1] * rank, list(x.shape)
        # with at most one element the step is unused, and files may give it any size
        starts[axis], steps[axis], sizes[axis] = start, step if upper_bound(size) > 1 else 1, size
        if tuple(sizes) == x.shape and step == 1:
            return x
        return self.emit("slice", [x], starts=tuple(starts), steps=tuple(steps), sizes=tuple(sizes))

    def pad_or_truncate(self, x: Value, axis: int, length: SymInt) -> Value:
        """Truncate x along an axis to ``length`` elements, or pad it with zeros at the end."""
        missing = length - x.shape[axis]
        low, high = bounds(missing)
        if low < 0:
            x = self.slice_axis(x, axis, 0, sym_min(length, x.shape[axis]))
        return self.pad_end(x, axis, sym_max(missing, 0)) if high > 0 else x

    def pad_end(self, x: Value, axis: int, count: SymInt, value: Value | None = None) -> Value:
        """Pad x at the end of an axis by ``count`` elements of ``value`` (default: zeros)."""
        inputs, before, after = [x], (0,) * len(x.shape), [0] * len(x.shape)
        after[axis] = count
        if value is not None:
            inputs.append(value)
        return self.emit("pad", inputs, before=before, after=tuple(after), mode="constant")
