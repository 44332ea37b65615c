"""Remove nodes that no output depends on. Inputs of the graph stay, used or not."""

from __future__ import annotations

from tvmrt.ir import Graph, walk_back


def remove_dead_code(graph: Graph) -> None:
    needed = walk_back(graph.outputs)
    graph.nodes = [node for node in graph.nodes if node in needed]
