"""Take constant factors of a convolution's or matrix product's result into its weights.

Together with the bias that is what becomes of a batch normalisation behind a convolution.
Contract: one factor a channel, weights constant, the product's only reader.
"""

from __future__ import annotations

import numpy as np

from tvmrt.ir import Graph, Node, Value, constant

from .channel_constants import CHANNEL_AXIS, absorber, by_channel


def fold_scale(graph: Graph) -> None:
    users, outputs = graph.consumers(), set(graph.outputs)
    replaced: dict[Value, Value] = {}
    for node in graph.nodes:
        if node.op != "mul":
            continue
        for read, factor in (node.inputs, node.inputs[::-1]):
            heavy = replaced.get(read, read)
            if _absorb(node, heavy, factor, users, outputs):
                replaced[node.output] = heavy
                users[heavy] = users.get(node.output, [])
                if node.output in outputs:
                    outputs.add(heavy)
                break
    graph.replace_many(replaced)
    graph.nodes = [n for n in graph.nodes if n.outputs[0] not in replaced]


def _absorb(node: Node, heavy: Value, factor: Value, users, outputs) -> bool:
    product = absorber(heavy, users, outputs)
    if product is None or factor.data is None or heavy.shape != node.output.shape:
        return False
    weights = product.inputs[1]
    if product.guard != node.guard or not weights.is_constant:
        return False
    row = by_channel(heavy, factor.data, CHANNEL_AXIS[product.op])
    if row is None:
        return False
    row = row.astype(np.float64)
    scaled = weights.data * _as_weights(product, row)
    dtype = heavy.dtype.numpy
    inputs = [product.inputs[0], constant(scaled.astype(dtype), weights.name)]
    if len(product.inputs) > 2 and product.inputs[2] is not None:
        bias = product.inputs[2]
        inputs.append(constant((bias.data.reshape(-1) * row).astype(dtype), bias.name))
    product.inputs = inputs
    product.sources = tuple(dict.fromkeys((*product.sources, *node.sources)))
    return True


def _as_weights(product: Node, row: np.ndarray) -> np.ndarray:
    """One factor an output channel, shaped to multiply the weights."""
    weights = product.inputs[1]
    if product.op == "matmul":
        return row
    if product.op == "conv":
        return row.reshape(-1, *[1] * (weights.type.rank - 1))
    # conv_transpose keeps its weights as [C, OC / groups, *kernel]
    groups = product.attrs["groups"]
    per_group = weights.shape[1]
    by_input = np.repeat(row.reshape(groups, per_group), weights.shape[0] // groups, axis=0)
    return by_input.reshape(*weights.shape[:2], *[1] * (weights.type.rank - 2))
