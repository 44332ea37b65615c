"""Regions computed by OpenCL kernels."""
