"""Depthwise layers whose kernels have 6 or 7 columns, in pairs of columns."""

from .depthwise_5 import wide

KERNEL = wide(7, 0.87)
