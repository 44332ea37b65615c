"""Depthwise layers by Helium, kernels of 7 or 8 columns: a window is four instructions."""

from .depthwise_6_mve import windows

KERNEL = windows(8, 0.5)
