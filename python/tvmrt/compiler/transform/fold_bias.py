"""Fold constants added to a convolution's or matmul's result into its bias.

Contract: the sum is the only reader of the result. Non-goal: biases computed at run time.
"""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir import Graph, Node, constant

from .channel_constants import Sides, absorb_constants


def fold_bias(graph: Graph) -> None:
    absorb_constants(graph, _sides, _absorb)


def _sides(node: Node) -> Sides:
    if node.op == "add":
        return (node.inputs, node.inputs[::-1])
    return (node.inputs,) if node.op == "sub" else ()


def _absorb(node: Node, product: Node, row: np.ndarray) -> bool:
    row = -row if node.op == "sub" else row
    if len(product.inputs) > 2 and product.inputs[2] is not None:
        row = row + product.inputs[2].data.reshape(-1)
    row = row.astype(product.output.dtype.numpy)
    product.inputs = [*product.inputs[:2], constant(row, f"{product.name}_bias")]
    return True
