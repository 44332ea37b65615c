"""One ONNX node during import: its attributes, constants, and the ONNX types of values."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from tvmrt.compiler.frontend.context import OperatorContext
from tvmrt.compiler.ir import Builder, Value

from .import_state import ImportState
from .legalize_types import legalize_types, typed_constant
from .tensors import array_of


class OnnxNode(OperatorContext):
    """One node during import. Omitted inputs are None; missing attributes have a default."""

    OPERAND = "input"

    def __init__(
        self,
        node: onnx.NodeProto,
        name: str,
        inputs: list[Value | None],
        opset: int,
        builder: Builder,
        importer: ImportState,
    ) -> None:
        super().__init__(importer, builder, name, inputs)
        self.node = node
        self.opset = opset
        self._attrs = {a.name: a for a in node.attribute}

    @property
    def op(self) -> str:
        return self.node.op_type

    def attr(self, name: str, default: Any = None) -> Any:
        """Return an attribute as int, float, str, list, or numpy array for tensors. A float default
        is rounded to float32, the type of ONNX's attributes."""
        if name not in self._attrs:
            return float(np.float32(default)) if isinstance(default, float) else default
        value = helper.get_attribute_value(self._attrs[name])
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if isinstance(value, onnx.TensorProto):
            return array_of(value)
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], bytes):
            return [v.decode("utf-8", "replace") for v in value]
        if isinstance(value, (onnx.GraphProto, str, int, float)):
            return value
        return list(value)

    def set_attr(self, name: str, value: Any) -> None:
        """Override an attribute during import; the node in the file stays unchanged."""
        self._attrs[name] = helper.make_attribute(name, value)

    def const(self, array: Any, dtype: Any = None) -> Value:
        """Add a constant named after this node."""
        value = typed_constant(np.asarray(array, dtype), f"{self.name}_const")
        return legalize_types(self.builder, value)
