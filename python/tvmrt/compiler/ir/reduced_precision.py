"""Matmul-like operators in reduced precision, and the report on them."""

from __future__ import annotations

from dataclasses import dataclass

from .graph import Node

PRECISION = "precision"  # the attribute of a node
BFLOAT16, INT8 = "bfloat16", "int8"
PRECISIONS = {"bf16": BFLOAT16, "int8": INT8}  # by the value of the option ``precision``


def is_reduced(node: Node) -> bool:
    """Return whether a node multiplies operands rounded to bfloat16 and accumulates in float32."""
    return node.attrs.get(PRECISION) == BFLOAT16


@dataclass(frozen=True)
class ReducedPrecision:
    """Matmul-like operator that could be computed in reduced precision.

    ``name``: Name of the weights, or of the node if both operands are computed. ``nodes``: ONNX
    nodes. ``precision``: `bfloat16`, `int8` if its activations are rounded to 8 bits, or `float32`
    if the error would have been too large.
    ``error``: Maximum difference from float32 relative to the largest result, for the same
    operands; null if it was not measured.
    """

    name: str
    nodes: tuple[str, ...]
    precision: str
    error: float | None


@dataclass(frozen=True)
class WeightQuantization:
    """Weights of one layer in few bits, or in float32 if the error would be too large.

    ``name``: Name of the weights. ``nodes``: Nodes that read them. ``bits``: Bits per weight: 4, 8,
    or 32 if the error would have been too large. ``after_bytes``: Size with the scales of blocks.
    ``error``: RMS of the difference relative to the RMS of the weights.
    """

    name: str
    nodes: tuple[str, ...]
    bits: int
    before_bytes: int
    after_bytes: int
    error: float
