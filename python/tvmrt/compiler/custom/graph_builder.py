"""Graphs built in Python: ONNX operators as methods, and custom operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tvmrt.compiler.frontend.onnx.import_state import ImportRequest
from tvmrt.compiler.frontend.onnx.importer import GraphImporter
from tvmrt.compiler.ir import DTYPES, Graph, TensorType, Value, constant
from tvmrt.compiler.ir.custom import copy_graph
from tvmrt.compiler.ir.sizes import Extent, as_extent, symbols_of

from .operator import Operator

OPSET = 17


class GraphBuilder:
    """Graph under construction.

    ``g.Gemm(x, w, b, transB=1)`` adds the node that ONNX defines under that name and returns its
    output, or a list of them; ``g.add(operator, x, beta=1.0)`` does the same with a custom
    operator. Inputs are values of this graph, arrays, numbers and extents of its values, or None
    if left out. ``tvmrt.compile`` takes the builder like a file.

    Every method raises ValueError or UnsupportedError with the node and the reason.
    """

    def __init__(self, name: str = "graph") -> None:
        empty = helper.make_model(
            helper.make_graph([], name, [], []), opset_imports=[helper.make_opsetid("", OPSET)]
        )
        self._importer = GraphImporter(ImportRequest(empty))
        self._count = 0
        self._values: set[Value] = set()  # values that nodes of this graph may read

    @property
    def name(self) -> str:
        """The graph's name."""
        return self._importer.graph.name

    def input(self, name: str, shape: Sequence[int | Extent], dtype: Any = "float32") -> Value:
        """Add an input of the graph. ``dtype``: a name, or anything that numpy takes as a dtype."""
        dtype = _element_type(dtype, f"input {name}")
        extents = _extents_of(shape, f"input {name}")
        if any(name == known.name for known in self._importer.graph.inputs):
            raise ValueError(
                f"input {name}: the graph already has an input of this name; rename it"
            )
        value = Value(name, TensorType(extents, DTYPES[dtype]))
        self._importer.graph.inputs.append(value)
        if value.dtype.is_half:
            self._importer.builder.sources = (name,)
            value = self._importer.builder.emit("cast", [value], name, to="float32")
        self._values.add(value)
        return value

    def constant(self, array: Any, name: str = "const") -> Value:
        """Return a constant tensor; the array is not copied."""
        return constant(np.asarray(array), name)

    def output(self, name: str, value: Any, dtype: Any = None) -> None:
        """Make a value an output; ``dtype`` float16 or bfloat16 converts it."""
        if name in self._importer.graph.output_names:
            raise ValueError(
                f"output {name}: the graph already has an output of this name; rename it"
            )
        value = self._value(value, name, f"output {name}")
        if value is None:
            raise ValueError(f"output {name} is None; give a value of the graph")
        wanted = value.dtype.name if dtype is None else _element_type(dtype, f"output {name}")
        if value.dtype.name != wanted:
            self._importer.builder.sources = (name,)
            value = self._importer.builder.emit("cast", [value], name, to=wanted)
        self._importer.graph.outputs.append(value)
        self._importer.graph.output_names.append(name)

    def add(
        self,
        operator: Operator | str,
        /,
        *inputs: Any,
        outputs: int | None = None,
        name: str | None = None,
        **attributes: Any,
    ) -> Any:
        """Add a node.

        ``operator`` is a custom operator, or the name of an operator of ONNX, ``domain::Name``.
        ``outputs``: number of outputs, for operators with a variable number; ``name``: the node's
        name. Returns its output, or a list if there are several.
        """
        if isinstance(operator, Operator):
            domain, op_type = operator.domain, operator.op_type
        else:
            domain, _, op_type = operator.rpartition("::")
        self._count += 1
        name = name or f"{op_type}_{self._count}"
        values = [
            self._value(v, f"{name}_{i}", f"node {name}: input {i}") for i, v in enumerate(inputs)
        ]
        num_outputs = outputs or _outputs_of(op_type, domain, self._importer.functions.opsets)
        node = helper.make_node(
            op_type,
            ["" if v is None else f"{i}" for i, v in enumerate(values)],
            [f"{name}:{i}" for i in range(num_outputs)],
            name,
            domain=domain,
        )
        node.attribute.extend(_attributes(name, attributes))
        record = operator if isinstance(operator, Operator) else None
        results = self._importer.add_node(node, values, record)
        self._values.update(results)
        return results[0] if len(results) == 1 else list(results)

    def _value(self, item: Any, name: str, where: str) -> Value | None:
        if isinstance(item, Value) and not item.is_constant and item not in self._values:
            raise ValueError(
                f"{where}: {item.name} is a value of another graph; pass it as an input"
            )
        if item is None or isinstance(item, Value):
            return item
        array = np.asarray(item)
        if array.dtype == object and symbols_of(array.reshape(-1).tolist()):
            return self._extents(array, name)
        if array.dtype.name not in DTYPES:
            raise ValueError(f"{where}: {item!r} is neither a value, an array nor a number")
        if array.dtype == np.float64 and not isinstance(item, np.ndarray):
            array = array.astype(np.float32)  # Python numbers have the usual type of networks
        return constant(array, name)

    def _extents(self, array: np.ndarray, name: str) -> Value:
        """Return a tensor of integers, some of them symbolic extents."""
        builder = self._importer.builder
        builder.sources = (name,)
        elements = tuple(map(as_extent, array.reshape(-1).tolist()))
        value = builder.emit("extents", [], name, values=elements, shape=array.shape)
        self._importer.sizes.extents[value] = array
        return value

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        """Return a method that adds the ONNX operator of that name."""
        if op_type.startswith("_"):
            raise AttributeError(op_type)

        def add(*inputs: Any, **keywords: Any) -> Any:
            return self.add(op_type, *inputs, **keywords)

        add.__name__ = op_type
        return add

    def graph(self) -> Graph:
        """Return a copy of the current graph."""
        return copy_graph(self._importer.graph)


def _element_type(dtype: Any, where: str) -> str:
    """Return the name of an element type that is given as a name or as a dtype of numpy."""
    is_name = dtype is None or isinstance(dtype, str)  # numpy takes None as float64
    name = str(dtype if is_name else np.dtype(dtype).name)
    if name not in DTYPES:
        raise ValueError(f"{where}: unknown element type {name}; choose from {', '.join(DTYPES)}")
    return name


def _extents_of(shape: Any, where: str) -> tuple[int | Extent, ...]:
    """Return the extents of a shape that a user gives: sizes, or extents of other values."""
    try:
        extents = tuple(n if isinstance(n, Extent) else index(n) for n in shape)
    except TypeError:
        extents = (-1,)
    if any(n < 0 for n in extents):
        raise ValueError(
            f"{where}: {shape!r} is not a shape; give a tuple of sizes, such as (1, 3), or build a "
            "network with dynamic dimensions as an ONNX model"
        )
    return extents


def _attributes(name: str, values: Mapping[str, Any]) -> list[onnx.AttributeProto]:
    """Return attributes of a node; None leaves one out."""
    protos = []
    for key, value in values.items():
        try:
            protos += [] if value is None else [helper.make_attribute(key, value)]
        except (TypeError, ValueError) as problem:
            raise ValueError(
                f"node {name}: attribute {key}: {value!r} cannot be an ONNX attribute"
            ) from problem
    return protos


def _outputs_of(op_type: str, domain: str, opsets: dict[str, int]) -> int:
    """Return the minimum number of outputs of an operator; one if it is unknown."""
    try:
        schema = onnx.defs.get_schema(op_type, opsets.get(domain, 1), domain)
    except onnx.defs.SchemaError:
        return 1
    return max(schema.min_output, 1)
