"""What the cuda device takes: the kernels are those of opencl, whose text both read."""

from __future__ import annotations

from tvmrt.compiler.ir import DeviceMemory, Node, Region

from ..opencl.device import KernelDevice
from ..registry import register
from .lower import lower


@register
class Cuda(KernelDevice):
    """What kernel devices take; products and most convolutions are cuBLAS's."""

    name = "cuda"
    title = "CUDA"
    version = 1  # of the meaning of nodes, as in cuda.c
    memory = DeviceMemory("cuda", 2, align_bytes=256)  # as in cuda.c; 2 is kDLCUDA

    def supports(self, node: Node) -> str | None:
        if node.op == "custom":
            return "kernels of your own for GPUs are OpenCL C: choose the device opencl"
        return super().supports(node)

    def optimize(self, region: Region) -> Region:
        lower(region.graph)
        return region
