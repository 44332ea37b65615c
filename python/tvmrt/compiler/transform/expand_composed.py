"""Composed operators that no device takes whole give way to what they are made of.

Contract: every output keeps its value; the inner nodes stand where the node stood, named below it
and with its sources. Afterwards ``composed`` nodes are left only where somebody claims them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from tvmrt.compiler.ir import Builder, Graph, Node, Value
from tvmrt.compiler.ir.custom import copy_node

from .rewrite import rewrite


def expand_composed(
    graph: Graph, claim: Callable[[Graph], Collection[Node]] = lambda graph: ()
) -> int:
    """Expand in place; returns how many nodes gave way.

    ``claim`` gives the nodes to keep of the graph as it is; it is asked again about what was
    inside of an expanded one.
    """
    total = 0
    while True:
        kept = set(claim(graph)) if any(n.op == "composed" for n in graph.nodes) else set()

        def rule(builder: Builder, node: Node, kept: set[Node] = kept) -> list[Value] | None:
            return None if node.op != "composed" or node in kept else _inside(builder, node)

        count = rewrite(graph, rule)
        if not count:
            return total
        total += count


def _inside(builder: Builder, node: Node) -> list[Value]:
    """Copies of the inner nodes on the node's inputs; what stands for its outputs."""
    inside: Graph = node.attrs["graph"]
    here: dict[Value, Value] = dict(zip(inside.inputs, [v for v in node.inputs if v is not None]))
    for inner in inside.nodes:
        name = f"{node.name}/{inner.name}"
        builder.graph.nodes.append(copy_node(inner, here, name, node.sources, node.guard))
    return [here.get(v, v) for v in inside.outputs]
