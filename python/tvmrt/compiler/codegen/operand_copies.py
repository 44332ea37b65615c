"""Copy operands that a kernel cannot read in place: constants used as tensors, and one tensor used
as two operands with different layouts."""

from __future__ import annotations

from collections.abc import Callable

from tvmrt.compiler.ir import Graph, Node, Value

from .lowering import ImageLowering, Lowering


def insert_operand_copies(
    graph: Graph, lowering_of: Callable[[Node], type[Lowering] | None]
) -> None:
    """Insert a copy before each node whose kernel cannot read an operand.

    Kernels expect their tensors in memory. Weights are packed by the lowering, which lists the
    operands that it does not pack in ``in_memory``.
    """
    copies: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        for i in _unreadable(node, lowering_of(node)):
            value = node.inputs[i]
            if value not in copies:
                copies[value] = _insert_copy(value, node, nodes)
            node.inputs[i] = copies[value]
        nodes.append(node)
    graph.nodes[:] = nodes


def _unreadable(node: Node, lowering: type[Lowering] | None) -> list[int]:
    """Return the indices of operands that must be copied."""
    if lowering is None:
        return []
    operands = {i: value for i, value in enumerate(node.inputs) if value is not None}
    constant_operands = [i for i in lowering.in_memory if i in operands and operands[i].is_constant]
    if issubclass(lowering, ImageLowering):  # channels last; its other operands are dense
        constant_operands += [
            i for i, value in operands.items() if i > 0 and value is operands.get(0)
        ]
    return constant_operands


def _insert_copy(value: Value, node: Node, nodes: list[Node]) -> Value:
    name = f"{value.name}_copy"
    copy = Node("identity", [value], {}, name, node.sources)
    copy.outputs = [Value(name, value.type, copy)]
    nodes.append(copy)
    return copy.output
