"""Products that are computed of rounded numbers, and what is told of them."""

from __future__ import annotations

from dataclasses import dataclass

from .graph import Node

PRECISION = "precision"  # the attribute of a node
BFLOAT16 = "bfloat16"


def is_reduced(node: Node) -> bool:
    """Whether a node multiplies numbers that are rounded to bfloat16, and sums in float32."""
    return node.attrs.get(PRECISION) == BFLOAT16


@dataclass(frozen=True)
class ReducedRow:
    """A product that could be computed in bfloat16.

    Parameters
    ----------
    name
        That of its weights, or of the product where both factors are computed.
    nodes
        The network's nodes that it stands for.
    precision
        ``bfloat16``; or ``float32`` where the error would have been too large.
    error
        The largest difference from float32 in parts of the largest number of the result, for the
        same operands; None where nothing was measured.
    """

    name: str
    nodes: tuple[str, ...]
    precision: str
    error: float | None
