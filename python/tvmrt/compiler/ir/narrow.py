"""What is told of weights that are stored in few bits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NarrowRow:
    """The weights of one layer in few bits, or why they are float32 still.

    Parameters
    ----------
    name
        That of the weights.
    nodes
        The network's nodes that read them.
    bits
        Of each weight: 4, 8, or 32 where the error would have been too large.
    before_bytes, after_bytes
        In float32, and with the factors of blocks.
    error
        The root of the mean square of the difference, in parts of that of the weights.
    """

    name: str
    nodes: tuple[str, ...]
    bits: int
    before_bytes: int
    after_bytes: int
    error: float
