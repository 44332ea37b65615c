"""Remove nodes that no output depends on, but for those that hold a run's operands against what the
network was compiled for. Inputs of the graph stay, used or not."""

from __future__ import annotations

from tvmrt.compiler.ir import Graph, get_op, walk_back


def remove_dead_code(graph: Graph) -> None:
    checks = [v for node in graph.nodes if get_op(node.op).stays for v in node.outputs]
    needed = walk_back([*graph.outputs, *checks])
    graph.nodes = [node for node in graph.nodes if node in needed]
