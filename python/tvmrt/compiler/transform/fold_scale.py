"""Fold constant scales of a convolution's or matmul's result into its weights.

Together with the bias this folds a batch normalisation after a convolution. Contract: one scale per
channel, constant weights that stay finite, and no other reader of the result. Weights tied to an
embedding table are not changed, so that both are stored once.
"""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir import Graph, Node, constant
from tvmrt.compiler.ir.value_users import is_transpose_of

from .channel_constants import absorb_constants


def fold_scale(graph: Graph) -> None:
    tables = [n.inputs[0] for n in graph.nodes if n.op == "gather" and n.inputs[0].is_constant]

    def absorb(matmul: Node, per_channel: np.ndarray) -> bool:
        tied = any(is_transpose_of(table, matmul.inputs[1]) for table in tables)
        return not tied and _absorb_scale(matmul, per_channel)

    absorb_constants(graph, {"mul": absorb})


def _absorb_scale(matmul: Node, per_channel: np.ndarray) -> bool:
    """Scale weights and bias by one factor per channel; return whether this was possible."""
    weights = matmul.inputs[1]
    if not weights.is_constant:
        return False
    dtype = matmul.output.dtype.numpy
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = (weights.data * _as_weights(matmul, per_channel)).astype(dtype)
    if not np.isfinite(scaled).all():
        return False  # the original sums may be finite although scaled weights are not
    inputs = [matmul.inputs[0], constant(scaled, weights.name)]
    if len(matmul.inputs) > 2 and matmul.inputs[2] is not None:
        bias = matmul.inputs[2]
        inputs.append(constant((bias.data.reshape(-1) * per_channel).astype(dtype), bias.name))
    matmul.inputs = inputs
    return True


def _as_weights(matmul: Node, per_channel: np.ndarray) -> np.ndarray:
    """Return one scale per output channel, in a shape that multiplies the weights."""
    shape, (_, output_axis, input_axis) = matmul.inputs[1].shape, matmul.operator.weights
    ones = [1] * len(shape)
    ones[output_axis] = shape[output_axis]
    if shape[output_axis] == per_channel.size:
        return per_channel.reshape(ones)
    # output channels count from 0 in each group, which has its own input channels
    ones[input_axis] = shape[input_axis]
    groups = per_channel.size // shape[output_axis]
    by_group = per_channel.reshape(groups, shape[output_axis])
    by_input = np.repeat(by_group, shape[input_axis] // groups, axis=0)
    return (by_input if input_axis < output_axis else by_input.T).reshape(ones)
