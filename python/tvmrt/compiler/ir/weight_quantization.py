"""Report on weights that are stored in few bits."""

from __future__ import annotations

from dataclasses import dataclass


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
