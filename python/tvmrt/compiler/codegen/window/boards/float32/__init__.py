"""Float kernels of microcontrollers: each module describes one as its ``KERNEL``."""

from ..kernel import KernelRegistry
from ..layer_f32 import MicroLayerF32

KERNELS: KernelRegistry[MicroLayerF32] = KernelRegistry(__name__, __path__)
