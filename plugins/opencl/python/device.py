"""The opencl device: supported nodes, and lowering of regions to kernels."""

from __future__ import annotations

from tvmrt.compiler.sdk.devices import Context, Device, register
from tvmrt.compiler.sdk.graph import DeviceMemory, Node, Region, kernel_record
from tvmrt.plugins.opencl.kernel import CL_TYPES, MAX_ELEMENTS
from tvmrt.plugins.opencl.kernels import KERNELS
from tvmrt.plugins.opencl.operator import ALIASES, custom_refusal, lower
from tvmrt.plugins.opencl.pointwise import template


@register
class OpenCLDevice(Device):
    """User kernels, pointwise operators, convolutions, matmuls and reshapes."""

    name = "opencl"
    version = 1  # version of the nodes' meaning, as in opencl.c
    memory = DeviceMemory("opencl", 4, align_bytes=512)  # as in opencl.c; 4 is kDLOpenCL

    def refuses(self, context: Context) -> str | None:
        if context.runtime == "crt":
            return "OpenCL needs an operating system"
        return None

    def supports(self, node: Node) -> str | None:
        if kernel_record(node) is not None:
            return custom_refusal(node)
        values = [*(v for v in node.inputs if v is not None), *node.outputs]
        for value in values:
            if value.dtype.name not in CL_TYPES:
                return f"OpenCL devices need not have elements of type {value.dtype}"
            if value.type.size > MAX_ELEMENTS:
                return f"a tensor of {value.type.size} elements is too large"
        if node.op in ALIASES or node.op in KERNELS or template(node) is not None:
            return None
        return f"there is no OpenCL kernel for {node.op} of {values[0].dtype}"

    def optimize(self, region: Region) -> Region:
        lower(region.graph)
        return region
