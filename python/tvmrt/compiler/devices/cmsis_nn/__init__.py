"""cmsis-nn: Arm's kernels of int8 for Cortex-M, as C that calls them, in archives for firmware.

Each layer is a region of its own, so that what lies between two is planned with all the rest. What
CMSIS-NN has no kernel for stays the compiler's.
"""

from .device import CmsisNN

__all__ = ["CmsisNN"]
