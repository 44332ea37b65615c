"""Verifier: checks that a graph is well formed after import, passes, partition and devices; and the
graph as text: one line per node; equal graphs give equal text."""

from __future__ import annotations

from collections import Counter

import numpy as np

from .builder import result_types
from .contract.extent_formula import size_problem
from .graph import Graph, Node, Value
from .tensor_type import TensorType


def verify(graph: Graph, after: str, open: bool = False) -> None:
    """Raise ValueError naming the pass and the node if the graph is not valid.

    ``open``: nodes may lack attributes and have others, as in a region that its device has
    rewritten.
    """
    defined: set[Value] = set()
    for value in graph.inputs:
        _check_source(value, defined, after)
    checked_constants: set[Value] = set()  # constants that have been checked
    for node in graph.nodes:
        for value in node.operands():
            if value.data is not None:
                _check_constant(value, checked_constants, after)
            elif value not in defined:
                raise ValueError(f"after {after}: {node!r} reads {value!r} before it is computed")
        _check_guard(node, after)
        _check_types(node, after, open)
        for value in node.outputs:
            if value.producer is not node or value in defined:
                raise ValueError(f"after {after}: {value!r} has more than one producer")
            defined.add(value)
    _check_outputs(graph, defined, checked_constants, after, open)


def _check_source(value: Value, defined: set[Value], after: str) -> None:
    if value in defined:
        raise ValueError(f"after {after}: input {value!r} is listed twice")
    defined.add(value)
    problem = size_problem(value.shape)
    if problem is not None:
        raise ValueError(f"input {value.name} is {value.type}; {problem}")


def _check_constant(value: Value, checked_constants: set[Value], after: str) -> None:
    if value in checked_constants:
        return
    checked_constants.add(value)
    if value.data.shape != value.shape or value.data.dtype != value.dtype.numpy:
        actual = f"{value.data.dtype}{list(value.data.shape)}"
        raise ValueError(f"after {after}: {value!r} has data of {actual}")
    problem = size_problem(value.shape)
    if problem is not None:
        raise ValueError(f"after {after}: constant {value!r}: {problem}")


def _check_guard(node: Node, after: str) -> None:
    if node.guard is not None and str(node.guard[0].type) != "bool[]":
        raise ValueError(
            f"after {after}: {node!r} has guard {node.guard[0]!r}, expected a bool scalar"
        )


def _check_outputs(
    graph: Graph, defined: set[Value], checked_constants: set[Value], after: str, open: bool
) -> None:
    for name, value in zip(graph.output_names, graph.outputs):
        if value.data is not None:
            _check_constant(value, checked_constants, after)
        elif value not in defined:
            raise ValueError(f"after {after}: output {name} ({value!r}) is never computed")
    if len(graph.outputs) != len(graph.output_names):
        raise ValueError(
            f"after {after}: {len(graph.outputs)} outputs, {len(graph.output_names)} names"
        )
    # regions match outputs by position
    for name, count in () if open else Counter(graph.output_names).items():
        if count > 1:
            raise ValueError(f"after {after}: two outputs are named {name}")


def _check_types(node: Node, after: str, open: bool) -> None:
    try:
        inferred: list[TensorType] | None = result_types(node.op, node.inputs, node.attrs, open)
    except ValueError as problem:
        raise ValueError(f"after {after}: {node!r}: {problem}") from problem
    actual = [v.type for v in node.outputs]
    if inferred is not None and inferred != actual:
        raise ValueError(
            f"after {after}: {node!r} has type {', '.join(map(str, actual))}, "
            f"its inputs give {', '.join(map(str, inferred))}"
        )


def unique_names(graph: Graph) -> dict[Value, str]:
    """Return a readable name for each value; a number distinguishes equal names."""
    used: dict[str, int] = {}
    names: dict[Value, str] = {}
    values = [
        *graph.inputs,
        *graph.constants(),
        *(v for node in graph.nodes for v in node.outputs),
    ]
    for value in values:
        if value in names:
            continue
        count = used.get(value.name, 0)
        used[value.name] = count + 1
        names[value] = value.name if count == 0 else f"{value.name}.{count}"
    return names


def print_graph(graph: Graph, max_elements: int = 8) -> str:
    """Return the graph as text; constants by type, those of few elements with them."""
    names = unique_names(graph)
    lines = [f"graph {graph.name} {{"]
    lines += [f"  input %{names[v]}: {v.type}" for v in graph.inputs]
    lines += [
        f"  const %{names[v]}: {v.type}{_elements(v, max_elements)}" for v in graph.constants()
    ]
    lines += [f"  {_node(node, names)}" for node in graph.nodes]
    lines += [
        f"  output {name} = %{names[v]}" for name, v in zip(graph.output_names, graph.outputs)
    ]
    return "\n".join([*lines, "}"]) + "\n"


def _elements(value: Value, max_elements: int) -> str:
    if value.type.size > max_elements:
        return ""
    return f" = {np.asarray(value.data).tolist()}"


def _node(node: Node, names: dict[Value, str]) -> str:
    outs = ", ".join(f"%{names[v]}: {v.type}" for v in node.outputs)
    args = ", ".join("none" if v is None else f"%{names[v]}" for v in node.inputs)
    attrs = ", ".join(f"{k}={_attr(v)}" for k, v in sorted(node.attrs.items()))
    guard = ""
    if node.guard is not None:
        guard = f" if {'' if node.guard[1] else 'not '}%{names[node.guard[0]]}"
    body = f" {{{attrs}}}" if attrs else ""
    return f"{outs} = {node.op}({args}){body}{guard}  # {', '.join(node.sources)}"


def _attr(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_attr(v) for v in value) + "]"
    if isinstance(value, np.ndarray):
        return f"array{list(value.shape)}"
    return str(value)
