"""The float kernels of microcontrollers: each module describes one by its ``KERNEL``."""

from __future__ import annotations

from ..kernel import MicroKernel, cheapest, find_kernels
from ..layer_f32 import MicroLayer

KERNELS = find_kernels(__name__, __path__)


def choose(layer: MicroLayer, board: frozenset[str]) -> MicroKernel[MicroLayer]:
    """The cheapest kernel that supports the layer on a board with these instructions."""
    return cheapest(KERNELS, layer, board)


def choose_for_rows(layer: MicroLayer, board: frozenset[str]) -> MicroKernel[MicroLayer]:
    """The cheapest one that can be called for some rows of the layer."""
    fit = {n: k for n, k in KERNELS.items() if k.cost and (k.rows or not layer.shape.depthwise)}
    return cheapest(fit, layer, board)


def scratch_bytes(layer: MicroLayer, board: frozenset[str]) -> int:
    """What its kernel asks of ``tvmrt_scratch_alloc``."""
    return choose(layer, board).scratch(layer).bytes
