"""The integer kernels of microcontrollers: each module describes one by its ``KERNEL``.

A module that is put here is found by itself, and tested with the others; how to write one tells
``docs/how-to/add-a-board-kernel.md``.
"""

from ..kernel import Kernels
from ..layer_i8 import MicroLayer

KERNELS: Kernels[MicroLayer] = Kernels(__name__, __path__)
