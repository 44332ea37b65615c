"""Extraction of regions from a graph.

``extract_region`` copies nodes into a new graph; ``insert_region`` then replaces them by one node.
Between the two the network is not changed, so a refused region costs nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from tvmrt.compiler.ir import Graph, Node, Region, TensorType, Value
from tvmrt.compiler.ir.custom import copy_node
from tvmrt.compiler.ir.dtype import DTYPES


def extract_region(
    graph: Graph, nodes: Sequence[Node], device: str, symbol: str, users: Mapping | None = None
) -> tuple[Region, list[Value], list[Value]]:
    """Return the region of these nodes, and the network's values that it reads and writes.

    ``users`` are the graph's consumers, if the caller has them.
    """
    users = graph.consumers() if users is None else users
    inside = set(nodes)
    produced = [v for node in nodes for v in node.outputs]
    own = set(produced)
    reads = list(
        dict.fromkeys(v for n in nodes for v in n.operands() if v not in own and not v.is_constant)
    )
    outputs = set(graph.outputs)
    writes = [v for v in produced if v in outputs or any(u not in inside for u in users.get(v, ()))]
    part = Graph(symbol)
    copies: dict[Value, Value] = {}
    for value in reads:
        copies[value] = Value(value.name, value.type)
        part.inputs.append(copies[value])
    part.nodes = [copy_node(node, copies) for node in nodes]
    part.outputs = [copies[v] for v in writes]
    part.output_names = [v.name for v in writes]
    sources = tuple(dict.fromkeys(s for node in nodes for s in node.sources))
    return Region(device, symbol, part, onnx_nodes=sources), reads, writes


def insert_region(
    graph: Graph,
    nodes: Sequence[Node],
    region: Region,
    reads: Sequence[Value],
    writes: Sequence[Value],
) -> Node:
    """Replace the nodes by the region; call ``sort_topologically`` afterwards to restore the
    order."""
    node = Node("region", list(reads), {"region": region}, region.name, region.onnx_nodes)
    node.set_outputs(writes)
    if region.reports_failure:
        node.outputs.append(Value(f"{region.name}_failed", TensorType((), DTYPES["bool"]), node))
    inside = set(nodes)
    index = next(i for i, n in enumerate(graph.nodes) if n in inside)
    after = [n for n in graph.nodes[index:] if n not in inside]
    graph.nodes = [*graph.nodes[:index], node, *after]
    return node


def sort_topologically(graph: Graph) -> None:
    """Sort the nodes topologically, with as few changes of the order as possible."""
    position = {node: i for i, node in enumerate(graph.nodes)}
    waits: dict[Node, int] = {}
    followers: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        before = {v.producer for v in node.operands() if v.producer is not None}
        waits[node] = len(before)
        for other in before:
            followers.setdefault(other, []).append(node)
    ready = [position[node] for node, count in waits.items() if count == 0]
    heapq.heapify(ready)
    nodes = graph.nodes
    ordered = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        ordered.append(node)
        for follower in followers.get(node, ()):
            waits[follower] -= 1
            if waits[follower] == 0:
                heapq.heappush(ready, position[follower])
    if len(ordered) != len(nodes):
        raise ValueError("the regions of the graph depend on each other cyclically")
    graph.nodes = ordered
