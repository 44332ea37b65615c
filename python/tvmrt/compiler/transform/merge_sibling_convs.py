"""Merge convolutions with few channels and the same input into one with sliced results.

Heads of detectors have them: one channel for a score, four for a box. Each takes as long as a full
vector of channels. Depthwise layers after them, each on a slice of the result, are merged too.
Contract: bit-equal except for the order of sums. Readers of the results do not get slower: only
views and depthwise layers may read them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvmrt.compiler.ir import VIEW, Builder, Graph, Node, Value
from tvmrt.compiler.ir.view import slice_of

from .crop_windows import WINDOW_ATTRIBUTES
from .rewrite import rewrite

MAX_CHANNELS = 16  # channels; fewer leave a host's vector partly unused

Family = list[Node]


def merge_sibling_convs(graph: Graph, hosted: bool) -> None:
    """Merge in place if ``hosted``. On boards slices would cost more than partly filled vectors."""
    for find in (_dense, _depthwise) if hosted else ():
        families = find(graph)
        merged: dict[Node, Value] = {}
        first = {family[0]: family for family in families}

        def joined(b: Builder, node: Node, first=first, merged=merged) -> Value | None:
            if node in first:
                merged.update(zip(first[node], _merge(b, first[node])))
            return merged.get(node)

        if families:
            rewrite(graph, joined)


def _is_mergeable(node: Node) -> bool:
    """Return whether a node is a convolution with fixed sizes, constant weights and few results."""
    if node.op != "conv" or node.guard is not None:
        return False
    shapes = (*node.inputs[0].shape, *node.output.shape)
    constants = all(v is not None and v.is_constant and not v.keeps_layout for v in node.inputs[1:])
    return (
        constants
        and all(isinstance(n, int) for n in shapes)
        and node.output.shape[1] < MAX_CHANNELS
    )


def _is_depthwise(node: Node) -> bool:
    """Return whether a convolution is depthwise, including one with a single channel."""
    w = node.inputs[1]
    return w.shape[1] == 1 and node.attrs["groups"] == w.shape[0] == node.inputs[0].shape[1]


def _window(node: Node) -> tuple:
    kernel = tuple(node.inputs[1].shape[2:])
    return (kernel, *(tuple(node.attrs[name]) for name in WINDOW_ATTRIBUTES), len(node.inputs))


def _dense(graph: Graph) -> list[Family]:
    """Return groups of convolutions that read the same tensor through the same window."""
    consumers, families = graph.consumers(), {}
    for node in graph.nodes:
        if (
            not _is_mergeable(node)
            or node.attrs["groups"] != 1
            or node.inputs[0].shape[1] < MAX_CHANNELS
        ):
            continue
        readers = consumers.get(node.output, [])
        views = all(
            r.operator.kind == VIEW or (_is_mergeable(r) and _is_depthwise(r)) for r in readers
        )
        if views and node.output not in graph.outputs:
            families.setdefault((node.inputs[0], _window(node)), []).append(node)
    return [family for family in families.values() if len(family) > 1]


def _depthwise(graph: Graph) -> list[Family]:
    """Return groups of depthwise convolutions that read slices of one tensor, in order."""
    families: dict[tuple, Family] = {}
    for node in graph.nodes:
        part = slice_of(node.inputs[0]) if _is_mergeable(node) else None
        if part is None or not _is_depthwise(node):
            continue
        of, attrs = part.inputs[0].shape, part.attrs
        sizes = (*attrs["sizes"][:1], *attrs["sizes"][2:])
        if (
            (*of[:1], *of[2:]) == sizes
            and set(attrs["steps"]) == {1}
            and node.output.shape[1] < MAX_CHANNELS
        ):
            families.setdefault((part.inputs[0], _window(node)), []).append(node)
    return [family for (x, _), family in families.items() if _covers(family, x)]


def _covers(family: Family, x: Value) -> bool:
    end = 0
    for node in family:
        attrs = node.inputs[0].producer.attrs
        if attrs["starts"][1] != end:
            return False
        end += attrs["sizes"][1]
    return len(family) > 1 and end == x.shape[1]


def _merge(b: Builder, family: Sequence[Node]) -> list[Value]:
    """Emit one convolution for several; return the result of each."""
    first, depthwise = family[0], _is_depthwise(family[0])
    x = first.inputs[0].producer.inputs[0] if depthwise else first.inputs[0]
    constants = [
        b.const(np.concatenate([node.inputs[i].data for node in family]), first.inputs[i].name)
        for i in range(1, len(first.inputs))
    ]
    b.sources = tuple(dict.fromkeys(name for node in family for name in node.sources))
    attrs = {**first.attrs, "groups": x.shape[1] if depthwise else 1}
    merged = b.emit("conv", [x, *constants], first.name, **attrs)
    results, start = [], 0
    for node in family:
        shape = node.output.shape
        begin = [0, start, *[0] * (len(shape) - 2)]
        b.sources = node.sources
        more = {"starts": tuple(begin), "steps": (1,) * len(shape), "sizes": tuple(shape)}
        results.append(b.emit("slice", [merged], node.name, **more))
        start += shape[1]
    return results
