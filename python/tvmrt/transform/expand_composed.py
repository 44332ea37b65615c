"""Composed operators that no device takes whole give way to what they are made of.

Contract: every output keeps its value; the inner nodes stand where the node stood, named below it
and with its sources. Afterwards ``composed`` nodes are left only where ``keep`` says so; those
inside of an expanded one are asked about as well.
"""

from __future__ import annotations

from collections.abc import Callable

from tvmrt.ir import Builder, Graph, Node, Value
from tvmrt.ir.custom import copy_node

from .rewrite import rewrite


def expand_composed(graph: Graph, keep: Callable[[Node], bool]) -> int:
    """Expand in place; returns how many nodes gave way."""

    def rule(builder: Builder, node: Node) -> list[Value] | None:
        if node.op != "composed" or keep(node):
            return None
        return _inside(builder, node)

    total = 0
    while count := rewrite(graph, rule):
        total += count
    return total


def _inside(builder: Builder, node: Node) -> list[Value]:
    """Copies of the inner nodes on the node's inputs; what stands for its outputs."""
    inside: Graph = node.attrs["graph"]
    here: dict[Value, Value] = dict(zip(inside.inputs, [v for v in node.inputs if v is not None]))
    for inner in inside.nodes:
        name = f"{node.name}/{inner.name}"
        builder.graph.nodes.append(copy_node(inner, here, name, node.sources, node.guard))
    return [here.get(v, v) for v in inside.outputs]
