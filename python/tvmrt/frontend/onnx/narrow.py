"""Weights of fewer than 8 bits: unpacked when the network is compiled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import onnx

_WIDER = {"int2": np.int8, "int4": np.int8, "uint2": np.uint8, "uint4": np.uint8}


def widened(array: np.ndarray) -> np.ndarray:
    """The array, integers of fewer than 8 bits as bytes."""
    wider = _WIDER.get(array.dtype.name)
    return array if wider is None else array.astype(wider)


def only_dequantized(graph: onnx.GraphProto) -> set[str]:
    """What a graph reads by DequantizeLinear alone, for which a wider type means the same."""
    dequantized: set[str] = set()
    others = {info.name for info in graph.output}
    for node in _nodes(graph.node):
        (dequantized if node.op_type == "DequantizeLinear" else others).update(node.input)
    return dequantized - others


def _nodes(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """All nodes, with those of the graphs in their attributes."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _nodes(graph.node)
