"""Remove nodes that no output depends on, except checks of run-time operands against the values
that the network was compiled for. Unused inputs of the graph stay."""

from __future__ import annotations

from tvmrt.compiler.ir import Graph, get_op, walk_back


def remove_dead_code(graph: Graph) -> None:
    checks = [v for node in graph.nodes if get_op(node.op).has_side_effects for v in node.outputs]
    needed = walk_back([*graph.outputs, *checks])
    graph.nodes = [node for node in graph.nodes if node in needed]
