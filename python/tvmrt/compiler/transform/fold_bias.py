"""Fold constants added to a convolution's or matmul's result into its bias.

Contract: the sum is the only reader of the result. Non-goal: biases computed at run time.
"""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir import Graph, Node, constant

from .channel_constants import absorb_constants


def fold_bias(graph: Graph) -> None:
    absorb_constants(graph, {"add": _add, "sub": lambda matmul, row: _add(matmul, -row)})


def _add(matmul: Node, per_channel: np.ndarray) -> bool:
    if len(matmul.inputs) > 2 and matmul.inputs[2] is not None:
        per_channel = per_channel + matmul.inputs[2].data.reshape(-1)
    per_channel = per_channel.astype(matmul.output.dtype.numpy)
    matmul.inputs = [*matmul.inputs[:2], constant(per_channel, f"{matmul.name}_bias")]
    return True
