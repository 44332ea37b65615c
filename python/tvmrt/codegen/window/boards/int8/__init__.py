"""The integer kernels of microcontrollers: each module describes one by its ``KERNEL``.

A module that is put here is found by itself, and tested with the others; how to write one tells
``docs/how-to/add-a-board-kernel.md``.
"""

from __future__ import annotations

from ..kernel import MicroKernel, cheapest, find_kernels
from ..layer_i8 import MicroLayer

KERNELS = find_kernels(__name__, __path__)


def choose(layer: MicroLayer, board: frozenset[str]) -> MicroKernel[MicroLayer]:
    """The cheapest kernel that supports the layer on a board with these instructions."""
    return cheapest(KERNELS, layer, board)


def choose_for_rows(layer: MicroLayer, board: frozenset[str]) -> MicroKernel[MicroLayer] | None:
    """The cheapest one that can be called for some rows of the layer; None where none can."""
    fit = {n: k for n, k in KERNELS.items() if k.rows or not layer.shape.depthwise}
    return cheapest(fit, layer, board)
