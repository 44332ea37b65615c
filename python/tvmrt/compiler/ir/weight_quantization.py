"""Report on weights that are stored in few bits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WeightQuantization:
    """Weights of one layer in few bits, or in float32 if the error would be too large.

    Parameters
    ----------
    name
        Name of the weights.
    nodes
        The network's nodes that read them.
    bits
        Bits of each weight: 4, 8, or 32 if the error would have been too large.
    before_bytes, after_bytes
        Size in float32, and in few bits with the scales of the blocks.
    error
        Root mean square of the difference, relative to that of the weights.
    """

    name: str
    nodes: tuple[str, ...]
    bits: int
    before_bytes: int
    after_bytes: int
    error: float
