"""Take constant factors of a convolution's or matrix product's result into its weights.

Together with the bias that is what becomes of a batch normalisation behind a convolution.
Contract: one factor a channel, weights constant and finite with their factors, the product's only
reader. Weights whose columns are the rows of a table stay as they are: both are stored once.
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
    """Tables whose rows may be the columns of weights, which then stay as they are."""
    return [n.inputs[0] for n in graph.nodes if n.op == "gather" and n.inputs[0].is_constant]


def absorb_scale(product: Node, row: np.ndarray, tables: list[Value]) -> bool:
    """Scale the product's weights and bias by one factor a channel; whether they take it."""
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
        return False  # the sums may be finite where products of their terms are not
    inputs = [product.inputs[0], constant(scaled, weights.name)]
    if len(product.inputs) > 2 and product.inputs[2] is not None:
        bias = product.inputs[2]
        inputs.append(constant((bias.data.reshape(-1) * row).astype(dtype), bias.name))
    product.inputs = inputs
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
