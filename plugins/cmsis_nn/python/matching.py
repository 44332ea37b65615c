"""Match nodes of a graph that form a layer: a single node, or a matmul with its requantisation."""

from __future__ import annotations

from tvmrt.compiler.sdk.graph import Graph, Node, Value, ValueUsers

SINGLE_NODE_OPS = frozenset({"qadd", "qmul", "fixed_sum", "fixed_pair_product"})
SCALES = frozenset({"fixed_scale", "float_scale"})
# Nodes after the scale of a matmul's sums, each at most once and in this order.
REQUANTIZE_STEPS = (SCALES, {"add"}, {"max"}, {"min"}, {"cast"})


def find_row_layers(graph: Graph) -> list[list[Node]]:
    """Return the nodes of each layer in order; no node is in two layers."""
    readers = ValueUsers(graph)
    found, taken = [], set[Node]()
    for node in graph.nodes:
        nodes = [] if node in taken else _layer(node, readers)
        if nodes and taken.isdisjoint(nodes):
            found.append(nodes)
            taken.update(nodes)
    return found


def _sole_reader(node: Node, readers: ValueUsers) -> Node | None:
    """Return the only node that reads this node's result, or None."""
    return readers.only(node.output) if len(node.outputs) == 1 else None


def _layer(node: Node, readers: ValueUsers) -> list[Node]:
    if node.op in SINGLE_NODE_OPS:
        return [node]
    if node.operator.is_integer_product and node.operator.weights is not None:
        return [node] if node.attrs["to"] != "int32" else _with_requantization(node, readers)
    return []


def _with_requantization(node: Node, readers: ValueUsers) -> list[Node]:
    """Return the matmul and its requantisation up to the cast; without one, only the matmul."""
    nodes, steps = [node], list(REQUANTIZE_STEPS)
    while steps:
        reader = _sole_reader(nodes[-1], readers)
        at = next((i for i, ops in enumerate(steps) if reader and reader.op in ops), None)
        if reader is None or at is None:
            return [node]
        nodes.append(reader)
        del steps[: at + 1]
    return nodes


def other_operand(node: Node, value: Value) -> Value:
    """Return the other operand of a node with two operands."""
    a, b = node.inputs
    assert a is not None
    assert b is not None
    return b if a is value else a
