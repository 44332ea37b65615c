"""Common subexpression elimination."""

from __future__ import annotations

from typing import Any

from tvmrt.compiler.ir import Graph, Value
from tvmrt.compiler.ir.value_numbering import freeze


def eliminate_common_subexpressions(graph: Graph) -> None:
    """Keep the first of equal nodes; it takes over the source names of the others."""
    seen: dict[tuple, Any] = {}
    constants: dict[tuple, Value] = {}
    mapping: dict[Value, Value] = {}
    unique_nodes = []
    for node in graph.nodes:
        node.inputs = [_canonical(v, mapping, constants) for v in node.inputs]
        if node.guard is not None:
            node.guard = (_canonical(node.guard[0], mapping, constants), node.guard[1])
        key = (node.op, tuple(map(id, node.inputs)), freeze(node.attrs), _guard(node))
        first = seen.get(key)
        if first is None:
            seen[key] = node
            unique_nodes.append(node)
            continue
        first.sources = tuple(dict.fromkeys((*first.sources, *node.sources)))
        mapping.update(zip(node.outputs, first.outputs))
    graph.nodes = unique_nodes
    graph.outputs = [mapping.get(v, v) for v in graph.outputs]


def _guard(node) -> tuple | None:
    return None if node.guard is None else (id(node.guard[0]), node.guard[1])


def _canonical(value, mapping, constants) -> Value | None:
    """Return the representative of a value; small equal constants share one."""
    if value is None:
        return None
    value = mapping.get(value, value)
    if value.data is None or value.type.nbytes > 4096:
        return value
    key = (value.dtype.name, value.shape, value.data.tobytes())
    return constants.setdefault(key, value)
