"""Layers of microcontrollers a few rows at a time (``kernels/board/rows.h``)."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tvmrt.ir import DTYPES, Value
from tvmrt.ir.extent import most
from tvmrt.ir.program import ARENA, Buffer, Step
from tvmrt.planner.row_chains import RowLayer

from ...c.text import braces
from ...c.writer import FunctionWriter
from ...lowering import Lowering
from ..plan import Window
from .kernel import MicroKernel, Shaped
from .shape import MicroShape

# What layers take of instructions, in parts of what their kernels take in long loops; measured on a
# Cortex-M4F.
SHORT_LOOPS = 1.45


class CutByKernel(Lowering):
    """A lowering whose layers a kernel of the board computes a few rows at a time."""

    def _row_kernel(self, step: Step) -> tuple[Shaped, MicroKernel] | None:
        """The layer and its kernel in a chain; None where it can be in none."""
        raise NotImplementedError

    def row_operand(self, step: Step) -> int:
        return step.read_values.index(self.node.inputs[0])

    def row_step(self, step: Step) -> Step:
        return with_ring(step, *self._row_kernel(step))

    def row_blocks(self, step: Step) -> tuple[int, ...]:
        layer, kernel = self._row_kernel(step)
        return () if layer.shape.depthwise else (kernel.scratch(layer).bytes,)

    def row_work(self, step: Step) -> int:
        _, kernel = self._row_kernel(step)
        return super().row_work(step) + int(most(self.macs()) * kernel.cost * SHORT_LOOPS)


def can_be_cut(shape: MicroShape, step: Step) -> bool:
    """Whether a layer has images of rows that no run chooses, windows that a ring can hold where it
    is depthwise, and what follows its sums reads neither its input nor constants that differ by
    row."""
    sizes = (shape.batch, *shape.in_, *shape.out, shape.x_stride, shape.y_stride)
    image = len(step.writes[0].shape) == 4
    known = all(isinstance(n, int) for n in sizes)
    after = {v for node in step.group.after for v in node.inputs if v is not None}
    plain = step.group.root.inputs[0] not in after and all(of_channels(v) for v in after)
    held = not shape.depthwise or shape.ring_rows >= shape.stride[0]
    return known and image and plain and held and shape.pad[0] >= 0


def of_channels(value: Value) -> bool:
    """Whether a value is no constant that has rows or columns."""
    pixels = value.shape[-2:] if value.type.rank > 1 else value.shape
    return not value.is_constant or value.type.size == 1 or prod(pixels) == 1


def row_layer(layer: Shaped, kernel: MicroKernel, x_bytes: int, y_bytes: int) -> RowLayer:
    """What the planner of chains is told of a layer that can be cut, and its bytes of elements."""
    shape = layer.shape
    below = shape.pointwise and shape.y_stride * y_bytes <= shape.x_stride * x_bytes
    return RowLayer(
        shape.in_[0],
        shape.out[0],
        shape.in_[1] * shape.x_stride * x_bytes,
        shape.out[1] * shape.y_stride * y_bytes,
        max(shape.ring_rows, shape.stride[0]),
        shape.stride[0],
        shape.pad[0],
        kernel.unit if shape.depthwise else 0,
        kernel.scratch(layer).bytes if shape.depthwise else 0,
        below or shape.depthwise,
    )


def pool_layer(window: Window, x_bytes: int, y_bytes: int) -> RowLayer | None:
    """The same of a layer that pools; None where it has no rows to be cut into."""
    sizes = (*window.in_, *window.out, *window.kernel, window.x_stride, window.y_stride)
    known = all(isinstance(n, int) for n in sizes)
    flat = (window.in_[0], window.out[0], window.kernel[0], window.stride[0], window.pad[0])
    if not known or flat != (1, 1, 1, 1, 0) or window.pad[1] < 0:
        return None
    reach = (window.kernel[1] - 1) * window.dilation[1] + 1
    return RowLayer(
        window.in_[1],
        window.out[1],
        window.in_[2] * window.x_stride * x_bytes,
        window.out[2] * window.y_stride * y_bytes,
        max(reach, window.stride[1]),
        window.stride[1],
        window.pad[1],
    )


def with_ring(step: Step, layer: Shaped, kernel: MicroKernel) -> Step:
    """The step with the ring of a depthwise layer as its scratch memory."""
    if not layer.shape.depthwise:
        return replace(step, scratch=None, scratch_bytes=0, kernel_bytes=0)
    nbytes = kernel.scratch(layer).bytes
    ring = Buffer(f"{step.name}_ring", DTYPES["uint8"], nbytes, ARENA)
    return replace(step, scratch=ring, scratch_bytes=nbytes, kernel_bytes=0)


def emit_call(
    f: FunctionWriter, layer: Shaped, kernel: MicroKernel, address: str, kind: str
) -> None:
    """Print the call of the kernel for some rows, of the layer at an ``address``, a struct of that
    ``kind``, and ``data``."""
    print_rows(f)
    if layer.shape.depthwise:
        f.line(f"return {kernel.rows}({address}, &data, &at, {f.scratch()});")
        return
    f.line(f"{kind} part = *{address};")
    f.line("tvmrt_micro_cut(&part.shape, &at);")
    f.line(f"return {kernel.call(layer, '&part')};")


def print_part(f: FunctionWriter, kind: str, name: str) -> str:
    """Print the layer ``name`` of a pool, a struct of that ``kind``, as it is for some rows; its
    address."""
    print_rows(f)
    f.line(f"{kind} part = {name};")
    f.line("tvmrt_window_cut(&part.window, &part.pad_end[1], &at);")
    return "&part"


def print_rows(f: FunctionWriter) -> None:
    """Print ``at``, the rows that the function is called for."""
    f.include("board/rows.h")
    numbers = [f.number(name) for name in ("first", "count", "row", "rows")]
    f.line(f"const tvmrt_micro_rows at = {braces(numbers)};")
