"""Take constants added to a convolution's or matrix product's result into its bias.

Contract: the sum is the product's only reader. Non-goal: biases computed at run time.
"""

from __future__ import annotations

import numpy as np

from tvmrt.ir import Graph, Node, Value, constant

from .channel_constants import CHANNEL_AXIS, absorber, by_channel


def fold_bias(graph: Graph) -> None:
    users, outputs = graph.consumers(), set(graph.outputs)
    replaced: dict[Value, Value] = {}
    for node in graph.nodes:
        if node.op not in ("add", "sub"):
            continue
        sides = (node.inputs, node.inputs[::-1]) if node.op == "add" else (node.inputs,)
        for read, bias in sides:
            heavy = replaced.get(read, read)
            if _absorb(node, heavy, bias, users, outputs):
                replaced[node.output] = heavy
                users[heavy] = users.get(node.output, [])
                if node.output in outputs:
                    outputs.add(heavy)
                break
    graph.replace_many(replaced)
    graph.nodes = [n for n in graph.nodes if n.outputs[0] not in replaced]


def _absorb(node: Node, heavy: Value, bias: Value, users, outputs) -> bool:
    product = absorber(heavy, users, outputs)
    if product is None or bias.data is None or heavy.shape != node.output.shape:
        return False
    if product.guard != node.guard:
        return False
    row = by_channel(heavy, bias.data, CHANNEL_AXIS[product.op])
    if row is None:
        return False
    row = (-row if node.op == "sub" else row).astype(np.float64)
    if len(product.inputs) > 2 and product.inputs[2] is not None:
        row = row + product.inputs[2].data.reshape(-1)
    row = row.astype(heavy.dtype.numpy)
    product.inputs = [*product.inputs[:2], constant(row, f"{product.name}_bias")]
    product.sources = tuple(dict.fromkeys((*product.sources, *node.sources)))
    return True
