"""Depthwise layers whose kernels have 6 or 7 columns, in pairs of columns."""

from .depthwise_5_dsp import dsp_kernel

KERNEL = dsp_kernel(7, 0.87)
