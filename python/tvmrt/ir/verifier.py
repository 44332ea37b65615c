"""Checks that a graph is well formed; passes are checked by it one after another."""

from __future__ import annotations

from .graph import Graph, Node, Value
from .op import get_op


def verify(graph: Graph, after: str) -> None:
    """Raise ValueError naming the pass and the node at which the graph stops making sense."""
    known: set[Value] = set(graph.inputs)
    for node in graph.nodes:
        for value in node.operands():
            if value not in known and not value.is_constant:
                raise ValueError(f"after {after}: {node!r} reads {value!r} before it is made")
        _check_types(node, after)
        for value in node.outputs:
            if value.producer is not node or value in known:
                raise ValueError(f"after {after}: {value!r} has more than one producer")
        known.update(node.outputs)
    for name, value in zip(graph.output_names, graph.outputs):
        if value not in known and not value.is_constant:
            raise ValueError(f"after {after}: output {name} ({value!r}) is never made")
    if len(graph.outputs) != len(graph.output_names):
        raise ValueError(f"after {after}: {len(graph.outputs)} outputs have other names")


def _check_types(node: Node, after: str) -> None:
    types = [None if v is None else v.type for v in node.inputs]
    inferred = get_op(node.op).infer(types, dict(node.attrs))
    found = [v.type for v in node.outputs]
    if inferred != found:
        raise ValueError(
            f"after {after}: {node!r} has type {', '.join(map(str, found))}, "
            f"its inputs give {', '.join(map(str, inferred))}"
        )
