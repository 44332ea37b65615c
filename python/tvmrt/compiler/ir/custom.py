"""User-defined operators: their nodes carry a record that defines them; and nodes of the
network that a device takes as they are.

The records are made by ``tvmrt.custom``; this module has their interface for the compiler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Protocol

import numpy as np

from .contract import Contract
from .dtype import DTYPES
from .graph import Graph, Node, Value
from .op import Op, register
from .tensor_type import TensorType


class Record(Protocol):
    """Interface of a node's attribute ``operator`` for every stage.

    Records of ``custom`` nodes also have: ``inputs`` and ``outputs`` (names, layouts),
    ``result_types`` and ``evaluate`` for the operator below, ``call_for`` to describe one node,
    the C body ``c``, and ``c_refusal``, ``opencl_refusal``, ``opencl.attributes``.
    """

    name: str  # qualified: "domain::Name"
    version: int


@register("custom")
class Custom(Op):
    """User-defined kernel. Its record declares the inputs and outputs.

    ``operator``: the record; ``scalars``: its typed scalar parameters by position; ``layouts``:
    the layout of each operand, inputs first (None: row-major), chosen by layout inference.
    """

    contract = Contract("inputs*: any[*]", "operator: object, scalars: object, layouts?: object")

    def results(self, bindings: Mapping[str, Any]) -> list[TensorType]:
        return bindings["operator"].result_types(bindings["inputs"], bindings["scalars"])

    def evaluate(self, arrays: Sequence[np.ndarray | None], attrs: dict[str, Any]):
        return attrs["operator"].evaluate(arrays, attrs["scalars"])


@register("composed")
class Composed(Op):
    """Node that stands for a graph, kept for a device that supports it by name.

    ``operator``: the record; ``values``: its attributes by name; ``graph``: the inner graph. Its
    inputs are the present inputs of the node in order, its outputs are the outputs of the node.
    """

    contract = Contract("inputs*: any[*]", "operator: object, values: object, graph: object")

    def results(self, bindings: Mapping[str, Any]) -> list[TensorType]:
        inside: Graph = bindings["graph"]
        types = [t for t in bindings["inputs"] if t is not None]
        expected = [v.type for v in inside.inputs]
        if types != expected:
            raise ValueError(
                f"{bindings['operator'].name} was composed for {', '.join(map(str, expected))}, "
                f"not for {', '.join(map(str, types))}"
            )
        return [v.type for v in inside.outputs]


def text_of_types(types: Sequence[TensorType]) -> str:
    """Return types in one string, ``float32:1x3 int64:5``, for attributes outside the process."""
    return " ".join(f"{t.dtype}:{'x'.join(map(str, t.shape))}" for t in types)


def types_of_text(text: str) -> list[TensorType]:
    """Parse the result of :func:`text_of_types`."""
    types = []
    for word in text.split():
        name, _, extents = word.partition(":")
        shape = tuple(int(n) for n in extents.split("x") if n)
        types.append(TensorType(shape, DTYPES[name]))
    return types


def c_refusal(node: Node) -> str | None:
    """Return None if a ``custom`` node has a C body for its operands, else the reason."""
    return node.attrs["operator"].c_refusal(call_of(node))


def call_of(node: Node) -> Any:
    """Return the description of a ``custom`` node that the methods of its record take."""
    layouts = node.attrs.get("layouts")
    inputs = [None if v is None else v.type for v in node.inputs]
    outputs = [v.type for v in node.outputs]
    scalars = node.attrs["scalars"]
    return node.attrs["operator"].call_for(
        inputs, outputs, scalars, layouts[0] if layouts else None
    )


def plain_form(node: Node) -> tuple[str, dict[str, Any]]:
    """Return operator name and attributes of a node for other processes: a user-defined operator
    has its qualified name, with its scalars or attributes by name."""
    record = kernel_record(node)
    if record is not None:
        return record.name, record.keywords(node.attrs["scalars"])
    if node.op == "composed":
        return node.attrs["operator"].name, node.attrs["values"]
    return node.op, node.attrs


def kernel_record(node: Node) -> Any | None:
    """Return the record of a user-defined kernel; None for a node of another operator."""
    return node.attrs["operator"] if node.op == "custom" else None


def shown_op(node: Node) -> str:
    """Return the operator's name for display: a user-defined operator has its own."""
    return plain_form(node)[0]


def evaluate_graph(graph: Graph, arrays: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """Evaluate a graph in numpy and return its outputs; None if an operator cannot be evaluated."""
    arrays_of = {v: array for v, array in zip(graph.inputs, arrays)}
    for node in graph.nodes:
        operands = [
            None if v is None else v.data if v.is_constant else arrays_of[v] for v in node.inputs
        ]
        if node.op == "composed":
            results = evaluate_graph(node.attrs["graph"], [a for a in operands if a is not None])
        else:
            results = node.operator.evaluate(operands, node.attrs)
        if results is None:
            return None
        arrays_of.update(zip(node.outputs, results))
    return [arrays_of[v] if v in arrays_of else v.data for v in graph.outputs]


def enter_operator(graph: Graph, record: Record) -> None:
    """Register an operator with a graph at its first use. Raise ValueError when the graph already
    has another operator of that name."""
    if graph.operators.setdefault(record.name, record) is not record:
        raise ValueError(
            f"two operators are named {record.name}; give one of them another name or domain"
        )


def copy_node(
    node: Node,
    mapping: dict[Value, Value],
    name: str | None = None,
    sources: tuple[str, ...] | None = None,
    guard: tuple[Value, bool] | None = None,
) -> Node:
    """Return a copy of a node whose inputs are replaced by ``mapping``; its outputs are added to
    ``mapping``."""
    inputs = [None if v is None else mapping.get(v, v) for v in node.inputs]
    if guard is None and node.guard is not None:
        guard = (mapping.get(node.guard[0], node.guard[0]), node.guard[1])
    made = Node(
        node.op, inputs, dict(node.attrs), name or node.name, sources or node.sources, guard
    )
    made.outputs = [Value(name or v.name, v.type, made) for v in node.outputs]
    mapping.update(zip(node.outputs, made.outputs))
    return made


def copy_graph(graph: Graph) -> Graph:
    """Return a graph with its own nodes and values; constants' elements and records are shared."""
    fresh = copy(graph)
    for name, each in vars(graph).items():
        if isinstance(each, (dict, list)):
            setattr(fresh, name, copy(each))
    mapping = {v: Value(v.name, v.type) for v in graph.inputs}
    fresh.inputs = [mapping[v] for v in graph.inputs]
    fresh.nodes = [copy_node(node, mapping) for node in graph.nodes]
    fresh.outputs = [mapping.get(v, v) for v in graph.outputs]
    return fresh


@register("onnx_node")
class OnnxNode(Op):
    """Unchanged ONNX node for a device that runs ONNX; only in regions.

    ``node``: the bytes of its NodeProto in base64, with operands named ``i0``, ``i1``, ... and
    results named ``o0``, ``o1``, ...; operands and results that are left out have empty names.
    ``opsets``: operator set versions, as "ai.onnx:17 com.microsoft:1". ``types``: types of the
    results that are present, as "float32:1x3x8x8", separated by blanks.
    """

    contract = Contract("inputs*: any[*]", "node: text, opsets: text, types: text")

    def results(self, bindings: Mapping[str, Any]) -> list[TensorType]:
        return types_of_text(bindings["types"])
