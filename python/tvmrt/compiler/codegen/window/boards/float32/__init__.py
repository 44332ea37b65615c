"""Float kernels of microcontrollers: each module describes one as its ``KERNEL``."""

from ..kernel import Kernels
from ..layer_f32 import MicroLayer

KERNELS: Kernels[MicroLayer] = Kernels(__name__, __path__)
