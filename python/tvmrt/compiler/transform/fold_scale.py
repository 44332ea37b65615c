"""Fold constant scales of a convolution's or matmul's result into its weights.

Together with the bias this folds a batch normalisation after a convolution. Contract: one scale per
channel, constant weights that stay finite, and no other reader of the result. Weights tied to an
embedding table are not changed, so that both are stored once.
"""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir import Graph, Node, Value, constant
from tvmrt.compiler.ir.twins import are_transposed

from .channel_constants import Sides, absorb_constants


def fold_scale(graph: Graph) -> None:
    tables = scale_tables(graph)
    absorb_constants(graph, _sides, lambda node, product, row: absorb_scale(product, row, tables))


def scale_tables(graph: Graph) -> list[Value]:
    """Return tables that weights may be tied to; such weights are not changed."""
    return [n.inputs[0] for n in graph.nodes if n.op == "gather" and n.inputs[0].is_constant]


def absorb_scale(product: Node, row: np.ndarray, tables: list[Value]) -> bool:
    """Scale weights and bias by one factor per channel; return whether this was possible."""
    weights = product.inputs[1]
    tied = any(are_transposed(table, weights) for table in tables)
    return not tied and _absorb(product, row)


def _sides(node: Node) -> Sides:
    return (node.inputs, node.inputs[::-1]) if node.op == "mul" else ()


def _absorb(product: Node, row: np.ndarray) -> bool:
    weights = product.inputs[1]
    if not weights.is_constant:
        return False
    dtype = product.output.dtype.numpy
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = (weights.data * _as_weights(product, row)).astype(dtype)
    if not np.isfinite(scaled).all():
        return False  # the original sums may be finite although scaled weights are not
    inputs = [product.inputs[0], constant(scaled, weights.name)]
    if len(product.inputs) > 2 and product.inputs[2] is not None:
        bias = product.inputs[2]
        inputs.append(constant((bias.data.reshape(-1) * row).astype(dtype), bias.name))
    product.inputs = inputs
    return True


def _as_weights(product: Node, row: np.ndarray) -> np.ndarray:
    """Return one scale per output channel, in a shape that multiplies the weights."""
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
