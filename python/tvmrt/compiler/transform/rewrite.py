"""Traversal of a graph with a rule that replaces nodes; the basis of most passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps

from tvmrt.compiler.ir import Builder, Graph, Node, Trait, Value

Rule = Callable[..., "Sequence[Value] | Value | None"]  # of a builder and a node


def at(*roots: str | Trait, source: str = "") -> Callable[[Rule], Rule]:
    """Decorate a rule: it is called only for nodes with one of these operators or traits.

    With ``source`` only if that operator computes the first operand of the node; the rule gets its
    node as the third argument.
    """
    names = {root for root in roots if isinstance(root, str)}
    traits = [root for root in roots if isinstance(root, Trait)]

    def decorate(rule: Rule) -> Rule:
        @wraps(rule)
        def selected(b: Builder, node: Node, *more):
            if node.op not in names and not node.has(*traits):
                return None
            if not source:
                return rule(b, node, *more)
            producer = node.inputs[0].producer if node.inputs and node.inputs[0] else None
            if producer is None or producer.op != source:
                return None
            return rule(b, node, producer, *more)

        return selected

    return decorate


def first_of(*rules: Rule) -> Rule:
    """Return a rule that applies the first of several that replaces a node."""

    def rule(b: Builder, node: Node, *more):
        results = (each(b, node, *more) for each in rules)
        return next((result for result in results if result is not None), None)

    return rule


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
