"""Operands that a kernel cannot read where they lie: constants in the place of a tensor, and one
tensor as two operands that must lie in different orders."""

from __future__ import annotations

from collections.abc import Callable

from tvmrt.compiler.ir import Graph, Node, Value

from .lowering import ImageLowering, Lowering


def copy_operands(graph: Graph, lowering_of: Callable[[Node], type[Lowering] | None]) -> None:
    """Put a node that copies before each node whose kernel cannot read an operand.

    Kernels count on what they work on lying in memory; weights are packed by their lowerings, which
    say in ``in_memory`` what they do not pack.
    """
    copies: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        for i in _unreadable(node, lowering_of(node)):
            value = node.inputs[i]
            if value not in copies:
                copies[value] = _copied(value, node, nodes)
            node.inputs[i] = copies[value]
        nodes.append(node)
    graph.nodes[:] = nodes


def _unreadable(node: Node, lowering: type[Lowering] | None) -> list[int]:
    """Positions of operands that must be copied."""
    if lowering is None:
        return []
    given = {i: value for i, value in enumerate(node.inputs) if value is not None}
    found = [i for i in lowering.in_memory if i in given and given[i].is_constant]
    if issubclass(lowering, ImageLowering):  # channels innermost, and the other operands dense
        found += [i for i, value in given.items() if i > 0 and value is given.get(0)]
    return found


def _copied(value: Value, node: Node, nodes: list[Node]) -> Value:
    name = f"{value.name}_copy"
    copy = Node("identity", [value], {}, name, node.sources)
    copy.outputs = [Value(name, value.type, copy)]
    nodes.append(copy)
    return copy.output
