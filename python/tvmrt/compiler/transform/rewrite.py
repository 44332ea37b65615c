"""Traversal of a graph with a rule that replaces nodes; the basis of most passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvmrt.compiler.ir import Builder, Graph, Node, Value

Rule = Callable[[Builder, Node], "Sequence[Value] | Value | None"]


def rewrite(graph: Graph, rule: Rule) -> int:
    """Call ``rule`` for every node in order, with inputs that are already rewritten.

    The rule returns None to keep the node, or values that replace its outputs; nodes that it adds
    through the builder take the node's position. Return the number of replaced nodes.
    """
    fresh = Graph(graph.name)
    builder = Builder(fresh)
    mapping: dict[Value, Value] = {}
    count = 0
    for node in graph.nodes:
        node.inputs = [mapping.get(v, v) if v is not None else None for v in node.inputs]
        if node.guard is not None:
            node.guard = (mapping.get(node.guard[0], node.guard[0]), node.guard[1])
        builder.sources, builder.guard = node.sources, node.guard
        result = rule(builder, node)
        if result is None:
            fresh.nodes.append(node)
            continue
        count += 1
        values = [result] if isinstance(result, Value) else list(result)
        mapping.update(zip(node.outputs, values))
    graph.nodes = fresh.nodes
    graph.outputs = [mapping.get(v, v) for v in graph.outputs]
    return count
