"""cuda: NVIDIA's GPUs. Each region becomes a list of kernels and of products for cuBLAS here; the
other half is the plug-in ``src_runtime/devices/cuda``, which builds and runs them."""

from .device import Cuda

__all__ = ["Cuda"]
