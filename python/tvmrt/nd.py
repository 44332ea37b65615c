"""Tensors: ``tvmrt.nd.array``, ``tvmrt.nd.empty`` and the like; see tvmrt.runtime.ndarray."""

from __future__ import annotations

from tvmrt.runtime.device import (
    Device,
    cpu,
    cuda,
    device,
    ext_dev,
    gpu,
    hexagon,
    metal,
    opencl,
    rocm,
    vpi,
    vulkan,
    webgpu,
)
from tvmrt.runtime.ndarray import NDArray, array, empty, from_dlpack, numpyasarray

__all__ = [
    "NDArray",
    "array",
    "empty",
    "from_dlpack",
    "numpyasarray",
    "Device",
    "device",
    "cpu",
    "cuda",
    "ext_dev",
    "gpu",
    "hexagon",
    "metal",
    "opencl",
    "rocm",
    "vpi",
    "vulkan",
    "webgpu",
]
