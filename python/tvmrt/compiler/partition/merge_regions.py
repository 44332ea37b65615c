"""Merge adjacent nodes of one device to regions of maximum size.

Contract: every region is convex: no path leaves it and returns, so regions and other nodes can run
one after the other. Reachability is stored as bit sets over the current groups; a merge is refused
exactly if there is a path through another group between the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvmrt.compiler.ir import Graph, Node
from tvmrt.compiler.ir.value_users import ValueUsers


def merge(
    graph: Graph,
    device: Mapping[Node, str],
    atoms: Sequence[Sequence[Node]],
    group_numbers: Mapping[Node, int] | None = None,
    max_nodes: Mapping[str, int] | None = None,
) -> list[list[Node]]:
    """Return the regions, each its nodes in order, in the order of their first nodes.

    Parameters
    ----------
    atoms
        Chains that are never split.
    wishes
        Group numbers: nodes of a device with different numbers are in different regions, nodes
        with the same number in one region unless other nodes are between them.
    most
        Maximum number of nodes of a region by device; longer chains are one region.
    """
    groups = _Groups(graph)
    group_numbers, max_nodes = group_numbers or {}, max_nodes or {}
    position = {node: i for i, node in enumerate(graph.nodes)}
    for chain in atoms:
        for a, b in zip(chain, chain[1:]):
            groups.merge(position[a], position[b])
    edges = [
        (position[value.producer], i)
        for i, node in enumerate(graph.nodes)
        if node in device
        for value in node.operands()
        if value.producer is not None
        and device.get(value.producer) == device[node]
        and group_numbers.get(value.producer) == group_numbers.get(node)
    ]
    edges += _pairs_of_groups(device, group_numbers, position)
    limits = [max_nodes.get(device[graph.nodes[b]]) for _, b in edges]
    merged = True
    while merged:  # a group between two others may have joined one of them in the meantime
        merged = any([groups.merge(a, b, limit) for (a, b), limit in zip(edges, limits)])
    members: dict[int, list[Node]] = {}
    for i, node in enumerate(graph.nodes):
        if node in device:
            members.setdefault(groups.find(i), []).append(node)
    return list(members.values())


def _pairs_of_groups(device, group_numbers, position) -> list[tuple[int, int]]:
    """Return pairs of nodes of one group, whether or not one reads the other."""
    last: dict[tuple[str, int], int] = {}
    pairs = []
    for node in sorted((n for n in device if n in group_numbers), key=position.__getitem__):
        key = device[node], group_numbers[node]
        if key in last:
            pairs.append((last[key], position[node]))
        last[key] = position[node]
    return pairs


def split_by_result(graph: Graph, nodes: Sequence[Node]) -> list[list[Node]]:
    """Split a region into parts with one result each, with all nodes that only this result needs.

    A part is convex, because each path out of it goes through its result.
    """
    readers = ValueUsers(graph)
    piece: dict[Node, Node] = {}  # the node that computes the result
    for node in reversed(nodes):
        pieces = {piece.get(u) for v in node.outputs for u in readers.of(v)}
        alone = len(pieces) == 1 and None not in pieces
        leaves = any(map(readers.is_graph_output, node.outputs))
        piece[node] = pieces.pop() if alone and not leaves else node
    parts: dict[Node, list[Node]] = {}
    for node in nodes:
        parts.setdefault(piece[node], []).append(node)
    return list(parts.values())


class _Groups:
    """Disjoint groups of nodes. For each group bit sets of node numbers: its members, its
    predecessors and its successors, where a group counts as one node."""

    def __init__(self, graph: Graph) -> None:
        position = {node: i for i, node in enumerate(graph.nodes)}
        producers = [
            {position[v.producer] for v in node.operands() if v.producer is not None}
            for node in graph.nodes
        ]
        self._parent = list(range(len(graph.nodes)))
        self._members = [1 << i for i in range(len(graph.nodes))]
        self._above = [0] * len(graph.nodes)
        self._below = [0] * len(graph.nodes)
        for i, above in enumerate(producers):
            for j in above:
                self._above[i] |= self._above[j] | 1 << j
        for i in reversed(range(len(graph.nodes))):
            for j in producers[i]:
                self._below[j] |= self._below[i] | 1 << i

    def find(self, i: int) -> int:
        while self._parent[i] != i:
            self._parent[i] = self._parent[self._parent[i]]
            i = self._parent[i]
        return i

    def merge(self, i: int, j: int, max_nodes: int | None = None) -> bool:
        """Merge the groups of two nodes if none is between, up to ``max_nodes`` nodes."""
        a, b = self.find(i), self.find(j)
        both = self._members[a] | self._members[b]
        between = self._below[a] & self._above[b] | self._below[b] & self._above[a]
        if (
            a == b
            or between & ~both
            or (max_nodes is not None and bin(both).count("1") > max_nodes)
        ):
            return False
        # update the predecessors and successors that only one of the groups had
        only_above = (self._above[a] ^ self._above[b]) & ~both
        only_below = (self._below[a] ^ self._below[b]) & ~both
        self._parent[b] = a
        self._members[a] = both
        self._above[a] = (self._above[a] | self._above[b]) & ~both
        self._below[a] = (self._below[a] | self._below[b]) & ~both
        for root in {self.find(x) for x in _bits(only_above)}:
            self._below[root] |= self._below[a] | both
        for root in {self.find(y) for y in _bits(only_below)}:
            self._above[root] |= self._above[a] | both
        return True


def _bits(mask: int):
    """Return the numbers of the bits that are set."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
