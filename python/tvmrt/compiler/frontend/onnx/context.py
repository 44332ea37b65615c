"""What an operator's importer sees: one ONNX node, its inputs as IR values, its attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper

from tvmrt.compiler.frontend.context import OperatorContext
from tvmrt.compiler.ir import Builder, Value, limits
from tvmrt.compiler.ir.extent import Whole, as_extent, most, symbols_of
from tvmrt.compiler.ir.small import WIDER
from tvmrt.error import UnsupportedError

from . import supposed
from .halves import CARRIERS, HALF, carried, in_float32, rounded
from .run_sizes import sizes_of
from .tensors import array_of

if TYPE_CHECKING:
    from .importer import GraphImporter


class NodeContext(OperatorContext):
    """One node during import. Missing optional inputs are None; missing attributes a default."""

    OPERAND = "input"

    def __init__(
        self,
        node: onnx.NodeProto,
        name: str,
        inputs: list[Value | None],
        opset: int,
        builder: Builder,
        importer: GraphImporter,
    ) -> None:
        super().__init__(importer, builder, name, inputs)
        self.node = node
        self.opset = opset
        self.supposed: dict[int, np.ndarray] = {}  # operands of the run that one import is for
        self._attrs = {a.name: a for a in node.attribute}

    @property
    def op(self) -> str:
        return self.node.op_type

    def attr(self, name: str, default: Any = None) -> Any:
        """Attribute as a Python value: int, float, str, list, or numpy array for tensors. A default
        that is a float is rounded as ONNX's are, whose attributes have 32 bits."""
        if name not in self._attrs:
            return float(np.float32(default)) if isinstance(default, float) else default
        value = helper.get_attribute_value(self._attrs[name])
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if isinstance(value, onnx.TensorProto):
            return array_of(value, self.importer.folder)
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], bytes):
            return [v.decode("utf-8", "replace") for v in value]
        if isinstance(value, (onnx.GraphProto, str, int, float)):
            return value
        return list(value)

    def set_attr(self, name: str, value: Any) -> None:
        """Have the node this attribute in place of its own, which stays as it is in the file."""
        self._attrs[name] = helper.make_attribute(name, value)

    def constant_of(self, index: int, what: str) -> np.ndarray | None:
        """The elements of an input that must be known at compile time; None if left out.

        What the shapes of the results tell is known, and runs are held to it.
        """
        value = self.input(index)
        if value is None:
            return None
        if value.data is not None:
            return value.data
        found = supposed.operand(self, index)
        if found is None:
            raise UnsupportedError(
                f"{what} (input {index}, {value.name}) is computed at run time; make it a "
                "constant, or declare the shape of the result"
            )
        return found

    def is_computed(self, index: int) -> bool:
        """Whether an input is there, and its elements are known only when the network runs."""
        value = self.input(index)
        if value is None or value.data is not None or value in self.importer.extents:
            return False
        return sizes_of(self, value) is None

    def ints_of(self, index: int, what: str) -> list[Whole] | None:
        """Like constant_of, as a flat list of ints; what is computed of extents counts, too."""
        value = self.input(index)
        data = self.importer.extents.get(value)
        if data is None and value is not None and value.data is None:
            data = sizes_of(self, value)
        if data is None:
            data = self.constant_of(index, what)
        if data is None:
            return None
        return [as_extent(v) for v in np.asarray(data).reshape(-1)]

    def counted(
        self, count: Whole, start: Whole = 0, step: int = 1, what: str = "the range"
    ) -> Value:
        """start, start + step, ... as int64; ``what`` it counts, if that is too much."""
        self.table_size(most(count), what)
        if symbols_of(count, start):
            return self.emit("iota", [], count=count, start=start, step=step)
        return self.const(start + np.arange(count) * step, np.int64)

    def attr_or_input(self, name: str, index: int) -> list[int] | None:
        """A list of ints that older opsets give as an attribute and newer ones as an input."""
        value = self.attr(name)
        if value is None:
            return self.ints_of(index, name)
        values = value if isinstance(value, list) else [value]
        if not all(isinstance(v, int) for v in values):
            raise ValueError(f"{name} must be whole numbers, not {value}")
        return list(values)

    def const(self, array: Any, dtype: Any = None) -> Value:
        """A constant named after this node."""
        elements = np.asarray(array, dtype)
        value = self.builder.const(in_float32(elements), f"{self.name}_const")
        if elements.dtype.name in CARRIERS:
            value = carried(self.builder, value)
            self.importer.halves[value] = elements.dtype.name
        return value

    def half_of(self, value: Value) -> str | None:
        """The half precision or packed type in which ONNX has a tensor that is wider here; else
        None."""
        return self.importer.halves.get(value)

    def alike(self, result: Value, source: Value) -> Value:
        """The result, as ONNX has the source: in half precision, a packed type or strings."""
        if source in self.importer.texts:
            self.importer.texts.add(result)
        kind = self.half_of(source)
        if kind is not None:
            self.importer.halves[result] = kind
        return result

    def converted(self, x: Value, to: str, saturate: bool = True, rounding: str = "up") -> Value:
        """x as ONNX's Cast has it, rounded from half precision and to it.

        ``saturate`` and ``rounding`` are for small floats, see the operator ``narrow``.
        """
        source = self.half_of(x)
        if source in HALF:
            x = rounded(self.builder, x, source)
        elif source is not None:
            x = self.emit("identity", [x])  # another tensor than the packed one
        x = self.widened(x)
        if to in WIDER:
            return self._narrowed(x, to, saturate, rounding)
        if to not in HALF:
            return self.cast(x, to)
        result = rounded(self.builder, self.cast(x, "float32"), to)
        self.importer.halves[result] = to
        return result

    def widened(self, x: Value) -> Value:
        """The numbers of small elements that are not packed; others are what they are."""
        return self.emit("widen", [x], to=WIDER[x.dtype.name]) if x.dtype.is_small else x

    def _narrowed(self, x: Value, to: str, saturate: bool, rounding: str) -> Value:
        """The number as a small type has it, packed ones in the type that they have here."""
        if WIDER[to] != "float32" and x.dtype.is_float:
            x = self.cast(x, "int32")  # whose lowest bits count, as those of any integer
        x = self.cast(x, WIDER[to])
        x = self.emit("narrow", [x], to=to, saturate=saturate, rounding=rounding)
        if to in CARRIERS:
            x = carried(self.builder, x)
            self.importer.halves[x] = to
        return x

    def only_float32(self, *values: Value) -> None:
        """Raise UnsupportedError unless all of them are float32, for which alone kernels exist."""
        for value in values:
            if value.dtype.name != "float32":
                raise UnsupportedError(f"{value.dtype} elements; only float32 has a kernel")

    # Small compositions that many importers share.

    def expand(self, x: Value, shape: Sequence[int]) -> Value:
        shape = tuple(map(as_extent, shape))
        return x if x.shape == shape else self.emit("expand", [x], shape=shape)

    def table_size(self, count: int, what: str, width: int = 1) -> int:
        """The count, if so many rows can be written out; ValueError names ``what`` otherwise.

        Tables of all nodes together have a bound, too. ``width``: numbers in a row.
        """
        limits.check_table(count, what, width)
        self.importer.tabled += count * width
        if self.importer.tabled > limits.MAX_TABLES:
            raise ValueError(
                f"with {what} of {count} elements the network's tables have "
                f"{self.importer.tabled} elements; the maximum is {limits.MAX_TABLES}"
            )
        return count
