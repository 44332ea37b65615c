"""The kernel operator of the device's regions, and lowering of nodes to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvmrt.compiler.sdk.graph import (
    Contract,
    Graph,
    Node,
    Op,
    TensorType,
    call_of,
    kernel_record,
    register,
    text_of_types,
    types_of_text,
)
from tvmrt.plugins.opencl.kernel import Kernel
from tvmrt.plugins.opencl.kernels import KERNELS
from tvmrt.plugins.opencl.pointwise import pointwise

KERNEL = "custom_opencl"
ALIASES = ("reshape", "identity")  # as in buffers.c: they only rename a buffer


@register(KERNEL)
class OpenClKernel(Op):
    """Kernel; occurs only in regions of the device.

    ``operator``: the qualified name, for messages; ``source``: the program's text; ``function``:
    the ``__kernel`` to run; ``build_options``: for clBuildProgram; ``global_size``, ``local_size``:
    lists of one to three sizes, the latter empty if the driver may choose; ``scalar_types``: "int
    uint float bool half" of each scalar parameter, separated by blanks; ``scalars``: their values
    as floats, in order (32-bit integers are exact); ``types``: the outputs' types such as
    "float32:1x3x8x8", separated by blanks. The kernel's arguments are a ``__global`` pointer to
    every present input, in order, one to every output, then the scalars; a bool is passed as int, a
    half as its 16 bits. Operands are dense, row-major. ``images``: which inputs and outputs are
    image objects, one word each: "2d", "array" or "-".
    """

    contract = Contract(
        "inputs*: any[*]",
        "operator: text, source: text, function: text, build_options: text, "
        "global_size: ints 1.., local_size: ints 1.., scalar_types: text, scalars: floats, "
        "types: text, images?: text",
    )

    def results(self, known: Mapping[str, Any]) -> list[TensorType]:
        return types_of_text(known["types"])


def custom_refusal(node: Node) -> str | None:
    """Return why a ``custom`` node has no OpenCL body for its operands; None if it has one."""
    return node.attrs["operator"].opencl_refusal(call_of(node))


def lower(graph: Graph) -> None:
    """Convert every node of a region's graph to a kernel, except those that only rename."""
    for node in graph.nodes:
        if node.op in ALIASES:
            continue
        if (record := kernel_record(node)) is not None:
            types = text_of_types([v.type for v in node.outputs])
            attrs = {**record.opencl.attributes(call_of(node)), "types": types}
        else:
            kernel = Kernel(node)
            KERNELS.get(node.op, pointwise)(kernel, node)
            node.inputs, attrs = kernel.buffers, kernel.attributes()
        node.op, node.attrs = KERNEL, attrs
