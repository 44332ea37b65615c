"""SSA check: every name of a network is defined once, and before it is read.

It is the beginning of the file gate; ``check_node`` and ``check_model`` follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx

from .tensors import subgraphs


def check_ssa_form(model: onnx.ModelProto) -> None:
    """Raise ValueError for a name that is defined twice, never, or in a cycle of nodes.

    ``sanitize_model`` has sorted the nodes and renamed repeated outputs.

    In ONNX, a nested graph must not redefine a name of an enclosing graph.
    """
    _check_graph(model.graph, set())
    for function in model.functions:
        where = f"function {function.name}"
        _require_unique(function.input, f"inputs of {where}")
        seen = set(function.input)
        _check_nodes(function.node, seen, {name: f"an input of {where}" for name in seen})
        _check_outputs(function.output, seen, where)


def label(node: onnx.NodeProto) -> str:
    """Return a node's description for errors; a node without a name gets one from its output."""
    return f"node {name_of(node)} ({node.op_type})"


def name_of(node: onnx.NodeProto) -> str:
    """Return a node's name, or one made of its operator and first output."""
    return node.name or f"{node.op_type}_{next((o for o in node.output if o), 'of_nothing')}"


def _check_graph(graph: onnx.GraphProto, outer: set[str]) -> None:
    where = f"graph {graph.name or 'without a name'}"
    weights = [tensor.name for tensor in graph.initializer]
    inputs = [info.name for info in graph.input]
    _require_unique(inputs, f"inputs of {where}")
    _require_unique(weights, f"weights of {where}")
    origins = dict.fromkeys(inputs, f"an input of {where}")
    origins.update(dict.fromkeys(weights, f"weights of {where}"))
    seen = outer | origins.keys()
    _check_nodes(graph.node, seen, origins)
    _check_outputs([info.name for info in graph.output], seen, where)


def _require_unique(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"two {what} are named {name}; give each a name of its own")
        seen.add(name)


def _check_outputs(outputs: Iterable[str], seen: set[str], where: str) -> None:
    for name in outputs:
        if name not in seen:
            raise ValueError(
                f"output {name} of {where} is not produced by any node; export the model again"
            )


def _check_nodes(nodes: Sequence[onnx.NodeProto], seen: set[str], origins: dict[str, str]) -> None:
    """Check nodes. ``seen``: all visible names; ``origins``: origins of this graph's names."""
    for node in nodes:
        for key in node.input:
            if key and key not in seen:
                raise ValueError(_undefined_name_text(node, key, nodes))
        for inner in subgraphs(node):
            _check_graph(inner, seen)
        for key in filter(None, node.output):
            if key in seen:
                origin = origins.get(key, "a tensor of the enclosing graph")
                raise ValueError(
                    f"{label(node)} produces {key}, which is already {origin}; tensor names must "
                    "be unique"
                )
            seen.add(key)
            origins[key] = f"produced by {label(node)}"


def _undefined_name_text(node: onnx.NodeProto, key: str, nodes: Sequence[onnx.NodeProto]) -> str:
    """Return the error text for a node that reads a name not defined before it.

    ``sanitize_model`` has sorted the nodes, so a producer further down means a cycle.
    """
    producer = next((other for other in nodes if key in other.output), None)
    if producer is None:
        return f"{label(node)} reads {key}, which no earlier node produces; export the model again"
    return (
        f"{label(node)} reads {key}, which {label(producer)} produces: the nodes form a cycle; "
        "export the model again"
    )
