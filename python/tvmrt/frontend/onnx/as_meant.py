"""What files of the field have though ONNX forbids it, told as it is meant.

The checker of the onnx package and other runtimes do not mind any of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx

from tvmrt.frontend.dims import unused_name

from .tensors import graphs

# Exporters write these where they do not know an extent; two of them are not the same extent.
NAMELESS = ("?", "*", "-1")


def as_meant(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model, or where it needs it a copy.

    In the copy nodes of a graph that share a name have numbers behind it but for the first, and
    extents that are negative or have no name are open.
    """
    if not any(map(_shared_names, _lists_of_nodes(model))) and not any(_nameless(model)):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for nodes in _lists_of_nodes(copy):
        taken = {node.name for node in nodes}
        for node in _shared_names(nodes):
            node.name = unused_name(node.name, taken.__contains__)
            taken.add(node.name)
    for dim in _nameless(copy):
        dim.Clear()
    return copy


def _lists_of_nodes(model: onnx.ModelProto) -> Iterator[Sequence[onnx.NodeProto]]:
    yield from (graph.node for graph in graphs(model))
    yield from (function.node for function in model.functions)


def _shared_names(nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """The nodes that have the name of an earlier one."""
    first: dict[str, onnx.NodeProto] = {}
    return [n for n in nodes if n.name and first.setdefault(n.name, n) is not n]


def _nameless(model: onnx.ModelProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    graph = model.graph
    for info in (*graph.input, *graph.output, *graph.value_info):
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_value < 0 or dim.dim_param in NAMELESS:
                yield dim
