"""Layers of microcontrollers by a kernel's descriptor, whole or a few rows at a time
(``kernels/board/partial_rows.h``)."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.program import Step
from tvmrt.compiler.ir.rounding import ceil_div
from tvmrt.compiler.ir.sizes import upper_bound
from tvmrt.compiler.planner.row_fusion_schedule import RowLayer

from ...c.formatting import braces
from ...c.writer import FunctionWriter
from ...geometry import Window
from ...loops.row_fusion_layers import with_scratch
from ...lowering import Scratch
from ...lowering_protocols import RowCosts, RowFusable, element_instructions
from .kernel import BoardLayer, KernelRegistry, MicroKernel
from .shape import MicroShape

# Instructions of layers relative to those of their kernels in long loops; measured on a Cortex-M4F.
SHORT_LOOP_FACTOR = 1.45
# Pixels of a pass over the weights, at most, of the kernels for which waiting for flash matters.
PIXELS_OF_A_PASS = 3


class BoardLowering(RowFusable):
    """A lowering whose layers a board kernel computes, whole or a few rows at a time."""

    kernels: KernelRegistry
    struct: str  # C type of a layer

    def board_layer(self, step: Step, by_rows: bool = False) -> BoardLayer | None:
        """Return the layer as board kernels see it, or None if none of them computes it."""
        raise NotImplementedError

    def print_board(
        self, step: Step, f: FunctionWriter, layer: BoardLayer, kernel: MicroKernel
    ) -> str:
        """Print the layer and its tensors, ``data``, as structs; return the layer's C address."""
        raise NotImplementedError

    def tile_scratch(self, step: Step) -> Scratch:
        """Return ``scratch()`` of the layer for tiles on hosts."""
        raise NotImplementedError

    def emit_tiles(self, step: Step, f: FunctionWriter) -> None:
        """Emit the layer with tiles on hosts."""
        raise NotImplementedError

    def scratch(self, step: Step) -> Scratch:
        layer = self.board_layer(step)
        if layer is None:
            return self.tile_scratch(step)
        kernel = self.kernels.choose(layer, self.target.board)
        return Scratch(kernel_blocks=(kernel.scratch(layer).bytes, step.weights_in_ram))

    def weights_read_often(
        self, step: Step, by_rows: bool = False
    ) -> tuple[np.ndarray, int] | None:
        """Return the weights that the kernel reads again for each few pixels, and how many times
        it reads them; None for other steps. ``by_rows``: of the kernel in a row-fused chain."""
        layer = self.board_layer(step, by_rows) if not step.guard else None
        if layer is None or layer.shape.of_run or layer.parts[0] is not layer:
            return None
        kernel = self.kernels.choose(layer, self.target.board, by_rows)
        shape, pixels = layer.shape, 1 if kernel.reads_weights_per_pixel else PIXELS_OF_A_PASS
        if shape.depthwise and not kernel.reads_weights_per_pixel:
            pixels = int(shape.out[1]) * max(1, kernel.unit // shape.stride[0])
        return kernel.pack(layer).weights, ceil_div(int(shape.pixels), pixels)

    def may_overwrite_input(self, step: Step) -> bool:
        """Return whether the output may have the memory of the input."""
        layer = self.board_layer(step)
        if layer is None or not layer.shape.in_place:
            return False
        return self.kernels.choose(layer, self.target.board).may_overwrite_input

    def emit(self, step: Step, f: FunctionWriter) -> None:
        layer = self.board_layer(step)
        if layer is None:
            self.emit_tiles(step, f)
            return
        kernel = self.kernels.choose(layer, self.target.board)
        f.result(kernel.call(layer, self.print_board(step, f, layer, kernel)))

    def _row_kernel(self, step: Step) -> tuple[BoardLayer, MicroKernel] | None:
        """Return the layer and its kernel in a chain, or None if it cannot be part of one."""
        layer = self.board_layer(step, by_rows=True)
        if layer is None or layer.parts[0] is not layer or not can_run_by_rows(layer.shape, step):
            return None
        return layer, self.kernels.choose(layer, self.target.board, by_rows=True)

    def row_layer(self, step: Step) -> RowLayer | None:
        kernel = self._row_kernel(step)
        x_bytes, y_bytes = self.node.inputs[0].dtype.itemsize, step.writes[0].dtype.itemsize
        return kernel and row_layer(*kernel, x_bytes, y_bytes)

    def row_operand(self, step: Step) -> int:
        return step.read_values.index(self.node.inputs[0])

    def row_step(self, step: Step) -> Step:
        layer, kernel = self._row_kernel(step)
        nbytes = kernel.scratch(layer).bytes if layer.shape.depthwise else 0
        return with_scratch(step, "ring", nbytes)  # the line buffer of a depthwise layer

    def row_costs(self, step: Step) -> RowCosts:
        layer, kernel = self._row_kernel(step)
        alone, macs = self.kernels.choose(layer, self.target.board), upper_bound(self.macs())
        return RowCosts(
            element_instructions(step) + int(macs * kernel.cost * SHORT_LOOP_FACTOR),
            int(macs * (kernel.cost - alone.cost)) if alone.cost else 0,
            0 if layer.shape.depthwise else kernel.scratch(layer).bytes,
        )

    def emit_rows(self, step: Step, f: FunctionWriter) -> None:
        layer, kernel = self._row_kernel(step)
        address = self.print_board(step, f, layer, kernel)
        print_row_range(f)
        if layer.shape.depthwise:
            f.result(f"{kernel.name}_rows({address}, &data, &at, {f.scratch()})")
            return
        f.line(f"{self.struct} part = *{address};")
        f.line("tvmrt_micro_restrict_dense(&part.shape, &at);")
        f.result(kernel.call(layer, "&part"))


def print_weights(f: FunctionWriter, step: Step, weights: np.ndarray) -> str:
    """Return the pointer to a layer's packed weights, which the step may copy to RAM."""
    name = f.constant("weights", weights)
    if not step.weights_in_ram:
        return name
    f.include("board/weights_in_ram.h")
    return f"tvmrt_micro_weights_in_ram({name}, {weights.nbytes})"


def can_run_by_rows(shape: MicroShape, step: Step) -> bool:
    """Return whether a layer can run a few rows at a time: images of static size, depthwise windows
    that fit a line buffer, and an epilogue that reads neither its input nor constants that differ
    by row."""
    image = len(step.writes[0].shape) == 4
    after = {v for node in step.group.after for v in node.inputs if v is not None}
    plain = step.group.root.inputs[0] not in after and all(is_per_channel(v) for v in after)
    keeps_window = not shape.depthwise or shape.line_buffer_rows >= shape.stride[0]
    return not shape.of_run and image and plain and keeps_window and shape.pad[0] >= 0


def is_per_channel(value: Value) -> bool:
    """Return whether a value is not a constant with rows or columns."""
    pixels = value.shape[-2:] if value.type.rank > 1 else value.shape
    return not value.is_constant or value.type.size == 1 or prod(pixels) == 1


def row_layer(layer: BoardLayer, kernel: MicroKernel, x_bytes: int, y_bytes: int) -> RowLayer:
    """Return the chain planner's view of a layer; ``x_bytes``, ``y_bytes``: element sizes."""
    shape, window = layer.shape, layer.shape.window
    below = shape.pointwise and window.y_stride * y_bytes <= window.x_stride * x_bytes
    return replace(
        row_dependencies(window, x_bytes, y_bytes),
        unit=kernel.unit if shape.depthwise else 0,
        line_buffer_bytes=kernel.scratch(layer).bytes if shape.depthwise else 0,
        may_overwrite_input=kernel.may_overwrite_input and (below or shape.depthwise),
    )


def pool_row_layer(window: Window, x_bytes: int, y_bytes: int) -> RowLayer | None:
    """Return the chain planner's view of a pooling layer, or None if it has no rows."""
    sizes = (*window.in_, *window.out, *window.kernel, window.x_stride, window.y_stride)
    is_static = all(isinstance(n, int) for n in sizes)
    rows = is_static and window.flat and window.pad[1] >= 0
    return row_dependencies(window, x_bytes, y_bytes) if rows else None


def row_dependencies(window: Window, x_bytes: int, y_bytes: int) -> RowLayer:
    """Return how rows of the output depend on rows of the input."""
    return RowLayer(
        window.in_[1],
        window.out[1],
        window.in_[2] * window.x_stride * x_bytes,
        window.out[2] * window.y_stride * y_bytes,
        max(window.window_extent(1), window.stride[1]),
        window.stride[1],
        window.pad[1],
    )


def print_pool_rows(f: FunctionWriter, layer: str) -> str:
    """Print a pooling layer restricted to some rows; return its address."""
    print_row_range(f)
    f.line(f"tvmrt_pool_layer part = {layer};")
    f.line("tvmrt_window_restrict_rows(&part.window, &part.pad_end[1], &at);")
    return "&part"


def print_row_range(f: FunctionWriter) -> None:
    """Print ``at``, the rows that a call of the function computes."""
    f.include("board/partial_rows.h")
    parameters = [f.int_parameter(name) for name in ("first", "count", "row", "rows")]
    f.line(f"const tvmrt_micro_rows at = {braces(parameters)};")
