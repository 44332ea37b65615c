"""CPU code in addition to each region, for devices that may fail at run time.

A region has one more output that indicates failure. Copies of the nodes that it stands for follow,
guarded by it, and a select between the two results. Constants that the device's module holds
unchanged are read there by the CPU's code, if possible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvmrt.compiler.ir import Graph, ModuleBlob, Node, Region, Value, digest_of
from tvmrt.compiler.ir.custom import copy_node


def add_fallbacks(graph: Graph, replaced: Mapping[Node, Sequence[Node]]) -> None:
    """Add CPU code to an ordered graph. ``replaced``: the nodes that each region node stands for.

    Readers of a region's result get the result of the code that has run.
    """
    chosen: dict[Value, Value] = {}
    for region in [node for node in graph.nodes if node in replaced]:
        failed, results = region.outputs[-1], region.outputs[:-1]
        _keep_constants(region.attrs["region"], replaced[region])
        copies = dict(chosen)
        added = [copy_node(n, copies, guard=(failed, True)) for n in replaced[region]]
        choices_of = {}
        for value in results:
            choice = Node("where", [failed, copies[value], value], {}, value.name, region.sources)
            choice.outputs = [Value(value.name, value.type, choice)]
            choices_of[value] = choice.output
        graph.replace_many(choices_of)
        chosen.update(choices_of)
        index = graph.nodes.index(region) + 1
        choices = [v.producer for v in choices_of.values()]
        graph.nodes[index:index] = [*added, *choices]


def _keep_constants(region: Region, nodes: Sequence[Node]) -> None:
    """Mark the constants of the nodes that the region's module holds."""
    digests = region.code.constants if isinstance(region.code, ModuleBlob) else {}
    for value in {v for node in nodes for v in node.operands() if digests and v.is_constant}:
        value.keeps_layout = value.keeps_layout or digest_of(value.data) in digests
