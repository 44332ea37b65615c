"""Weights of fewer than 8 bits: unpacked when the network is compiled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import onnx

from tvmrt.error import UnsupportedError
from tvmrt.ir import Value
from tvmrt.ir.rounding import ceil_div

from .context import NodeContext
from .linear import product
from .registry import onnx_op

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


@onnx_op("MatMulNBits", domain="com.microsoft")
def matmul_n_bits(ctx: NodeContext) -> Value:
    """Columns of the weights lie in blocks, each with its scale and zero point."""
    if ctx.input(4) is not None:
        raise UnsupportedError("weights in another order (input 4, g_idx)")
    y = product(ctx, ctx.required(0), ctx.const(_weights(ctx).T))
    bias = ctx.input(5)
    return y if bias is None else ctx.emit("add", [y, bias])


def _weights(ctx: NodeContext) -> np.ndarray:
    """The weights as float32 [N, K]."""
    rows, columns, block = ctx.attr("N"), ctx.attr("K"), ctx.attr("block_size")
    bits = ctx.attr("bits", 4)
    if bits not in (2, 4, 8):
        raise UnsupportedError(f"weights of {bits} bits; 2, 4 and 8 are unpacked")
    blocks = ceil_div(columns, block)
    packed = ctx.constant_of(1, "the packed weights")
    scales = ctx.constant_of(2, "the scales")
    points = ctx.constant_of(3, "the zero points")
    if points is None:
        points = np.full((rows, blocks), 1 << (bits - 1))
    elif points.dtype == np.uint8:
        points = _unpacked(points.reshape(rows, -1), bits)[:, :blocks]
    numbers = _unpacked(packed.reshape(rows, blocks, -1), bits).astype(np.float32)
    shifted = numbers - points.reshape(rows, blocks, 1).astype(np.float32)
    scaled = shifted * scales.reshape(rows, blocks, 1)
    return np.ascontiguousarray(scaled.reshape(rows, blocks * block)[:, :columns])


def _unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """The numbers in bytes, the lowest bits first, along the last axis."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return numbers.reshape(*packed.shape[:-1], -1)
