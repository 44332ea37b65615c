"""Take a constant that is added to a convolution's or matrix product's result as its bias.

Contract: the sum has no other reader in between; one value a channel. Non-goal: biases that are
computed at run time.
"""

from __future__ import annotations

import numpy as np

from tvmrt.ir import Graph, Node, Value, constant

_CHANNEL_AXIS = {"conv": 1, "conv_transpose": 1, "matmul": -1}


def fold_bias(graph: Graph) -> None:
    users = graph.consumers()
    outputs = set(graph.outputs)
    replaced: dict[Value, Value] = {}
    for node in graph.nodes:
        if node.op != "add":
            continue
        for heavy, bias in (node.inputs, reversed(node.inputs)):
            producer = heavy.producer
            if producer is None or producer.op not in _CHANNEL_AXIS or bias.data is None:
                continue
            if heavy in outputs or len(users[heavy]) != 1 or heavy.shape != node.output.shape:
                continue
            if producer.guard != node.guard or not heavy.dtype.is_float:
                continue
            if len(producer.inputs) > 2 and not producer.inputs[2].is_constant:
                continue
            row = _by_channel(heavy, bias.data, _CHANNEL_AXIS[producer.op])
            if row is None:
                continue
            _add_bias(producer, row)
            producer.sources = tuple(dict.fromkeys((*producer.sources, *node.sources)))
            replaced[node.output] = heavy
            break
    graph.replace_many(replaced)
    graph.nodes = [n for n in graph.nodes if n.outputs[0] not in replaced]


def _by_channel(heavy: Value, bias: np.ndarray, axis: int) -> np.ndarray | None:
    """The bias as one number a channel, or None when it varies along another axis."""
    rank = heavy.type.rank
    if bias.ndim > rank:
        return None
    axis %= rank
    shape = (1,) * (rank - bias.ndim) + bias.shape
    if any(n != 1 for d, n in enumerate(shape) if d != axis):
        return None
    return np.broadcast_to(bias.reshape(-1), (heavy.shape[axis],)).astype(bias.dtype)


def _add_bias(producer: Node, row: np.ndarray) -> None:
    if len(producer.inputs) > 2:
        row = (producer.inputs[2].data.astype(np.float64) + row).astype(row.dtype)
    producer.inputs = [*producer.inputs[:2], constant(row, f"{producer.name}_bias")]
