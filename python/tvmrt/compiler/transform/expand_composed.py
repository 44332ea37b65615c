"""Expand composed operators that no device takes.

Contract: every output keeps its value. The inner nodes replace the node; their names are prefixed
with its name, and they have its sources. Only claimed ``composed`` nodes remain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from tvmrt.compiler.ir import Builder, Graph, Node, Value
from tvmrt.compiler.ir.custom import copy_node

from .rewrite import at, rewrite


def expand_composed(
    graph: Graph, claim: Callable[[Graph], Collection[Node]] = lambda graph: ()
) -> int:
    """Expand in place and return the number of expanded nodes.

    ``claim`` returns the nodes of a graph to keep. It is called again for the nodes inside an
    expanded one.
    """
    total = 0
    while True:
        claimed: set[Node] | None = None  # asked for only if there is a node to expand

        @at("composed")
        def rule(builder: Builder, node: Node) -> list[Value] | None:
            nonlocal claimed
            claimed = set(claim(graph)) if claimed is None else claimed
            return None if node in claimed else _copy_inner_nodes(builder, node)

        count = rewrite(graph, rule)
        if not count:
            return total
        total += count


def _copy_inner_nodes(builder: Builder, node: Node) -> list[Value]:
    """Copy the inner nodes with the node's inputs; return the replacements of its outputs."""
    inside: Graph = node.attrs["graph"]
    here: dict[Value, Value] = dict(zip(inside.inputs, [v for v in node.inputs if v is not None]))
    for inner in inside.nodes:
        name = f"{node.name}/{inner.name}"
        builder.graph.nodes.append(copy_node(inner, here, name, node.sources, node.guard))
    return [here.get(v, v) for v in inside.outputs]
