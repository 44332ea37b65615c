"""Per-channel constants, and the operators that can absorb them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tvmrt.compiler.ir import Graph, Node, Trait, Value
from tvmrt.compiler.ir.sizes import Extent
from tvmrt.compiler.ir.value_users import ValueUsers

# Changes the inputs of a matmul-like node by one number per channel, or returns False.
Absorb = Callable[[Node, np.ndarray], bool]


def absorb_constants(graph: Graph, rules: Mapping[str, Absorb]) -> None:
    """Remove nodes whose constant can be absorbed by the preceding matmul-like node.

    ``rules`` has a function for each operator that is absorbed. It gets the matmul-like node and
    the constant as one number per channel in double precision.
    """
    readers = ValueUsers(graph)
    replaced: dict[Value, Value] = {}
    for node in graph.nodes:
        absorb = rules.get(node.op)
        sides = [node.inputs, node.inputs[::-1]] if node.has(Trait.COMMUTATIVE) else [node.inputs]
        for read, operand in sides if absorb else ():
            result = replaced.get(read, read)
            matmul = _find_absorber(result, readers)
            row = None if matmul is None else _per_channel_constant(node, matmul, operand)
            if row is None or not absorb(matmul, row):
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
    return per_channel_f64(result, operand.data, matmul.operator.channel_axis)


def is_float_matmul(node: Node) -> bool:
    """Return whether a node is a matmul-like operator on floating-point numbers."""
    return node.operator.weights is not None and not node.operator.integer_of


def _find_absorber(value: Value, readers: ValueUsers) -> Node | None:
    """Return the floating-point convolution or matmul that computes ``value``, if it has only this
    reader, and constant weights and bias."""
    node = value.producer
    if node is None or not is_float_matmul(node) or not value.dtype.is_float:
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
