"""Inlining of a model's own functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter

import onnx
from onnx.inliner import inline_local_functions

from tvmrt.compiler.ir.limits import MAX_UNROLLED_NODES

from .unroll_limits import UnrollBudget

MAX_DEPTH = 64  # maximum nesting of calls: the inliner of the onnx package recurses

_Key = tuple[str, str]


def inline_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model without functions. It is returned unchanged if it has none, if they are
    recursive, or if they expand to too many nodes."""
    functions = {(f.domain, f.name): f for f in model.functions}
    calls = {key: set(_called_functions(f.node, functions.keys())) for key, f in functions.items()}
    depth: dict[_Key, int] = {}
    try:
        for key in TopologicalSorter(calls).static_order():
            depth[key] = 1 + max((depth[other] for other in calls[key]), default=0)
    except CycleError:
        return model
    deepest = max(depth.values(), default=0)
    if not 0 < deepest <= MAX_DEPTH:
        return model
    if UnrollBudget(functions).size(model.graph.node) > MAX_UNROLLED_NODES:
        return model
    try:
        return inline_local_functions(model)
    except Exception:  # damaged functions: the importer reports the node
        return model


def _called_functions(nodes: Iterable[onnx.NodeProto], known: Iterable[_Key]) -> Iterator[_Key]:
    """Yield the functions that nodes call, including calls in subgraphs."""
    for node in nodes:
        if (node.domain, node.op_type) in known:
            yield node.domain, node.op_type
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _called_functions(attribute.g.node, known)
