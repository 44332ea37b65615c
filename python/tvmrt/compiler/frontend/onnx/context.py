"""Node context: one ONNX node with its inputs as IR values and its attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from tvmrt.compiler.frontend.context import OperatorContext
from tvmrt.compiler.ir import DTYPES, SourceType, Value
from tvmrt.compiler.ir.low_bit_types import WIDER
from tvmrt.compiler.ir.op import POINTWISE, get_op
from tvmrt.compiler.ir.sizes import SymInt, as_extent, is_unbounded, symbols_of, upper_bound
from tvmrt.error import UnsupportedError

from .dynamic_broadcast import broadcast_operands
from .dynamic_sizes import evaluate_extents, is_computed, shape_operand
from .fixed_values import unknown_operand
from .import_state import ImportState
from .legalize_types import HALF, legalize_types, retype, round_to_half, stored_type, typed_constant
from .operator_schemas import attribute_value
from .tensors import array_of


class NodeContext(OperatorContext):
    """One node for its importer: its attributes, compile-time operands and shared compositions.

    Omitted inputs are None; missing attributes have a default.
    """

    OPERAND = "input"

    def __init__(
        self,
        node: onnx.NodeProto,
        name: str,
        inputs: list[Value | None],
        opset: int,
        importer: ImportState,
    ) -> None:
        super().__init__(importer, name, inputs)
        self.node = node
        self.opset = opset
        self._attrs = {a.name: a for a in node.attribute}

    @property
    def op(self) -> str:
        return self.node.op_type

    def emit_many(self, op: str, inputs: Sequence[Value | None], **attrs: Any) -> list[Value]:
        """Add an IR node; operands are repeated to extents that a run finds."""
        if get_op(op).kind == POINTWISE:
            inputs = broadcast_operands(self, inputs)
        return super().emit_many(op, inputs, **attrs)

    def attr(self, name: str, default: Any = None) -> Any:
        """Return an attribute as int, float, str, list, or numpy array for tensors. A float default
        is rounded to float32, the type of ONNX's attributes."""
        if name not in self._attrs:
            return float(np.float32(default)) if isinstance(default, float) else default
        value = attribute_value(self._attrs[name])
        return array_of(value) if isinstance(value, onnx.TensorProto) else value

    def const(self, array: Any, dtype: Any = None) -> Value:
        """Add a constant named after this node."""
        value = typed_constant(np.asarray(array, dtype), f"{self.name}_const")
        return legalize_types(self.builder, value)

    def constant_operand(self, index: int, what: str) -> np.ndarray | None:
        """Return the elements of an input that must be known at compile time; None if omitted.

        A shape may have data-dependent extents.
        """
        value = self.input(index)
        if value is None:
            return None
        if value.data is not None:
            return value.data
        if value.type.size == 0:
            return np.zeros(value.shape, value.dtype.numpy)
        result = shape_operand(self, index)
        if result is None:
            raise unknown_operand(self, value, f"{what} (input {index}, {value.name})")
        return result

    def is_computed(self, index: int) -> bool:
        """Return whether an input is present and its elements are known only at run time."""
        return is_computed(self, index)

    def int_operand(self, index: int, what: str) -> list[SymInt] | None:
        """Return an input like constant_operand, as a flat list that may include extents."""
        value = self.input(index)
        data = self.importer.sizes.extents.get(value)
        if data is None and value is not None and value.data is None:
            data = evaluate_extents(self, value)
        if data is None:
            data = self.constant_operand(index, what)
        if data is None:
            return None
        return [as_extent(v) for v in np.asarray(data).reshape(-1)]

    def iota(
        self, count: SymInt, start: SymInt = 0, step: int = 1, what: str = "the range"
    ) -> Value:
        """Return start, start + step, ... as int64; ``what`` names the range in errors."""
        self.check_table_size(count, what)
        if symbols_of(count, start):
            return self.emit("iota", [], count=count, start=start, step=step)
        return self.const(start + np.arange(count) * step, np.int64)

    def list_operand(self, index: int, what: str, min_axes: int = 1) -> list[SymInt] | None:
        """Return an input like int_operand. Raises ValueError unless it has ``min_axes`` to 1
        axes."""
        value = self.input(index)
        if value is not None and not min_axes <= value.type.rank <= 1:
            raise ValueError(f"{what} (input {index}) is {value.type}, expected a list of integers")
        return self.int_operand(index, what)

    def attr_or_input(self, name: str, index: int, min_axes: int = 1) -> list[int] | None:
        """Return a list of ints that is an attribute in older opsets and an input in newer ones."""
        value = self.attr(name)
        if value is None:
            return self.list_operand(index, name, min_axes)
        values = value if isinstance(value, list) else [value]
        if not all(isinstance(v, int) for v in values):
            raise ValueError(f"{name} must be whole numbers, not {value}")
        return list(values)

    def convert(self, x: Value, to: str, saturate: bool = True, rounding: str = "up") -> Value:
        """Convert x as ONNX's Cast does, including from and to half precision.

        ``saturate`` and ``rounding`` apply to 8-bit and smaller floats, see operator ``narrow``.
        """
        source = stored_type(x)
        if source in HALF:
            x = round_to_half(self.builder, x, source)
        elif source is not None:
            x = retype(self.emit("identity", [x]), None)  # a tensor other than the packed one
        x = self.widen(x)
        if to in WIDER:
            return self._narrow(x, to, saturate, rounding)
        if to not in HALF:
            return self.cast(x, to)
        return retype(round_to_half(self.builder, self.cast(x, "float32"), to), SourceType(to))

    def widen(self, x: Value) -> Value:
        """Widen elements of unpacked small types; other values are returned unchanged."""
        return self.emit("widen", [x], to=WIDER[x.dtype.name]) if x.dtype.is_low_bit else x

    def _narrow(self, x: Value, to: str, saturate: bool, rounding: str) -> Value:
        """Narrow x to a small type; a packed type is stored in its storage type."""
        if WIDER[to] != "float32" and x.dtype.is_float:
            x = self._lowest_bits(self.emit("round", [x]), DTYPES[to].bits)
        x = self.cast(x, WIDER[to])
        x = self.emit("narrow", [x], to=to, saturate=saturate, rounding=rounding)
        return legalize_types(self.builder, x)

    def _lowest_bits(self, x: Value, bits: int) -> Value:
        """Return whole floats modulo 2**bits as int32, 0 for NaN and infinities.

        Every step is exact, also for floats beyond all integer types.
        """
        whole = self.emit("floor", [self.emit("mul", [x, self.like(2.0**-bits, x)])])
        rest = self.emit("sub", [x, self.emit("mul", [whole, self.like(2.0**bits, x)])])
        return self.cast(rest, "int32")

    def require_float32(self, *values: Value) -> None:
        """Raise UnsupportedError unless all values are float32, the only type with kernels."""
        for value in values:
            if value.dtype.name != "float32":
                raise UnsupportedError(f"{value.dtype} elements; only float32 has a kernel")

    # Small compositions shared by many importers.

    def expand(self, x: Value, shape: Sequence[int]) -> Value:
        shape = tuple(map(as_extent, shape))
        return x if x.shape == shape else self.emit("expand", [x], shape=shape)

    def with_shape(self, x: Value, shape: Sequence[SymInt], fits: Value | None = None) -> Value:
        """Return x in a shape with as many elements in each run; ``fits``: the check of that."""
        fits = self.const(np.asarray(True)) if fits is None else fits
        return self.emit("choice", [fits, x, x], shape=tuple(shape))

    def check_table_size(self, count: SymInt, what: str, width: int = 1) -> SymInt:
        """Return the count. Raises ValueError, which names ``what``, if the table is too large.

        The tables of all nodes together are limited, too. Each run checks a table of an open
        dimension. ``width``: elements per row.
        """
        if not is_unbounded(count):
            self.importer.tables.add(upper_bound(count), what, width)
        return count
