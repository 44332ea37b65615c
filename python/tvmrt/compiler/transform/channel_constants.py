"""Per-channel constants, and the operators that can absorb them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tvmrt.compiler.ir import Graph, Node, Value
from tvmrt.compiler.ir.extent import Extent
from tvmrt.compiler.ir.value_users import ValueUsers

# The inputs of a node that may be a result and a constant, in each order to try.
ConstantOperands = Iterable[Sequence[Value]]

# Axis of the channels of the result, and of the output channels of the weights.
CHANNEL_AXIS = {"conv": 1, "conv_transpose": 1, "matmul": -1}


def absorb_constants(
    graph: Graph,
    sides: Callable[[Node], ConstantOperands],
    absorb: Callable[[Node, Node, np.ndarray], bool],
) -> None:
    """Remove nodes whose constant can be absorbed by the preceding matmul-like node.

    ``absorb(node, product, row)`` gets the constant as one number per channel in double
    precision; it changes the product's inputs, or returns False.
    """
    readers = ValueUsers(graph)
    replaced: dict[Value, Value] = {}
    for node in graph.nodes:
        for read, operand in sides(node):
            result = replaced.get(read, read)
            matmul = find_absorber(result, readers)
            row = None if matmul is None else _per_channel_constant(node, matmul, operand)
            if row is None or not absorb(node, matmul, row):
                continue
            matmul.sources = tuple(dict.fromkeys((*matmul.sources, *node.sources)))
            replaced[node.output] = result
            readers.move(node.output, result)
            break
    graph.replace_many(replaced)
    graph.nodes = [n for n in graph.nodes if n.outputs[0] not in replaced]


def _per_channel_constant(node: Node, matmul: Node, operand: Value) -> np.ndarray | None:
    result = matmul.output
    if operand.data is None or result.shape != node.output.shape or matmul.guard != node.guard:
        return None
    return per_channel_f64(result, operand.data, CHANNEL_AXIS[matmul.op])


def find_absorber(value: Value, readers: ValueUsers) -> Node | None:
    """Return the floating-point convolution or matmul that computes ``value``, if it has only this
    reader, and constant weights and bias."""
    node = value.producer
    if node is None or node.op not in CHANNEL_AXIS or not value.dtype.is_float:
        return None
    if readers.only(value) is None or len(node.outputs) != 1:
        return None
    if not all(v is None or v.is_constant for v in node.inputs[2:]):
        return None
    return node


def per_channel_f64(value: Value, array: np.ndarray | None, axis: int) -> np.ndarray | None:
    """Return :func:`per_channel` in double precision; None without an array."""
    row = None if array is None else per_channel(value, array, axis)
    return None if row is None else row.astype(np.float64)


def per_channel(value: Value, array: np.ndarray, axis: int) -> np.ndarray | None:
    """Return ``array``, which broadcasts to ``value``, as one number per channel; None if it varies
    along another axis."""
    rank = value.type.rank
    if array.ndim > rank:
        return None
    axis %= rank
    shape = (1,) * (rank - array.ndim) + array.shape
    if any(n != 1 for d, n in enumerate(shape) if d != axis):
        return None
    if isinstance(value.shape[axis], Extent):
        return None  # channels of weights have a fixed extent
    return np.broadcast_to(array.reshape(-1), (value.shape[axis],))
