"""opencl: any OpenCL device. Each region becomes a list of kernels here; the other half is the
plug-in ``src_runtime/devices/opencl``, which builds and runs them."""

from .device import OpenCl

__all__ = ["OpenCl"]
