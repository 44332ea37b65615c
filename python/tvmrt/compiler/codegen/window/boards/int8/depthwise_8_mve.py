"""Depthwise layers with Helium, 7 or 8 kernel columns: four instructions per window."""

from .depthwise_6_mve import mve_kernel

KERNEL = mve_kernel(8, 0.5)
