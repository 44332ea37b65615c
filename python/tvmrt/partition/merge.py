"""Neighbours on one device become regions, as large as they can be.

Contract: every region is convex: no path leaves it and comes back, so that regions and the rest
can run one after the other. Reachability is kept as bit sets over the groups of the moment; a merge
is refused exactly when something lies between the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvmrt.ir import Graph, Node


def merge(
    graph: Graph, device: Mapping[Node, str], atoms: Sequence[Sequence[Node]]
) -> list[list[Node]]:
    """The regions, each its nodes in order; regions in the order of their first nodes.

    Chains in ``atoms`` are never cut.
    """
    groups = _Groups(graph)
    position = {node: i for i, node in enumerate(graph.nodes)}
    for chain in atoms:
        for a, b in zip(chain, chain[1:]):
            groups.merge(position[a], position[b])
    edges = [
        (position[value.producer], i)
        for i, node in enumerate(graph.nodes)
        if node in device
        for value in node.operands()
        if value.producer is not None and device.get(value.producer) == device[node]
    ]
    merged = True
    while merged:  # what lay between two groups may have joined one of them since
        merged = any([groups.merge(a, b) for a, b in edges])
    members: dict[int, list[Node]] = {}
    for i, node in enumerate(graph.nodes):
        if node in device:
            members.setdefault(groups.find(i), []).append(node)
    return list(members.values())


def single_results(graph: Graph, nodes: Sequence[Node]) -> list[list[Node]]:
    """A region cut into pieces of one result each, with all that only that result needs.

    A piece is convex, as every way out of it leads through its result.
    """
    users = graph.consumers()
    outputs = set(graph.outputs)
    piece: dict[Node, Node] = {}  # the node that gives the result
    for node in reversed(nodes):
        readers = {piece.get(u) for v in node.outputs for u in users.get(v, ())}
        alone = len(readers) == 1 and None not in readers
        leaves = any(v in outputs for v in node.outputs)
        piece[node] = readers.pop() if alone and not leaves else node
    found: dict[Node, list[Node]] = {}
    for node in nodes:
        found.setdefault(piece[node], []).append(node)
    return list(found.values())


class _Groups:
    """Disjoint groups of nodes, by number, with what lies above and below each."""

    def __init__(self, graph: Graph) -> None:
        position = {node: i for i, node in enumerate(graph.nodes)}
        self._parent = list(range(len(graph.nodes)))
        self._above = [0] * len(graph.nodes)
        self._below = [0] * len(graph.nodes)
        for i, node in enumerate(graph.nodes):
            for value in node.operands():
                if value.producer is not None:
                    above = position[value.producer]
                    self._above[i] |= self._above[above] | 1 << above
        for i, node in reversed(list(enumerate(graph.nodes))):
            for value in node.operands():
                if value.producer is not None:
                    self._below[position[value.producer]] |= self._below[i] | 1 << i

    def find(self, i: int) -> int:
        while self._parent[i] != i:
            self._parent[i] = self._parent[self._parent[i]]
            i = self._parent[i]
        return i

    def merge(self, i: int, j: int) -> bool:
        """Join the groups of two nodes, the first above the second, if nothing lies between."""
        a, b = self.find(i), self.find(j)
        if a == b or self._below[a] & self._above[b]:
            return False
        both = 1 << a | 1 << b
        self._parent[b] = a
        self._above[a] = (self._above[a] | self._above[b]) & ~both
        self._below[a] = (self._below[a] | self._below[b]) & ~both
        for x in _bits(self._above[a]):
            self._below[x] = (self._below[x] | self._below[a] | 1 << a) & ~(1 << b)
        for x in _bits(self._below[a]):
            self._above[x] = (self._above[x] | self._above[a] | 1 << a) & ~(1 << b)
        return True


def _bits(mask: int):
    """The numbers of the bits that are set."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
