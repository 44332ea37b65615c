"""Transposed convolutions of quantised tensors whose windows do not overlap, as 1x1 convolutions.

With strides equal to the kernel, each pixel of the input gives a block of pixels of its own: a 1x1
convolution with an output channel for each channel and position of the block, followed by moves of
the elements. There are int8 kernels for that. Contract: the same products, exactly summed.
"""

from __future__ import annotations

from math import prod

import numpy as np

from tvmrt.compiler.ir import Builder, Graph, Node, Value
from tvmrt.compiler.ir.quantized import is_per_tensor
from tvmrt.compiler.ir.sizes import symbols_of

from .move_quantize import dequantizing
from .rewrite import at, rewrite


def conv_transpose_to_conv(graph: Graph) -> None:
    rewrite(graph, _to_conv)


@at("conv_transpose")
def _to_conv(b: Builder, node: Node) -> Value | None:
    x, w = (dequantizing(v, node) for v in node.inputs[:2])
    if x is None or w is None or not _has_separate_blocks(node):
        return None
    if not is_per_tensor(x) or {v.inputs[0].dtype.bits for v in (x, w)} != {8}:
        return None
    if x.inputs[0].is_constant or not all(v.is_constant for v in w.inputs):
        return None
    weights, channels = w.inputs[0].data, node.inputs[1].shape[1]
    block = weights.shape[2:]
    parameters = [_channel_rows(v.data, weights.shape) for v in w.inputs[1:]]
    if any(rows is None for rows in parameters):
        return None
    spatial = len(block)
    ones = (1,) * spatial
    count = prod(block)
    order = (*range(2, 2 + spatial), 1, 0)
    integers = np.ascontiguousarray(weights.transpose(order)).reshape(count * channels, -1, *ones)
    rows = [np.tile(p, count).reshape(-1, 1, *ones) for p in parameters]
    b.sources = tuple(dict.fromkeys((*w.sources, *node.sources)))
    operands = [b.const(a, v.name) for a, v in zip((integers, *rows), w.inputs)]
    inputs = [node.inputs[0], b.emit("dequantize", operands, w.name)]
    for bias in node.inputs[2:]:
        inputs.append(None if bias is None else b.const(np.tile(bias.data, count), bias.name))
    steps = {"strides": ones, "dilations": ones, "groups": 1}
    pads = {"pads_before": (0,) * spatial, "pads_after": (0,) * spatial}
    y = b.emit("conv", inputs, node.name, **steps, **pads)
    n, _, *extents = node.inputs[0].shape
    # with channels last, as int8 kernels write their results
    last, pixels = 1 + spatial, range(1, 1 + spatial)
    y = b.emit("transpose", [y], perm=(0, *range(2, 2 + spatial), 1))
    y = b.emit("reshape", [y], shape=(n, *extents, *block, channels))
    pairs = [axis for k in pixels for axis in (k, k + spatial)]
    y = b.emit("transpose", [y], perm=(0, *pairs, 1 + 2 * spatial))
    y = b.emit("reshape", [y], shape=(n, *node.output.shape[2:], channels))
    return b.emit("transpose", [y], node.name, perm=(0, last, *pixels))


def _has_separate_blocks(node: Node) -> bool:
    attrs, (_, _, *block) = node.attrs, node.inputs[1].shape
    x, y = node.inputs[0].shape[2:], node.output.shape[2:]
    return (
        attrs["groups"] == 1
        and not symbols_of(*node.inputs[0].shape)
        and tuple(attrs["strides"]) == tuple(block)
        and all(n == 1 for n in attrs["dilations"])
        and not any(attrs["pads_before"])
        and all(size == extent * step for size, extent, step in zip(y, x, block))
    )


def _channel_rows(parameter: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return a parameter of the weights [C, M, ...] for each of M channels; None if it varies
    within one."""
    full = np.broadcast_to(parameter, shape)
    rows = full[0].reshape(shape[1], -1)[:, 0]
    same = (full == rows.reshape(1, -1, *[1] * (len(shape) - 2))).all()
    return rows.copy() if same else None
