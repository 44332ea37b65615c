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
    "Device",
    "NDArray",
    "array",
    "cpu",
    "cuda",
    "device",
    "empty",
    "ext_dev",
    "from_dlpack",
    "gpu",
    "hexagon",
    "metal",
    "numpyasarray",
    "opencl",
    "rocm",
    "vpi",
    "vulkan",
    "webgpu",
]
