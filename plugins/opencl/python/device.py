"""The opencl device: supported nodes, and lowering of regions to kernels."""

from __future__ import annotations

from tvmrt.compiler.devices.base import Context, Device
from tvmrt.compiler.devices.registry import register
from tvmrt.compiler.ir import DeviceMemory, Node, Region
from tvmrt.compiler.ir.op import VIEW, get_op
from tvmrt.plugins.opencl.kernel import CL_TYPES, MAX_ELEMENTS
from tvmrt.plugins.opencl.kernels import BUILDERS
from tvmrt.plugins.opencl.lower import MAX_OPERANDS, is_pointwise, lower
from tvmrt.plugins.opencl.operator import custom_refusal
from tvmrt.plugins.opencl.recurrent import RECURRENT
from tvmrt.plugins.opencl.recurrent import refusal as recurrent_refusal

# kernels that only move elements
_ANY_TYPE = {"concat", "pad", "pick", "gather", "gather_elements", "gather_nd"}
# int8 kernels, whose types the operators define
_INT8_TYPES = {
    "quantize",
    "dequantize",
    "qconv",
    "qmatmul",
    "qmatmul_computed",
    "table",
    "qadd",
    "qmul",
}
_INT8_TYPES |= {"qmax_pool", "qavg_pool", "qavg_pool_zero_first"}


@register
class OpenCLDevice(Device):
    """Pointwise operators, convolutions, matmuls, pooling, reductions, softmax, resizing, data
    movement, gathers, recurrent cells, quantised operators, and user kernels."""

    name = "opencl"
    version = 1  # version of the nodes' meaning, as in opencl.c
    memory = DeviceMemory("opencl", 4, align_bytes=512)  # as in opencl.c; 4 is kDLOpenCL

    def refuses(self, context: Context) -> str | None:
        if context.runtime == "crt":
            return "OpenCL needs an operating system"
        return None

    def supports(self, node: Node) -> str | None:
        if node.op == "custom":
            return custom_refusal(node)
        values = [*(v for v in node.inputs if v is not None), *node.outputs]
        for value in values:
            if value.dtype.name not in CL_TYPES:
                return f"OpenCL devices need not have elements of type {value.dtype}"
            if value.type.size > MAX_ELEMENTS:
                return f"a tensor of {value.type.size} elements is too large"
        if get_op(node.op).kind == VIEW or is_pointwise(node):
            return None
        if node.op in RECURRENT:
            return recurrent_refusal(node)
        if node.op not in BUILDERS:
            return f"there is no OpenCL kernel for {node.op} of {values[0].dtype}"
        return _kernel_refusal(node)

    def optimize(self, region: Region) -> Region:
        lower(region.graph)
        return region


def _kernel_refusal(node: Node) -> str | None:
    if node.op == "concat" and len(node.inputs) > MAX_OPERANDS:
        return f"a kernel joins {MAX_OPERANDS} tensors at most"
    if node.op in _ANY_TYPE:
        return None
    if node.op in _INT8_TYPES:
        wide = any(v.dtype.name == "uint32" for v in node.inputs if v is not None)
        return "the OpenCL kernel of dequantize computes in int32" if wide else None
    for value in node.inputs if node.op not in ("resample",) else node.inputs[:1]:
        if value is not None and value.dtype.name != "float32":
            return f"the OpenCL kernel of {node.op} computes in float32, not in {value.dtype}"
    if node.op.startswith("reduce_") and not node.attrs["axes"]:
        return "there is nothing to reduce"
    return None
