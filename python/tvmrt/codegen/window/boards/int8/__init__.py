"""The integer kernels of microcontrollers: each module describes one by its ``KERNEL``.

A module that is put here is found by itself, and tested with the others; how to write one tells
``docs/how-to/add-a-board-kernel.md``.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from ..layer import MicroKernel, MicroLayer

KERNELS: dict[str, MicroKernel] = {
    each.name: import_module(f"{__name__}.{each.name}").KERNEL
    for each in pkgutil.iter_modules(__path__)
}


def choose(layer: MicroLayer, board: frozenset[str]) -> MicroKernel:
    """The cheapest kernel that supports the layer on a board with these instructions."""
    kernels = sorted(KERNELS.values(), key=lambda kernel: kernel.cost)
    return next(each for each in kernels if each.needs <= board and each.supports(layer))
