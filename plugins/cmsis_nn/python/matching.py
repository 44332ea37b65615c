"""Match nodes of a graph that form a layer: a single node, a matmul with its requantisation, a
softmax between conversions, or a pattern (tvmrt.compiler.transform.patterns)."""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.sdk.graph import Graph, Node, Value, ValueUsers, find_pattern

SINGLE_NODE_OPS = frozenset(
    {"qadd", "qmul", "fixed_sum", "fixed_pair_product", "qmax_pool", "qavg_pool"}
)
SCALES = frozenset({"fixed_scale", "float_scale"})
# Nodes after the scale of a matmul's sums, each at most once and in this order.
REQUANTIZE_STEPS = (SCALES, {"add"}, {"max"}, {"min"}, {"cast"})


def find_row_layers(graph: Graph) -> list[list[Node]]:
    """Return the nodes of each layer in order; no node is in two layers."""
    readers = ValueUsers(graph)
    index = {node: i for i, node in enumerate(graph.nodes)}
    found, taken = [], set[Node]()
    for node in graph.nodes:
        composed = find_pattern(node)
        if composed is not None:
            nodes = sorted(composed.nodes, key=index.__getitem__)
            if _is_closed(nodes, readers):
                found.append(nodes)
                taken.update(nodes)
    for node in graph.nodes:
        nodes = [] if node in taken else _layer(node, readers)
        if nodes and taken.isdisjoint(nodes):
            found.append(nodes)
            taken.update(nodes)
    return found


def _is_closed(nodes: Sequence[Node], readers: ValueUsers) -> bool:
    """Return whether only the last node's result is read by other nodes."""
    return all(readers.all_within(v, nodes) for node in nodes[:-1] for v in node.outputs)


def _sole_reader(node: Node, readers: ValueUsers) -> Node | None:
    """Return the only node that reads this node's result, or None."""
    return readers.only(node.output) if len(node.outputs) == 1 else None


def _layer(node: Node, readers: ValueUsers) -> list[Node]:
    if node.op in SINGLE_NODE_OPS:
        return [node]
    if node.operator.is_integer_product and node.operator.weights is not None:
        return [node] if node.attrs["to"] != "int32" else _with_requantization(node, readers)
    if node.op == "dequantize":
        return _softmax(node, readers)
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


def _softmax(node: Node, readers: ValueUsers) -> list[Node]:
    middle = _sole_reader(node, readers)
    last = _sole_reader(middle, readers) if middle is not None else None
    if middle is None or last is None:
        return []
    return [node, middle, last] if (middle.op, last.op) == ("softmax", "quantize") else []


def other_operand(node: Node, value: Value) -> Value:
    """Return the other operand of a node with two operands."""
    a, b = node.inputs
    assert a is not None
    assert b is not None
    return b if a is value else a
