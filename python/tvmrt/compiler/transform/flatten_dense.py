"""Let a dense layer read flattened channels-last features in memory order.

A convolution's result has its channels innermost; flattening it in logical order would copy it.
Instead, the rows of the dense layer's constant weights are permuted to memory order.
"""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir import Builder, Graph, Node, Trait, Value
from tvmrt.compiler.ir.program import channels_last_order

from .rewrite import at, rewrite


def flatten_dense(graph: Graph) -> None:
    rewrite(graph, _permute)


@at(Trait.MATRIX_PRODUCT, source="reshape")
def _permute(b: Builder, node: Node, flat: Node) -> Value | None:
    if node.operator.weights is None or not node.inputs[1].is_constant:
        return None
    x, weights = flat.inputs[0], node.inputs[1]
    rank = x.type.rank
    rows = flat.output.shape
    if rank < 3 or len(rows) != 2 or rows[0] != x.shape[0] or weights.type.rank != 2:
        return None
    if all(n == 1 for n in x.shape[2:]) or x.shape[1] == 1 or not _is_channels_last(x):
        return None
    order = channels_last_order(rank)
    _, *channels = node.operator.weights
    columns = np.moveaxis(weights.data, channels, (1, 0))
    spatial = columns.reshape(*x.shape[1:], columns.shape[1])
    axes = [d - 1 for d in order[1:]]
    moved = np.transpose(spatial, [*axes, len(axes)]).reshape(columns.shape)
    moved = np.ascontiguousarray(np.moveaxis(moved, (1, 0), channels))
    y = b.emit("transpose", [x], flat.name, perm=order)
    y = b.emit("reshape", [y], flat.name, shape=rows)
    constant = b.const(moved, weights.name)
    return b.emit(node.op, [y, constant, *node.inputs[2:]], node.name, **node.attrs)


def _is_channels_last(value: Value) -> bool:
    """Return whether a kernel computes the value channels last, possibly with pointwise nodes."""
    for _ in range(16):
        node = value.producer
        if node is None:
            return False
        if node.has(Trait.CHANNELS_INNERMOST):
            return True
        if not node.has(Trait.ELEMENTWISE):
            return False
        value = next(
            (v for v in node.operands() if v.shape == value.shape and not v.is_constant), None
        )
        if value is None:
            return False
    return False
