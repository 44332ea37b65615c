"""Integer layers of microcontrollers a few rows at a time (``kernels/board/rows.h``)."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tvmrt.ir import DTYPES, Value
from tvmrt.ir.program import ARENA, Buffer, Step
from tvmrt.planner.row_chains import RowLayer

from ...c.text import braces
from ...c.writer import FunctionWriter
from .kernel import MicroKernel
from .layer_i8 import MicroLayer
from .shape import MicroShape


def can_be_cut(shape: MicroShape, step: Step) -> bool:
    """Whether a layer is one image of rows that no run chooses, has windows without gaps between
    rows, and what follows its sums reads neither its input nor constants that differ by row."""
    sizes = (shape.batch, *shape.in_, *shape.out, shape.x_stride, shape.y_stride)
    image = len(step.writes[0].shape) == 4 and shape.batch == 1
    known = all(isinstance(n, int) for n in sizes)
    after = {v for node in step.group.after for v in node.inputs if v is not None}
    plain = step.group.root.inputs[0] not in after and all(_of_channels(v) for v in after)
    whole = 0 <= shape.pad[0] and _reach(shape) >= shape.stride[0]
    return known and image and plain and whole


def _of_channels(value: Value) -> bool:
    """Whether a value is no constant that has rows or columns."""
    pixels = value.shape[-2:] if value.type.rank > 1 else value.shape
    return not value.is_constant or value.type.size == 1 or prod(pixels) == 1


def _reach(shape: MicroShape) -> int:
    return (shape.kernel[0] - 1) * shape.dilation[0] + 1


def row_layer(layer: MicroLayer, kernel: MicroKernel, y_bytes: int) -> RowLayer:
    """What the planner of chains is told of a layer that can be cut."""
    shape = layer.shape
    below = shape.pointwise and shape.y_stride * y_bytes <= shape.x_stride
    return RowLayer(
        shape.in_[0],
        shape.out[0],
        shape.in_[1] * shape.x_stride,
        shape.out[1] * shape.y_stride * y_bytes,
        _reach(shape),
        shape.stride[0],
        shape.pad[0],
        kernel.unit if shape.depthwise else 0,
        kernel.scratch(layer).bytes if shape.depthwise else 0,
        below or shape.depthwise,
    )


def with_ring(step: Step, layer: MicroLayer, kernel: MicroKernel) -> Step:
    """The step with the ring of a depthwise layer as its scratch memory."""
    if not layer.shape.depthwise:
        return replace(step, scratch=None, scratch_bytes=0, kernel_bytes=0)
    nbytes = kernel.scratch(layer).bytes
    ring = Buffer(f"{step.name}_ring", DTYPES["uint8"], nbytes, ARENA)
    return replace(step, scratch=ring, scratch_bytes=nbytes, kernel_bytes=0)


def emit_call(f: FunctionWriter, layer: MicroLayer, kernel: MicroKernel, address: str) -> None:
    """Print the call of the kernel for some rows, of the layer at an ``address`` and ``data``."""
    f.include("board/rows.h")
    numbers = [f.number(name) for name in ("first", "count", "row", "rows")]
    f.line(f"const tvmrt_micro_rows at = {braces(numbers)};")
    if layer.shape.depthwise:
        f.line(f"return {kernel.rows}({address}, &data, &at, {f.scratch()});")
        return
    f.line(f"const tvmrt_micro_conv_i8 part = tvmrt_micro_part({address}, &at);")
    f.line(f"return {kernel.function(layer)}(&part, &data);")
