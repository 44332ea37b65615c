"""The graph as text: one line per node; equal graphs give equal text."""

from __future__ import annotations

import numpy as np

from .graph import Graph, Node, Value


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
