"""Who reads the values of a graph: its nodes, and the caller for its results."""

from __future__ import annotations

from collections.abc import Container

from .graph import Graph, Node, Value


class Readers:
    """As the graph is when this is made; values that are made later have none."""

    def __init__(self, graph: Graph) -> None:
        self._nodes = graph.consumers()
        self._results = set(graph.outputs)

    def of(self, value: Value) -> list[Node]:
        """The nodes, in order, each once."""
        return self._nodes.get(value, [])

    def by_caller(self, value: Value) -> bool:
        """Whether it is a result of the graph."""
        return value in self._results

    def only(self, value: Value) -> Node | None:
        """The node that reads it, if nobody else does."""
        nodes = self.of(value)
        return nodes[0] if len(nodes) == 1 and not self.by_caller(value) else None

    def are_several(self, value: Value) -> bool:
        """Whether more than one node reads it, or the caller does."""
        return self.by_caller(value) or len(self.of(value)) > 1

    def are_among(self, value: Value, nodes: Container[Node]) -> bool:
        """Whether nobody but these reads it."""
        return not self.by_caller(value) and all(node in nodes for node in self.of(value))

    def move(self, value: Value, to: Value) -> None:
        """Those of one value read another one instead, which nobody else reads."""
        self._nodes[to] = self.of(value)
        if self.by_caller(value):
            self._results.add(to)
