"""Integer kernels of microcontrollers: each module describes one as its ``KERNEL``.

New modules in this package are found and tested automatically;
``docs/how-to/add-a-board-kernel.md`` explains how to write one.
"""

from ..kernel import KernelRegistry
from ..layer_i8 import MicroLayerI8

KERNELS: KernelRegistry[MicroLayerI8] = KernelRegistry(__name__, __path__)
