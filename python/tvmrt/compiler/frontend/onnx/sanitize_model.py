"""Repair deviations from the ONNX standard that exporters write and other runtimes accept."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence

import onnx

from tvmrt.compiler.frontend.dims import unused_name
from tvmrt.compiler.operator_key import domain_of

from .tensors import captured_names, dense, graphs, nodes, replace_nodes, subgraphs

# Exporters write these names for unknown extents; two such dimensions may differ.
UNNAMED_EXTENTS = ("?", "*", "-1")


def sanitize_model(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model, or a repaired copy if it needs a repair.

    In the copy ONNX's own domain is always "", sparse weights are dense, every node name is unique,
    negative and unnamed extents are cleared, and nodes are sorted topologically. Every output has a
    name of its own: an output that is listed a second time is a copy named after the first with a
    number appended. A model whose nodes form a cycle keeps their order; ``check_ssa_form`` reports
    the cycle. Raises ValueError for contradictory sparse weights.
    """
    repairs = [repair for is_needed, repair in _REPAIRS if is_needed(model)]
    if not repairs:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for repair in repairs:
        repair(copy)
    return copy


def _with_domain(
    model: onnx.ModelProto,
) -> Iterator[onnx.NodeProto | onnx.FunctionProto | onnx.OperatorSetIdProto]:
    yield from nodes(model)
    for holder in (model, *model.functions):
        yield from holder.opset_import
    yield from model.functions


def _replace_domain_alias(model: onnx.ModelProto) -> None:
    for each in _with_domain(model):
        each.domain = domain_of(each.domain)


def _make_weights_dense(model: onnx.ModelProto) -> None:
    for graph in graphs(model):
        graph.initializer.extend(dense(sparse) for sparse in graph.sparse_initializer)
        del graph.sparse_initializer[:]


def _node_lists(model: onnx.ModelProto) -> Iterator[Sequence[onnx.NodeProto]]:
    yield from (graph.node for graph in graphs(model))
    yield from (function.node for function in model.functions)


def _nodes_with_repeated_name(node_list: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
    first: dict[str, onnx.NodeProto] = {}
    return [n for n in node_list if n.name and first.setdefault(n.name, n) is not n]


def _rename_repeated_nodes(model: onnx.ModelProto) -> None:
    for node_list in _node_lists(model):
        taken = {node.name for node in node_list}
        numbers: dict[str, int] = {}
        for node in _nodes_with_repeated_name(node_list):
            node.name = unused_name(node.name, taken.__contains__, numbers)
            taken.add(node.name)


def _unnamed_extents(model: onnx.ModelProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    graph = model.graph
    for info in (*graph.input, *graph.output, *graph.value_info):
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_value < 0 or dim.dim_param in UNNAMED_EXTENTS:
                yield dim


def _clear_unnamed_extents(model: onnx.ModelProto) -> None:
    for dim in _unnamed_extents(model):
        dim.Clear()


def _is_sorted(node_list: Sequence[onnx.NodeProto]) -> bool:
    pending = {name for node in node_list for name in node.output if name}
    for node in node_list:
        if any(name in pending for name in _names_read(node)):
            return False
        pending.difference_update(node.output)
    return True


def _sort_nodes(model: onnx.ModelProto) -> None:
    for node_list in _node_lists(model):
        order = _topological_order(node_list)
        if order is not None and order != sorted(order):
            replace_nodes(node_list, [node_list[index] for index in order])


def _topological_order(node_list: Sequence[onnx.NodeProto]) -> list[int] | None:
    """Return node indices in topological order, nearest to the order of the file.

    None if the nodes form a cycle.
    """
    producers = {name: i for i, node in enumerate(node_list) for name in node.output if name}
    readers: list[list[int]] = [[] for _ in node_list]
    missing_inputs = []
    for index, node in enumerate(node_list):
        sources = {producers[name] for name in _names_read(node) if name in producers}
        missing_inputs.append(len(sources))
        for source in sources:
            readers[source].append(index)
    ready = [index for index, number in enumerate(missing_inputs) if not number]
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for reader in readers[index]:
            missing_inputs[reader] -= 1
            if not missing_inputs[reader]:
                heapq.heappush(ready, reader)
    return order if len(order) == len(node_list) else None


def _names_read(node: onnx.NodeProto) -> set[str]:
    """Return the names that a node and the graphs in its attributes read; those that a nested graph
    defines are not those of the enclosing graph."""
    inner = (name for graph in subgraphs(node) for name in captured_names(graph))
    return {*node.input, *inner} - {""}


def _copy_repeated_outputs(model: onnx.ModelProto) -> None:
    """Let each output of the network have a name; functions and nested graphs may repeat them."""
    graph, seen = model.graph, set[str]()
    taken = {name for node in nodes(model) for name in (*node.input, *node.output)}
    taken.update(each.name for each in (*graph.input, *graph.output, *graph.initializer))
    for info in graph.output:
        if info.name in seen:
            copied = unused_name(info.name, taken.__contains__)
            graph.node.append(onnx.helper.make_node("Identity", [info.name], [copied]))
            info.name = copied
            taken.add(copied)
        seen.add(info.name)


_Repair = tuple[Callable[[onnx.ModelProto], bool], Callable[[onnx.ModelProto], None]]
_REPAIRS: tuple[_Repair, ...] = (
    (
        lambda model: any(each.domain != domain_of(each.domain) for each in _with_domain(model)),
        _replace_domain_alias,
    ),
    (lambda model: any(g.sparse_initializer for g in graphs(model)), _make_weights_dense),
    (
        lambda model: any(map(_nodes_with_repeated_name, _node_lists(model))),
        _rename_repeated_nodes,
    ),
    (lambda model: any(True for _ in _unnamed_extents(model)), _clear_unnamed_extents),
    (lambda model: not all(map(_is_sorted, _node_lists(model))), _sort_nodes),
    (
        lambda model: len({info.name for info in model.graph.output}) < len(model.graph.output),
        _copy_repeated_outputs,
    ),
)
