"""Constants that hold one number a channel, and the operators that can absorb them."""

from __future__ import annotations

import numpy as np

from tvmrt.ir import Node, Value

# Where the channels of the result are, and where the weights keep their output channels.
CHANNEL_AXIS = {"conv": 1, "conv_transpose": 1, "matmul": -1}


def absorber(value: Value, users: dict[Value, list[Node]], outputs: set[Value]) -> Node | None:
    """The convolution or product that makes ``value`` for this one reader, if it is in floats
    and its weights and bias are constant."""
    node = value.producer
    if node is None or node.op not in CHANNEL_AXIS or not value.dtype.is_float:
        return None
    if value in outputs or len(users.get(value, ())) != 1 or len(node.outputs) != 1:
        return None
    if not all(v is None or v.is_constant for v in node.inputs[2:]):
        return None
    return node


def by_channel(value: Value, array: np.ndarray, axis: int) -> np.ndarray | None:
    """``array``, which broadcasts to ``value``, as one number a channel; None if it varies along
    another axis."""
    rank = value.type.rank
    if array.ndim > rank:
        return None
    axis %= rank
    shape = (1,) * (rank - array.ndim) + array.shape
    if any(n != 1 for d, n in enumerate(shape) if d != axis):
        return None
    return np.broadcast_to(array.reshape(-1), (value.shape[axis],))
