"""Which nodes of a graph are a layer together: one by itself, a product with what makes bytes of
its sums, a softmax between conversions, or what patterns.py has."""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.ir import Graph, Node, Value

from .patterns import find

ALONE = frozenset({"qadd", "qmul", "fixed_sum", "fixed_pair_product", "qmax_pool", "qavg_pool"})
PRODUCTS = frozenset({"qconv", "qmatmul"})
SCALES = frozenset({"fixed_scale", "float_scale"})
# Behind the scale of a product's sums, each at most once and in this order.
STEPS = (SCALES, {"add"}, {"max"}, {"min"}, {"cast"})


class Readers:
    """Who reads a value alone."""

    def __init__(self, graph: Graph) -> None:
        self._users = graph.consumers()
        self._outputs = set(graph.outputs)

    def is_closed(self, nodes: Sequence[Node]) -> bool:
        """Whether nobody else reads what these nodes give, but for the last one's result."""
        inside = set(nodes)
        for node in nodes[:-1]:
            for value in node.outputs:
                if value in self._outputs or not inside.issuperset(self._users.get(value, [])):
                    return False
        return True

    def next(self, node: Node) -> Node | None:
        """The node that reads this one's result, if it is the only one and nobody else does."""
        users = self._users.get(node.output, [])
        if len(node.outputs) != 1 or node.output in self._outputs or len(set(users)) != 1:
            return None
        return users[0]


def matches(graph: Graph) -> list[list[Node]]:
    """The nodes of each layer in order; no node is in two."""
    readers = Readers(graph)
    place = {node: i for i, node in enumerate(graph.nodes)}
    found, taken = [], set[Node]()
    for node in graph.nodes:
        composed = find(node)
        if composed is not None:
            nodes = sorted(composed.nodes, key=place.__getitem__)
            if readers.is_closed(nodes):
                found.append(nodes)
                taken.update(nodes)
    for node in graph.nodes:
        nodes = [] if node in taken else _layer(node, readers)
        if nodes and taken.isdisjoint(nodes):
            found.append(nodes)
            taken.update(nodes)
    return found


def _layer(node: Node, readers: Readers) -> list[Node]:
    if node.op in ALONE:
        return [node]
    if node.op in PRODUCTS:
        return [node] if node.attrs["to"] != "int32" else _with_steps(node, readers)
    if node.op == "dequantize":
        return _softmax(node, readers)
    return []


def _with_steps(node: Node, readers: Readers) -> list[Node]:
    """The product and what follows it up to the cast; the product alone where that is not there."""
    nodes, steps = [node], list(STEPS)
    while steps:
        behind = readers.next(nodes[-1])
        at = next((i for i, ops in enumerate(steps) if behind and behind.op in ops), None)
        if behind is None or at is None:
            return [node]
        nodes.append(behind)
        del steps[: at + 1]
    return nodes


def _softmax(node: Node, readers: Readers) -> list[Node]:
    middle = readers.next(node)
    last = readers.next(middle) if middle is not None else None
    if middle is None or last is None:
        return []
    return [node, middle, last] if (middle.op, last.op) == ("softmax", "quantize") else []


def other_operand(node: Node, value: Value) -> Value:
    """What a node of two operands reads beside this one."""
    a, b = node.inputs
    assert a is not None
    assert b is not None
    return b if a is value else a
